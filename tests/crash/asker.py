"""An agent whose model is asked by the openai client, which repeats a request that timed out. Run as a process."""

import os

import openai

from counterfoil import Context, workflow

CLIENT_SECONDS = 0.5


def ask(question: str) -> str:
    """Ask once; the client asks once more by itself."""
    options = {"base_url": f"{os.environ['STUB']}/v1", "api_key": "sk-test-0123456789"}
    with openai.OpenAI(**options, timeout=CLIENT_SECONDS, max_retries=1) as client:
        messages = [{"role": "user", "content": question}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


@workflow
async def asker(ctx: Context, question: str) -> str:
    """One model call."""
    return await ctx.model(ask, question)
