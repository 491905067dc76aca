"""One call of a wrapped client as one model step, and what such a step may be told."""

import functools
import inspect
from typing import Any, TypedDict

import msgspec

from counterfoil.core.retry import Retry
from counterfoil.engine import bridge
from counterfoil.engine.branches import current_branches
from counterfoil.engine.calls import MODEL, Call, OnUnknown, Options
from counterfoil.engine.context import Context, current, options_here
from counterfoil.engine.definitions import model
from counterfoil.errors import ConcurrentCallError, CounterfoilError, DeclarationError
from counterfoil.integrations.answered import complete, http_module, recorded
from counterfoil.integrations.asked import Asked, asked_for, to_send

SECRETS = (
    *("api_key", "auth_token", "admin_api_key", "webhook_secret", "access_token", "_azure_ad_token"),
    *("aws_access_key", "aws_secret_key", "aws_session_token"),
)
"""Attributes of clients that hold a secret."""


class WrapOptions(TypedDict, total=False):
    """The options of a wrapped client's calls; each as in `counterfoil.model`."""

    name: str | None
    retry: Retry | None
    timeout: float | None
    on_unknown: OnUnknown | None
    worst_cost_usd: float | None
    version: str | None


class Sender(msgspec.Struct, frozen=True):
    """Who sends a request, and how: of no account for what is asked."""

    client: Any
    options: Any
    stream_class: Any = None  # what the client makes of a stream

    @property
    def is_async(self) -> bool:
        """Whether the client's calls are awaited."""
        return inspect.iscoroutinefunction(type(self.client).request)

    @property
    def response_class(self) -> Any:
        """What to ask the client for: the response itself, of its own HTTP library."""
        return http_module(self.client).Response


@model(opaque=("sender",))
async def ask(*, method: str, path: str, body: Any, query: Any, sender: Sender) -> dict[str, Any]:
    """Inside the step: send what is recorded, by the client's own `request`, and keep what comes back."""
    return recorded(await sender.client.request(sender.response_class, to_send(body, sender.options)))


@model(opaque=("sender",))
async def upload(*, method: str, path: str, body: Any, query: Any, content: Any, sender: Sender) -> dict[str, Any]:
    """As `ask`, with bytes whose digests are recorded."""
    return recorded(await sender.client.request(sender.response_class, to_send(body, sender.options)))


@model(opaque=("sender",))
def ask_plainly(*, method: str, path: str, body: Any, query: Any, sender: Sender) -> dict[str, Any]:
    """As `ask`, with a plain client: in a thread of the step's own."""
    return recorded(sender.client.request(sender.response_class, to_send(body, sender.options)))


@model(opaque=("sender",))
def upload_plainly(*, method: str, path: str, body: Any, query: Any, content: Any, sender: Sender) -> dict[str, Any]:
    """As `upload`, with a plain client."""
    return recorded(sender.client.request(sender.response_class, to_send(body, sender.options)))


def answer_now(client: Any, options: Any, settings: Options) -> dict[str, Any]:
    """As `answer_of`, for a plain client: waits here, while the loop goes on."""
    wait = bridge.waiter()
    if wait is None:
        raise cannot_wait(client)
    answer: dict[str, Any] = wait(answer_of(client, options, settings))
    return answer


def cannot_wait(client: Any) -> CounterfoilError:
    """Why plain code can't wait here."""
    name = type(client).__qualname__
    branches = current_branches.get()
    if branches is None or branches.of_current_task() is None:
        return ConcurrentCallError(what=name, how="from a thread or a task that no task of the workflow has made")
    if bridge.is_installed():
        problem, fix = "it was wrapped while the run was under way", "Wrap it before: at module level."
    else:
        problem = "a plain client in an async workflow needs the package greenlet"
        fix = f"Install counterfoil[sync], or use the async client Async{name}, or call it by ctx.model(function, ...)."
    return DeclarationError(name=name, problem=problem, fix=fix)


async def answer_of(client: Any, options: Any, settings: Options) -> dict[str, Any]:
    """The recorded answer to a call: from the record, or from a step that is made now."""
    context = current()
    learn_secrets(client, context)
    asked, options = asked_for(client, options)
    view = context.with_options(**given(options_here.get().over(settings), asked.name))
    try:
        answer: dict[str, Any] = await view.perform(MODEL, _call(asked, Sender(client, options)))
    except Exception as error:
        complete(client, options, error)
        raise
    return answer


def _call(asked: Asked, sender: Sender) -> Call[Any]:
    asks = {"method": asked.method, "path": asked.path, "body": asked.body, "query": asked.query, "sender": sender}
    if asked.content is None:
        return Call(ask if sender.is_async else ask_plainly, (), asks)
    return Call(upload if sender.is_async else upload_plainly, (), {**asks, "content": asked.content})


def secrets_of(client: Any) -> dict[str, str]:
    """The keys that the client holds, by name."""
    found = {name.lstrip("_"): getattr(client, name, None) for name in SECRETS}
    return {name: value for name, value in found.items() if type(value) is str}


def learn_secrets(client: Any, context: Context) -> None:
    """Keep the client's keys out of the record: those of now, since a client may be given another one."""
    for name, value in secrets_of(client).items():
        context.scrubber.add_key(name, value)


@functools.lru_cache(maxsize=256)
def given(settings: Options, name: str) -> Any:
    """The options of one step: those that `wrap` was given, and a name."""
    set_ = {each: getattr(settings, each) for each in WrapOptions.__annotations__}
    return {"name": name} | {each: value for each, value in set_.items() if value is not None}
