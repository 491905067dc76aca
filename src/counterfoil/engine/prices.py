"""What a model's answer cost: by the user's own table, or by genai-prices where that is installed.

Costs are notes for readers of the record. No replay depends on one, and no run waits for one or fails by one: the
package takes a second to import, so a thread does it when the process makes its first model call; answers that come
before the table is ready, and those of models that it does not know, have no price.
"""

import contextlib
import functools
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from counterfoil.core.clock import Instant, as_datetime
from counterfoil.core.events import Body, Event
from counterfoil.core.parts import Answer, Send
from counterfoil.core.tally import is_answered

PriceTable = Callable[[Answer], float | None]
"""A user's own table: dollars for an answer, or None. Its name is recorded with each cost."""
B = TypeVar("B", bound=Body)

PACKAGE = "genai_prices"
HTTP_CLIENTS = ("httpx", "httpx2")
WHEN_SHOWN = "when shown"
NAME_CHARACTERS_MAX = 100
COST_MAX = 1e12
"""A larger one is no cost. Sums of these are numbers."""
FLAVOURS = {
    "chat.completions": ("chat", "default"),
    "completions": ("chat", "default"),
    "responses": ("responses", "default"),
    "embeddings": ("embeddings", "chat", "default"),
    "messages": ("anthropic", "default"),
    "generate_content": ("default",),
}
"""What the package calls the shapes of usage, by what we call the API."""
MAKERS = {"messages": "anthropic", "generate_content": "google"}
OPEN_WEIGHTS = "gpt-oss"


class Table(msgspec.Struct, frozen=True):
    """A table of prices, whoever made it."""

    name: str  # recorded with each cost
    price: Callable[[Send, Instant], float | None]


class Prices:
    """Gives each answer its cost, as far as that is known now."""

    def __init__(self, own: PriceTable | None = None) -> None:
        self._own = None if own is None else _table_of(own)

    def wake(self) -> None:
        """A model is about to be called: begin to load the package, if it is needed and there. Does not wait."""
        if self._own is None:
            catalogue.begin()

    def priced(self, body: B, when: Instant) -> B:
        """The outcome with the costs of its answers. The body itself where there are none, or no price."""
        table = self._own or catalogue.table
        return _filled(body, when, table) if table else body


def priced_now(events: Iterable[Event]) -> list[Event]:
    """The events with prices for the answers that were recorded without one, marked as such. May wait for the import.

    Only for who looks at a record: nothing of this is written.
    """
    found = list(events)
    if not any(_needs_price(send) for event in found for send in _sends_of(event.body)):
        return found
    table = catalogue.load()
    if table is None:
        return found
    now = Table(f"{table.name}, {WHEN_SHOWN}", table.price)
    return [msgspec.structs.replace(event, body=_filled(event.body, event.time, now)) for event in found]


class _Catalogue:
    """The package, imported at most once a process, in a thread of its own."""

    table: Table | None = None
    _loading: threading.Thread | None = None
    _is_absent = False

    def begin(self) -> None:
        """Import it in a thread. Not before an HTTP client is loaded: without one no answer will be seen."""
        if self._loading or self._is_absent or not any(name in sys.modules for name in HTTP_CLIENTS):
            return
        self._is_absent = not _is_there()
        if not self._is_absent:  # the process waits for the thread: one that ends in an import may crash
            self._loading = threading.Thread(target=self._load, name="counterfoil-prices")
            with contextlib.suppress(RuntimeError):  # the process may have no more threads
                self._loading.start()

    def load(self) -> Table | None:
        """Import it now."""
        if self.table is None:
            self._load()
        return self.table

    def _load(self) -> None:
        with contextlib.suppress(Exception):  # without it no answer has a price, and the record says that
            import genai_prices  # noqa: PLC0415 - takes a second

            genai_prices.data_snapshot.get_snapshot()
            name = f"genai-prices {genai_prices.__version__}"
            self.table = Table(name, functools.partial(_list_price, genai_prices))


def _is_there() -> bool:
    try:
        return importlib.util.find_spec(PACKAGE) is not None
    except ValueError:  # a stand-in for it, as tests make them
        return False


catalogue = _Catalogue()


# --- filling in ---


def _filled(body: B, when: Instant, table: Table) -> B:
    sends = _sends_of(body)
    filled = tuple(_with_cost(send, when, table) if _needs_price(send) else send for send in sends)
    return body if filled == sends else msgspec.structs.replace(body, sends=filled)


def _with_cost(send: Send, when: Instant, table: Table) -> Send:
    cost: float | None = None
    with contextlib.suppress(Exception):  # a table that fails knows no price
        cost = _sane(table.price(send, when))
    if cost is None or send.answer is None:
        return send
    return msgspec.structs.replace(send, answer=msgspec.structs.replace(send.answer, cost_usd=cost, prices=table.name))


def _sends_of(body: Body) -> tuple[Send, ...]:
    sends: tuple[Send, ...] = getattr(body, "sends", ())
    return sends


def _needs_price(send: Send) -> bool:
    """Of an answer that was cut off nobody knows the tokens, so it has no price."""
    return send.answer is not None and send.answer.cost_usd is None and is_answered(send)


def _sane(cost: Any) -> float | None:
    """The cost as a number that can be written and added up."""
    number = None if cost is None else float(cost)
    return number if number is not None and 0 <= number <= COST_MAX else None


# --- the user's table ---


def _table_of(own: PriceTable) -> Table:
    name = str(getattr(own, "__name__", None) or type(own).__name__)
    return Table(name[:NAME_CHARACTERS_MAX], lambda send, _: own(send.answer) if send.answer is not None else None)


# --- the package's ---


def _list_price(package: Any, send: Send, when: Instant) -> float | None:
    """The list price of the host, if the package knows it, else that of the model's maker."""
    answer = send.answer
    model = answer and (answer.model or answer.asked)
    if answer is None or not model or not answer.usage:
        return None
    provider = _provider(package, send.url) or _maker(answer.api, model)
    if provider is None or not _is_known(package, provider, model):
        return None
    said = {"model": model, "usage": answer.usage, "modelVersion": model, "usageMetadata": answer.usage}
    for flavour in FLAVOURS.get(answer.api, ()):
        with contextlib.suppress(ValueError):  # the provider has no such flavour
            used = package.extract_usage(said, provider_id=provider, api_flavor=flavour)
            price = used.calc_price(genai_request_timestamp=as_datetime(when))
            return float(price.total_price) or None  # the table has 0 for free and for unknown alike
    return None


@functools.lru_cache(maxsize=256)
def _provider(package: Any, url: str) -> str | None:
    try:
        return str(package.data_snapshot.get_snapshot().find_provider(None, None, url).id)
    except LookupError:
        return None


@functools.lru_cache(maxsize=256)
def _is_known(package: Any, provider: str, model: str) -> bool:
    """The package remembers only what it has found, and looks for anything else in the whole table, each time."""
    try:
        package.data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return False
    return True


def _maker(api: str, model: str) -> str | None:
    """Who makes the model behind a gateway. Open weights may run on anyone's computer, so they have no price."""
    return None if OPEN_WEIGHTS in model else MAKERS.get(api, "openai")
