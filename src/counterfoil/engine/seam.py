"""The one place through which every request of a live model step passes: `_send_single_request` of httpx and httpx2.

It is replaced once, at the classes, when a model step goes live and the module is loaded, or as soon as it is. So every
client is covered: one made before, one inside an SDK, sync or async. Outside of model steps it is one look at a context
variable. A thread that a step's function starts by `threading` has no context variables of it: what is sent there is
not seen.
"""

import contextlib
import functools
import hashlib
import re
import sys
import threading
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from counterfoil.engine.sends import Outgoing, Sends, Sent, current_sends
from counterfoil.engine.tee import AsyncTee, Body, SyncTee

MODULES = frozenset({"httpx", "httpx2"})
NEEDED = ("Client", "AsyncClient", "SyncByteStream", "AsyncByteStream", "Response")
HEADER = "Idempotency-Key"
OURS = "counterfoil_key"
"""In a request's extensions: the key that we put on it, so that it is not taken for the caller's own."""

SECRET_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key")
SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token"})
SECRET_MEMBERS = frozenset(
    {"client_secret", "client_assertion", "refresh_token", "access_token", "password", "api_key"}
)
"""Of a body: what a request for a token carries, and one to a proxy of models."""

UPLOAD_BYTES_MAX = 64 * 1024 * 1024
"""An upload in parts up to this size is read once before it is sent, so that its key is that of its content."""

_BOUNDARY = re.compile(r'boundary="?([^";]+)')
_lock = threading.Lock()
_covered: set[str] = set()


def cover() -> None:
    """Replace the methods of the modules that are loaded, unless that is done; of others as soon as they are."""
    if _covered == MODULES:
        return
    with _lock:
        if _watch not in sys.meta_path:
            sys.meta_path.insert(0, _watch)
        for name in MODULES - _covered:
            module = sys.modules.get(name)
            if module is not None:
                _cover(name, module)


def _cover(name: str, module: Any) -> None:
    if name in _covered or not all(hasattr(module, part) for part in NEEDED):  # another thread is just importing it
        return
    kinds = _Kinds(module)
    for client, around in ((module.Client, _around), (module.AsyncClient, _around_async)):
        method = "_send_single_request" if hasattr(client, "_send_single_request") else "send"
        setattr(client, method, around(getattr(client, method), kinds))
    _covered.add(name)


class _Watch(MetaPathFinder):
    """Covers a module that is imported later, such as in the step's function itself."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The spec that the others find, with a look at the module once it is loaded."""
        if name not in MODULES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for each in others if (found := each.find_spec(name, path, target))), None)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, cover)
        return spec


def _then(loader: Any, act: Callable[[], None]) -> None:
    """Act when this loader has loaded its module."""
    load = loader.exec_module

    def exec_module(module: Any) -> None:
        load(module)
        act()

    with contextlib.suppress(AttributeError):  # a loader that allows no such thing is left alone
        loader.exec_module = exec_module


_watch = _Watch()


class _Kinds:
    """Streams that this module takes for its own."""

    def __init__(self, module: Any) -> None:
        self.sync: Any = type("SyncTee", (SyncTee, module.SyncByteStream), {})
        self.asynchronous: Any = type("AsyncTee", (AsyncTee, module.AsyncByteStream), {})
        self._response = module.Response

    def decoder(self, encoding: str) -> Callable[[bytes], bytes]:
        """Decodes a whole body as the client would."""
        headers = {"content-encoding": encoding}
        return lambda raw: bytes(self._response(200, headers=headers, content=raw).content)


def _around(original: Any, kinds: _Kinds) -> Any:
    @functools.wraps(original)
    def send(self: Any, request: Any, **options: Any) -> Any:
        account = current_sends.get()
        if account is None:
            return original(self, request, **options)
        sent = _begin(account, request, kinds.sync)
        try:
            account.written_meanwhile(sent)
            response = original(self, request, **options)
        except BaseException as error:
            account.failed(sent, error)
            raise
        return _returned(sent, response, kinds.sync, kinds=kinds)

    return send


def _around_async(original: Any, kinds: _Kinds) -> Any:
    @functools.wraps(original)
    async def send(self: Any, request: Any, **options: Any) -> Any:
        account = current_sends.get()
        if account is None:
            return await original(self, request, **options)
        sent = _begin(account, request, kinds.asynchronous)
        try:
            await account.written(sent)
            response = await original(self, request, **options)
        except BaseException as error:
            account.failed(sent, error)
            raise
        return _returned(sent, response, kinds.asynchronous, kinds=kinds)

    return send


