"""Which earlier input of a run to share: of the ends of its conversations, the one that begins like the new input.

Law: the choice decides how much is stored, and nothing else. A few are compared in full, found by a few short samples
of each, so that it costs little with many conversations at once. An earlier try of the same step comes first,
then the last input of the same branch.
"""

from collections.abc import Iterator

from counterfoil.core.events import encode
from counterfoil.core.parts import Shared, Value
from counterfoil.core.sharing import REQUESTS, SAVED_BYTES_MIN, Inputs, Piece, share

ENDS_MAX = 32
"""So many conversations of a family are followed; of more, those that went on last, and the last one of each branch."""

COMPARED_MAX = 4
ENOUGH = 8
"""When no more than one part in so many is new, no other input is looked at."""

SAMPLE_BYTES = 32
SAMPLED = tuple(dict.fromkeys(int(SAVED_BYTES_MIN * 1.4**power) for power in range(36)))
"""Where samples end: from 256 bytes to some 30 MB, each as far again as nearly half of the way before it."""


class End:
    """The last input of a conversation, as far as is known."""

    def __init__(self, piece: Piece, number: int) -> None:
        self.piece, self.number = piece, number
        self.branch = _branch(piece.step)
        self._samples: list[tuple[int, bytes]] | None = None

    def likeness(self, raw: bytes, inputs: Inputs) -> int:
        """About how far the other begins like this one."""
        if self._samples is None:
            whole = inputs.whole(self.piece)
            self._samples = [(end, whole[end - SAMPLE_BYTES : end]) for end in SAMPLED if end <= len(whole)]
        found = (end for end, sample in reversed(self._samples) if raw.startswith(sample, end - SAMPLE_BYTES))
        return next(found, 0)


class Nearest:
    """Looks for what a new input of the run shares with the earlier ones."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs, self._seen = inputs, 0
        self._ends: dict[str, dict[Piece, End]] = {}  # by family; the one that went on last is the last
        self._of_step: dict[tuple[str, bool], Piece] = {}  # the last input of a step, and its last request
        self._of_branch: dict[tuple[str, str], Piece] = {}  # the last input of a branch, by family

    def shared(self, raw: bytes, *, step: str, family: str) -> tuple[Value, Shared] | None:
        """What to store in place of these bytes; None when they are to be stored whole."""
        if len(raw) <= 2 * SAVED_BYTES_MIN:
            return None
        self._catch_up()
        best: tuple[int, Piece, tuple[int, int, str]] | None = None
        for piece in self._candidates(raw, step, family):
            found = share(self._inputs.whole(piece), raw)
            if found and (best is None or len(found[2]) < best[0]):
                best = len(found[2]), piece, found
            if best and best[0] * ENOUGH <= len(raw):
                break
        if best is None:
            return None
        _, piece, (head, tail, middle) = best
        return Value(encode(middle)), Shared(base=piece.place.seq, part=piece.place.part, head=head, tail=tail)

    def _candidates(self, raw: bytes, step: str, family: str) -> Iterator[Piece]:
        """Earlier tries of the step, then a few ends of conversations, the likeliest first."""
        is_request = family == REQUESTS
        branch, likeness = _branch(step), {}
        own = [self._of_step.get((step, each)) for each in ((True, False) if is_request else (False,))]
        own.append(self._of_branch.get((branch, family)))
        yield from dict.fromkeys(filter(None, own))
        ends = [end for end in self._ends.get(family, {}).values() if end.piece not in own]
        for end in ends:
            turn = -end.number if end.branch == branch else end.number  # other branches take turns: the oldest is next
            like = end.likeness(raw, self._inputs) if len(ends) > 1 else 0
            likeness[end] = (-like, end.branch != branch, turn)
        yield from (end.piece for end in sorted(ends, key=likeness.__getitem__)[:COMPARED_MAX])

    def _catch_up(self) -> None:
        for piece in self._inputs.order[self._seen :]:
            self._follow(piece)
            self._seen += 1

    def _follow(self, piece: Piece) -> None:
        """A conversation goes on with this input, or begins."""
        self._of_step[piece.step, piece.family == REQUESTS] = piece
        self._of_branch[_branch(piece.step), piece.family] = piece
        ends = self._ends.setdefault(piece.family, {})
        if piece.base in ends and piece.base.size - piece.head - piece.tail < SAVED_BYTES_MIN:
            del ends[piece.base]  # it is all in the new one; else it may be another conversation that only begins alike
        ends[piece] = End(piece, self._seen)
        if len(ends) > ENDS_MAX:
            del ends[next(iter(ends))]


def _branch(step: str) -> str:
    return step.rpartition("/")[0]
