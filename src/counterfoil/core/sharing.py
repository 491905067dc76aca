"""Inputs that stand for the most part in an earlier one: a growing conversation is stored once, and read back whole.

What is stored of such an input is how much of an earlier one its beginning and its end are, and what is new between
them. Law: what is read back is, byte for byte, what was written; a reference to anything but an earlier input of the
same run is an error that names it, and never another input. In memory it is the same: a run's inputs together take as
much as what is new in each, and of those put together only the last few are kept. Which one to share, `nearest` says.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import eq, itemgetter
from typing import Any, NamedTuple, NoReturn, overload

import msgspec

from counterfoil.core.events import Event, StepIntended, encode
from counterfoil.core.parts import NONE, Send, Shared, Value
from counterfoil.errors import JournalUnreadableError

SAVED_BYTES_MIN = 256
"""Less than this is not worth a reference."""

REFERENCE_BYTES = 50
"""What a reference takes itself, about."""

KEPT_BYTES_MAX = 2_000_000
"""So much of what was put together is kept; the last one always."""

REQUESTS = "request"
"""The family of all requests. An input's is the kind and the name of its step."""

INSIDE = range(0x80, 0xC0)
"""Bytes with which a UTF-8 character goes on."""

Span = tuple[int, int, int]
"""Where it goes in what is put together; from where to where it stands in the piece that is looked at."""


def family_of(body: StepIntended) -> str:
    """Inputs of one family share each other."""
    return f"{body.kind} {body.name}"


class Place(NamedTuple):
    """Where an input stands: an event, and 0 for its own input, or which of its requests, from 1."""

    seq: int
    part: int = 0


class Piece:
    """An input as it is stored: what is new in it, and the one that holds the rest."""

    __slots__ = ("base", "family", "head", "middle", "place", "size", "step", "tail")

    def __init__(
        self, place: Place, step: str, family: str, *, middle: Value | bytes,
        base: "Piece | None" = None, shared: Shared | None = None,
    ) -> None:  # fmt: skip
        self.place, self.step, self.family = place, step, family
        self.middle, self.base = middle, base
        self.head, self.tail = (shared.head, shared.tail) if shared else (0, 0)
        self.size = self.head + len(memoryview(middle)) + self.tail

    def __bytes__(self) -> bytes:
        """The whole input."""
        return put_together(self, {})

    def cut(self, spans: Sequence[Span]) -> tuple[list[tuple[int, memoryview]], list[Span]]:
        """Of these parts: what stands here, with where it goes, and what stands in the base, as parts of that."""
        found, left, middle = [], [], memoryview(self.middle)
        until = self.size - self.tail
        shift = self.base.size - self.size if self.base else 0
        for at, start, end in spans:
            if start < self.head:
                left.append((at, start, min(end, self.head)))
            first, last = max(start, self.head), min(end, until)
            if first < last:
                found.append((at + first - start, middle[first - self.head : last - self.head]))
            if end > until:
                first = max(start, until)
                left.append((at + first - start, first + shift, end + shift))
        return found, left


def put_together(piece: Piece, known: Mapping[Place, bytes]) -> bytes:
    """The whole input; `known` has some that were put together before. One pass down, however long the chain is."""
    found: list[tuple[int, memoryview]] = []
    spans: list[Span] = [(0, 0, piece.size)]
    while spans and piece.base is not None and piece.place not in known:
        here, spans = piece.cut(spans)
        found += here
        piece = piece.base
    whole = memoryview(known.get(piece.place, piece.middle))
    found += [(at, whole[start:end]) for at, start, end in spans]
    return b"".join([part for _, part in sorted(found, key=itemgetter(0))])


def share(base: bytes, whole: bytes) -> tuple[int, int, str] | None:
    """How much of `base` begins and ends `whole`, in bytes, and the text between; None when that saves too little."""
    head = _back(whole, _same_beginning(base, whole))
    tail = len(whole) - _forth(whole, len(whole) - _same_end(base, whole, min(len(base), len(whole)) - head))
    if head + tail < SAVED_BYTES_MIN:
        return None
    try:
        middle = whole[head : len(whole) - tail].decode()
    except UnicodeDecodeError:
        return None
    return (head, tail, middle) if len(whole) - len(encode(middle)) - REFERENCE_BYTES > SAVED_BYTES_MIN else None


def _same_beginning(one: bytes, other: bytes) -> int:
    """Halved until it is found; each comparison looks at nothing that is known to be the same."""
    view, low, high = memoryview(one), 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if other.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _same_end(one: bytes, other: bytes, at_most: int) -> int:
    view, low, high = memoryview(one), 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if other.endswith(view[len(one) - middle : len(one) - low], 0, len(other) - low):
            low = middle
        else:
            high = middle - 1
    return low


def _back(text: bytes, at: int) -> int:
    """This place, or the one before it at which a character begins."""
    while 0 < at < len(text) and text[at] in INSIDE:
        at -= 1
    return at