def _begin(account: Sends, request: Any, tee: Any) -> Sent:
    """Take a request down and put its key on it."""
    headers = _headers(request)
    url = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
    path = request.url.raw_path.partition(b"?")[0].decode("ascii")
    key = headers.get(HEADER.lower())
    boundary = _BOUNDARY.search(headers.get("content-type", ""))
    likeness = _likeness(request)
    sent = account.begin(
        Outgoing(
            method=request.method,
            url=url + path,
            path=path,
            body=_body_of(request, tee),
            likeness=likeness,
            boundary=boundary[1] if boundary else "",
            own_key=None if key == request.extensions.get(OURS) else key,
            is_retry=headers.get("x-stainless-retry-count", "0") != "0",
            sdk=headers.get("user-agent") or None,
            secrets=_secrets(request, headers),
        )
    )
    if sent.key is not None and sent.out.own_key is None:
        request.headers[HEADER] = request.extensions[OURS] = sent.key
    elif sent.key is None and key is not None:  # a redirect has made a GET of a POST, with its headers
        del request.headers[HEADER]
    return sent


def _headers(request: Any) -> dict[str, str]:
    """By names in lower case. To look each one up in the client's own object takes ten times as long."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers.raw}


def _body_of(request: Any, tee: Any) -> bytes | Body:
    """The body, if the client holds it whole. One that it reads as it sends is looked at only then."""
    content = vars(request).get("_content")
    if isinstance(content, bytes):
        return content
    body = Body()
    request.stream = tee(_own_stream(request), body)
    return body


def _own_stream(request: Any) -> Any:
    """The client's own stream of a request that may have been sent before."""
    stream = request.stream
    return stream.inner if isinstance(stream, SyncTee | AsyncTee) else stream


def _likeness(request: Any) -> str | None:
    """What tells an upload in parts from another one, if it is not too long and its files can be read twice."""
    stream, length = _own_stream(request), request.headers.get("content-length", "")
    fields, boundary = getattr(stream, "fields", None), getattr(stream, "boundary", None)
    is_short = length.isdecimal() and int(length) <= UPLOAD_BYTES_MAX
    if not is_short or not isinstance(fields, list) or not boundary or not all(map(_can_be_read_twice, fields)):
        return None
    content = hashlib.sha256()
    for piece in stream:
        content.update(piece.replace(boundary, b""))  # drawn anew by the client at each try
    return content.hexdigest()


def _can_be_read_twice(field: Any) -> bool:
    file = getattr(field, "file", b"")
    return isinstance(file, str | bytes) or (hasattr(file, "seekable") and bool(file.seekable()))


def _returned(sent: Sent, response: Any, tee: Any, *, kinds: _Kinds) -> Any:
    """Note the response, and look on as its body is read."""
    headers = response.headers
    encoding = headers.get("content-encoding", "").strip().lower()
    length = headers.get("content-length", "")
    is_read = response.is_closed
    body = Body(
        headers.get("content-type", "").partition(";")[0].strip().lower(),
        "" if is_read else encoding,
        decode=kinds.decoder(encoding),
        url=sent.out.url,
        length=int(length) if length.isdecimal() else None,
    )
    sent.body, sent.status = body, response.status_code
    if is_read:  # by a transport that makes whole responses
        body.feed(response.content)
        body.end()
    else:
        response.stream = tee(response.stream, body)
    return response


def _secrets(request: Any, headers: dict[str, str]) -> dict[str, str]:
    """Keys that the request carries, without the word before them that says what kind they are."""
    found = {name: headers.get(name, "").rpartition(" ")[2] for name in SECRET_HEADERS}
    if request.url.query:
        found |= {name: value for name, value in request.url.params.items() if name.lower() in SECRET_PARAMETERS}
    content = vars(request).get("_content")
    if isinstance(content, bytes) and any(name.encode() in content for name in SECRET_MEMBERS):
        members = _members(content, headers.get("content-type", ""))
        found |= {name: value for name, value in members.items() if name in SECRET_MEMBERS}
    return {name: value for name, value in found.items() if value}


def _members(content: bytes, media_type: str) -> dict[str, str]:
    """The texts of a body, by their names in it: of JSON, or of a form."""
    if media_type.startswith("application/x-www-form-urlencoded"):
        return dict(parse_qsl(content.decode("utf-8", "replace")))
    try:
        said = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: value for name, value in said.items() if isinstance(value, str)} if isinstance(said, dict) else {}
