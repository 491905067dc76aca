"""A response as it is recorded, and the client's own response object made of it again.

Recorded are the status, the headers that say something about the answer, and the body, decoded but not interpreted. So
the value that the code gets is what the client of today makes of it, live as on replay, and no class of a client is in
the record.
"""

import functools
import sys
from types import ModuleType
from typing import Any, cast

from counterfoil.core.response import RecordedResponse
from counterfoil.errors import NotStorableError
from counterfoil.integrations.asked import package_of

HTTP_MODULES = frozenset({"httpx", "httpx2"})
RAW_RESPONSE = "X-Stainless-Raw-Response"
RETRY_COUNT = "x-stainless-retry-count"

ADDRESSES, ADDRESSES_MAX = "_counterfoil_addresses", 100

KEPT_HEADERS = frozenset(
    {
        *("content-type", "content-disposition", "request-id", "x-request-id", "apim-request-id", "x-amzn-requestid"),
        *("retry-after", "retry-after-ms", "openai-processing-ms", "openai-version", "openai-model"),
    }
)
OF_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers about how a body came, which a text has no more."""

KEPT_HEADERS_OF = ("x-ratelimit-", "anthropic-ratelimit-")
"""All headers that begin so."""


def recorded(response: Any) -> dict[str, Any]:
    """What is kept of a response: plain values. Raises NotStorableError for what is none."""
    return {**head_of(response), "body": _text(response.content)}


def head_of(response: Any) -> dict[str, Any]:
    """What is kept of a response before its body. Raises NotStorableError for what is none."""
    if not hasattr(response, "status_code"):
        raise NotStorableError(
            where="the answer",
            path="$",
            type=type(response).__name__,
            reason="a middleware of the client gave it in place of a response",
            fix="Make the call in a function of your own, and call that by ctx.model(function, ...).",
        )
    headers = {name.lower(): value for name, value in response.headers.items()}
    kept = {name: value for name, value in headers.items() if name in KEPT_HEADERS or name.startswith(KEPT_HEADERS_OF)}
    answer = {"status": response.status_code, "headers": kept}
    retries = response.request.headers.get(RETRY_COUNT, "0")
    return answer if retries == "0" else {**answer, "retries": int(retries)}


def rebuilt(client: Any, options: Any, answer: dict[str, Any]) -> Any:
    """A response of the client's own HTTP library, as it was recorded."""
    body = answer["body"]
    return http_module(client).Response(
        answer["status"],
        headers=answer["headers"],
        content=body.encode() if isinstance(body, str) else body,
        request=request_of(client, options),
    )


def complete(client: Any, options: Any, error: Exception) -> None:
    """Give a recorded exception of the client its request, and a response that can do what the client's can."""
    if type(error).__module__.partition(".")[0] != package_of(type(client)):
        return
    held = vars(error)
    held.setdefault("request", request_of(client, options))
    kept = held.get("response")
    if isinstance(kept, RecordedResponse):
        headers = {name: value for name, value in kept.headers.items() if name not in OF_TRANSFER}
        whole = {"status": kept.status_code, "headers": headers, "body": kept.text or ""}
        held["response"] = rebuilt(client, options, whole)


def request_of(client: Any, options: Any) -> Any:
    """The request that an answer is to: its method and address, and no header with a key."""
    return http_module(client).Request(options.method, _address(client, options.url), headers=_mark(options))


def _address(client: Any, path: str) -> Any:
    """Where a path of this client is, parsed once: parsing is dear."""
    base, known = vars(client).get(ADDRESSES, (None, {}))
    if base is not client._base_url or len(known) >= ADDRESSES_MAX:  # noqa: SLF001 - not told elsewhere
        base, known = client._base_url, {}  # noqa: SLF001
        setattr(client, ADDRESSES, (base, known))
    if path not in known:
        known[path] = http_module(client).URL(str(client._prepare_url(path)))  # noqa: SLF001
    return known[path]


def http_module(client: Any) -> ModuleType:
    """The HTTP library that a client sends with: httpx or httpx2."""
    return _http_module(cast("Any", type(client._client)))  # noqa: SLF001 - not told elsewhere


@functools.lru_cache(maxsize=64)
def _http_module(kind: type) -> ModuleType:
    roots = (each.__module__.partition(".")[0] for each in kind.__mro__)
    return sys.modules[next(root for root in roots if root in HTTP_MODULES)]


def _mark(options: Any) -> dict[str, str]:
    """The header by which the client knows that its caller wants the response itself."""
    headers = options.headers
    mark = headers.get(RAW_RESPONSE) if hasattr(headers, "get") else None
    return {RAW_RESPONSE: mark} if mark else {}


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
