"""The keys that the wrapped clients of this process hold.

They are known from the first event of a run on: one that was learned in the middle would be missing in the inputs
recorded before, and be taken out of the same inputs when they are compared.
"""

from counterfoil.core.scrub import Scrubber

_held: dict[tuple[str, str], None] = {}
_HELD_MAX = 1000  # clients made without end, each with a key of its own, must not fill the memory


def hold(name: str, value: str) -> None:
    """A client holds this key."""
    _held[name, value] = None
    if len(_held) > _HELD_MAX:
        del _held[next(iter(_held))]


def take_out_of(scrubber: Scrubber) -> None:
    """Keep all of them out of what is recorded."""
    for name, value in list(_held):
        scrubber.add_key(name, value)
