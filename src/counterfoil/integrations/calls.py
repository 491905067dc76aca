"""One call of a wrapped client as one model step, and what such a step may be told."""

import functools
from typing import Any, TypedDict

from counterfoil.core.retry import Retry
from counterfoil.engine.calls import MODEL, Call, OnUnknown, Options
from counterfoil.engine.context import Context, current
from counterfoil.engine.definitions import model
from counterfoil.errors import DeclarationError
from counterfoil.integrations.answered import http_module, recorded
from counterfoil.integrations.asked import Asked, asked_for, to_send

SECRETS = ("api_key", "auth_token", "admin_api_key", "webhook_secret", "aws_secret_key", "aws_session_token")
"""Attributes of clients that hold a secret."""


class WrapOptions(TypedDict, total=False):
    """The options of a wrapped client's calls; each as in `counterfoil.model`."""

    name: str | None
    retry: Retry | None
    timeout: float | None
    on_unknown: OnUnknown | None
    worst_cost_usd: float | None
    version: str | None


@model(opaque=("client", "options"))
async def ask(*, method: str, path: str, body: Any, query: Any, client: Any, options: Any) -> dict[str, Any]:
    """Inside the step: send what is recorded, by the client's own `request`, and keep what comes back."""
    sent = to_send(Asked(method, path, body, query), options)
    return recorded(await client.request(http_module(client).Response, sent))


async def answer_of(client: Any, options: Any, settings: Options, *, streamed: bool) -> dict[str, Any]:
    """The recorded answer to a call: from the record, or from a step that is made now."""
    if streamed:
        raise DeclarationError(
            name="stream=True", problem="streams are yet to come", fix="Ask without stream=True in a workflow's body."
        )
    context = current()
    learn_secrets(client, context)
    asked = asked_for(client, options)
    view = context.with_options(**_given(settings, asked.name))
    asks = {"method": asked.method, "path": asked.path, "body": asked.body, "query": asked.query}
    answer: dict[str, Any] = await view.perform(MODEL, Call(ask, (), {**asks, "client": client, "options": options}))
    return answer


def learn_secrets(client: Any, context: Context) -> None:
    """Keep the values of the client's keys out of the record."""
    for name in SECRETS:
        value = getattr(client, name, None)
        if type(value) is str:
            context.scrubber.add_key(name, value)


@functools.lru_cache(maxsize=256)
def _given(settings: Options, name: str) -> Any:
    """The options of one step: those that `wrap` was given, and a name."""
    given = {each: getattr(settings, each) for each in WrapOptions.__annotations__}
    return {"name": name} | {each: value for each, value in given.items() if value is not None}