def _forth(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in INSIDE:
        at += 1
    return at


class Inputs:
    """All inputs of one run, and the requests that were kept, as they are stored."""

    def __init__(self, run: str) -> None:
        self._run = run
        self.order: list[Piece] = []  # those that others may share, in the order of the journal
        self._pieces: dict[Place, Piece] = {}
        self._checked: tuple[Event, Piece] | None = None  # to be taken next
        self._wholes: dict[Place, bytes] = {}  # the last few that were put together, the oldest first

    def check(self, event: Event) -> None:
        """Raise JournalUnreadableError unless the rest of this input is an earlier input of the run."""
        if isinstance(event.body, StepIntended) and event.body.shared is not None:
            self._checked = event, self._input(event, event.body)

    def take(self, event: Event) -> list[Piece]:
        """Take in what an event holds: the input of an intent, or the requests of an outcome.

        A request whose rest is not there is passed over, because no replay needs it.
        """
        body = event.body
        if isinstance(body, StepIntended):
            checked, piece = self._checked or (None, None)
            self._checked = None
            return [self._taken(piece if piece and checked is event else self._input(event, body))]
        return [self._taken(piece) for piece in self._requests(event, getattr(body, "sends", ()))]

    def _taken(self, piece: Piece) -> Piece:
        if piece.size > SAVED_BYTES_MIN:  # nothing shorter can be a base
            self.order.append(piece)
        if (
            piece.size > SAVED_BYTES_MIN or piece.base is not None
        ):  # a shorter one shares nothing, unless the row was altered
            self._pieces[piece.place] = piece
        return piece

    def whole(self, given: "Value | Piece") -> bytes:
        """The bytes of an input that is stored whole, or as a piece."""
        if not isinstance(given, Piece):
            return bytes(given)
        whole = self._wholes.pop(given.place, None)
        return self._keep(given, put_together(given, self._wholes) if whole is None else whole)

    def keep(self, whole: bytes) -> None:
        """Keep what the last input that was taken in will be when it is put together: the next one may share it."""
        self._keep(self.order[-1], whole)

    def _keep(self, piece: Piece, whole: bytes) -> bytes:
        self._wholes[piece.place] = whole
        left = sum(map(len, self._wholes.values()))
        for place in list(self._wholes)[:-1]:
            if left <= KEPT_BYTES_MAX:
                break
            left -= len(self._wholes.pop(place))
        return whole

    def whole_event(self, event: Event) -> Event:
        """The event with its input, and its requests, whole. It was taken in before."""
        body: Any = event.body
        if isinstance(body, StepIntended) and body.shared is not None:
            piece = self._pieces[Place(event.seq)]
            body = msgspec.structs.replace(body, input=self._whole_json(event, piece), shared=None)
        elif any(send.request_shared for send in getattr(body, "sends", ())):
            sends = [self._whole_send(event, send, part) for part, send in enumerate(body.sends, 1)]
            body = msgspec.structs.replace(body, sends=tuple(sends))
        return event if body is event.body else msgspec.structs.replace(event, body=body)

    def _whole_send(self, event: Event, send: Send, part: int) -> Send:
        piece = self._pieces.get(Place(event.seq, part))
        if piece is None or send.request_shared is None:
            return send
        with suppress(JournalUnreadableError):
            return msgspec.structs.replace(send, request=self._whole_json(event, piece), request_shared=None)
        return send

    def _whole_json(self, event: Event, piece: Piece) -> Value:
        """What was put together, if it is a value at all: rows may be altered."""
        whole = self.whole(piece)
        try:
            msgspec.json.decode(whole.decode(), type=Value)  # looks at its form, and builds nothing
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._refuse(event, f"what it shares with others is no value when it is put together: {error}")
        return Value(whole)

    def _input(self, event: Event, body: StepIntended) -> Piece:
        return self._piece(event, Place(event.seq), body.input, shared=body.shared, family=family_of(body))

    def _requests(self, event: Event, sends: Sequence[Send]) -> Iterator[Piece]:
        for part, send in enumerate(sends, 1):
            if send.request_shared or send.request != NONE:
                place = Place(event.seq, part)
                with suppress(JournalUnreadableError):
                    yield self._piece(event, place, send.request, shared=send.request_shared, family=REQUESTS)

    def _piece(self, event: Event, place: Place, value: Value, *, shared: Shared | None, family: str) -> Piece:
        step = event.step or ""
        if shared is None:
            return Piece(place, step, family, middle=value)
        base = self._pieces.get(Place(shared.base, shared.part))
        if base is None or base.place >= place:
            self._refuse(event, f"event {shared.base}, in which the rest of its input should stand, is no such input")
        if min(shared.head, shared.tail) < 0 or shared.head + shared.tail > base.size:
            self._refuse(event, f"more of its input should stand in event {shared.base} than there is")
        try:
            middle = msgspec.json.decode(bytes(value), type=str).encode()
        except msgspec.MsgspecError as error:
            self._refuse(event, f"what is new in its input can't be read: {error}")
        return Piece(place, step, family, middle=middle, base=base, shared=shared)

    def _refuse(self, event: Event, problem: str) -> NoReturn:
        raise JournalUnreadableError(run=self._run, seq=event.seq, type=event.type, problem=problem)


class WholeEvents(Sequence[Event]):
    """Events as people read them, each with its whole input, put together when it is asked for.

    Raises JournalUnreadableError when one can't be.
    """

    def __init__(self, run: str, stored: Sequence[Event]) -> None:
        self.stored = stored  # as they are in the store: enough for who looks at no input
        self._inputs = Inputs(run)
        for event in stored:
            self._inputs.take(event)

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[Event]:
        return map(self._inputs.whole_event, self.stored)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self._inputs.whole_event(event) for event in self.stored[index]]
        return self._inputs.whole_event(self.stored[index])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WholeEvents):
            return list(self.stored) == list(other.stored)
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment] # as a list
