"""Real clients to be wrapped, the calls that tests make with them, and a server for what the stub model does not speak.

Workflows take the client from here, as they would from their own module.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import anthropic
import openai

KEY = "sk-0123456789abcdef"
QUESTION = [{"role": "user", "content": "Do I need an umbrella in Paris?"}]


class Form(NamedTuple):
    """One way to ask a model: the clients, the call, and where the text of the answer is."""

    name: str  # of the step
    async_client: Any
    plain_client: Any
    base: str  # of the client's address, behind the stub's
    ask: Callable[[Any], Any]
    text: Callable[[Any], str]


def chat(client: Any) -> Any:
    return client.chat.completions.create(model="m", messages=QUESTION, temperature=0)


def respond(client: Any) -> Any:
    return client.responses.create(model="m", input="Do I need an umbrella in Paris?")


def message(client: Any) -> Any:
    return client.messages.create(model="m", max_tokens=100, messages=QUESTION)


OPENAI = (openai.AsyncOpenAI, openai.OpenAI, "/v1")
ANTHROPIC = (anthropic.AsyncAnthropic, anthropic.Anthropic, "")
FORMS = {
    "chat": Form("chat.completions", *OPENAI, chat, lambda answer: answer.choices[0].message.content),
    "responses": Form("responses", *OPENAI, respond, lambda answer: answer.output_text),
    "messages": Form("messages", *ANTHROPIC, message, lambda answer: answer.content[0].text),
}


class Here:
    """What stands at module level in a program: the client, and what a test wants done."""

    client: Any = None
    form: Form = FORMS["chat"]
    crashes = False
    seen: list[Any]
    stub: Any = None


HERE = Here()
HERE.seen = []


class Answers:
    """A server that gives what a test says, by method and path, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.bodies: list[bytes] = []

    def __enter__(self) -> Self:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

            def reply(self) -> None:
                answers.reply(self)

            do_GET = do_POST = do_DELETE = reply  # noqa: N815 - names of the class above

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        self.bodies.append(handler.rfile.read(int(handler.headers["content-length"] or 0)))
        asked = f"{handler.command} {handler.path}"
        self.asked.append(asked)
        answer = self.answers[asked]
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        handler.send_response(200)
        handler.send_header("content-type", "audio/mpeg" if isinstance(answer, bytes) else "application/json")
        handler.send_header("x-request-id", f"req_{len(self.asked)}")
        handler.send_header("content-length", str(len(content)))
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.wfile.write(content)
