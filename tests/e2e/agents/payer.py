"""An agent with a real client, whose answers are priced by the installed table."""

import os

import openai

from counterfoil import Context, workflow, wrap
from counterfoil.engine.prices import catalogue

catalogue.load()  # now, so that no answer comes before it
client = wrap(
    openai.AsyncOpenAI(base_url=f"{os.environ['STUB']}/v1", api_key="no key", max_retries=1), worst_cost_usd=0.02
)


@workflow
async def pay(ctx: Context, model: str) -> str:
    for question in ("Which city?", "Umbrella?"):
        messages = [{"role": "user", "content": question}]
        answer = await client.chat.completions.create(model=model, messages=messages)
    return answer.choices[0].message.content
