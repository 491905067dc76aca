"""What a client's call asks for: the input of its step, and the very request that is sent for it.

What is sent is made from what is recorded, so the two can't differ. No key, no header, no address and no time limit is
part of it: those may be others when the run is resumed.
"""

import copy
import functools
import json
import sys
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec

from counterfoil.integrations import uploads

NOT_SENT = frozenset({"Omit", "NotGiven"})
"""Classes of values that stand for nothing: clients leave them out."""

OF_ONE_ANSWER = frozenset({"x-stainless-raw-response", "____stainless_override_cast_to"})
"""Headers by which a client tells itself what to make of the answer; none of them is sent as it stands."""


class Asked(msgspec.Struct, frozen=True):
    """One call of a client, as its step has it: the input, by parameter name."""

    method: str
    path: str
    body: Any  # plain JSON
    query: Any
    content: Any = None  # of files and other bytes: digests

    @property
    def name(self) -> str:
        """The path in dots."""
        _, _, path = self.path.rpartition("://")[2].partition("/") if "://" in self.path else ("", "", self.path)
        found = ".".join(part for part in path.split("/") if part and part != "v1")
        return found if found and found.isprintable() else "request"


class _OddError(Exception):
    """A value that is no plain JSON."""


def asked_for(client: Any, options: Any) -> tuple[Asked, Any]:
    """What these options of a request ask for, and the same options with all bytes at hand.

    Raises NotStorableError for bytes that come bit by bit.
    """
    options, content = uploads.read(options)
    path, _, query = options.url.partition("?")
    body, asks = _body(client, options), _query(client, options.params, query)
    return Asked(options.method.lower(), path, body, asks, content), options


def to_send(body: Any, options: Any) -> Any:
    """The same options with the body that is recorded, and without what is only about the answer."""
    sent, kind = copy.copy(options), cast("Any", type(options))
    given = vars(sent)
    given |= _of_none(kind)
    if isinstance(options.headers, Mapping):
        given["headers"] = {k: v for k, v in options.headers.items() if k.lower() not in OF_ONE_ANSWER}
    if body is not None:
        given["json_data"] = body
    return sent


@functools.cache
def _of_none(kind: Any) -> dict[str, Any]:
    """What options of this class have where nothing was given."""
    plain = vars(kind.construct(method="post", url=""))
    return {name: plain[name] for name in ("json_data", "extra_json", "post_parser", "headers")}


def package_of(kind: type) -> str:
    """The name of the package that a class of clients comes from, whatever class a user made of it."""
    origin = next(each for each in kind.__mro__ if "_process_response" in vars(each))
    return origin.__module__.partition(".")[0]


def _body(client: Any, options: Any) -> Any:
    data, extra = options.json_data, options.extra_json
    if isinstance(data, bytes | bytearray):
        return None
    if extra is not None:
        data = extra if data is None else {**data, **extra}
    try:
        return _plain(data)
    except _OddError:
        return _as_written(client, data)


def _query(client: Any, params: Mapping[str, Any], of_path: str) -> Any:
    given = {name: value for name, value in dict(params).items() if type(value).__name__ not in NOT_SENT}
    try:
        return {**dict(parse_qsl(of_path, keep_blank_values=True)), **_plain(given)}
    except _OddError:
        return client.qs.stringify(given)


def _plain(value: Any) -> Any:
    """A copy of plain JSON, without what stands for nothing."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None or kind is float:
        return value
    if kind is dict:
        if any(type(name) is not str for name in value):
            raise _OddError
        return {name: _plain(item) for name, item in value.items() if type(item).__name__ not in NOT_SENT}
    if kind is list or kind is tuple:
        return [_plain(item) for item in value]
    raise _OddError


def _as_written(client: Any, data: Any) -> Any:
    """What the client itself would write for models, dates and the like."""
    tools = f"{package_of(type(client))}._utils"
    prepare = getattr(sys.modules.get(f"{tools}._prepare"), "prepare_request_data", None)
    if prepare:  # newer clients do this within `request`; older ones had done it before
        data = prepare(data, location="body")
    return json.loads(getattr(sys.modules.get(f"{tools}._json"), "openapi_dumps", json.dumps)(data))
