"""What every error of ours is: a code, facts, a sentence made of them, and what to do next; and what is no error."""

from typing import Any, ClassVar


class CounterfoilError(Exception):
    """The root: catch it to catch all of ours.

    `code` never changes once released. `facts` holds the fields by name. `hint` says what to do next.
    """

    code: ClassVar[str] = "error"
    sentence: ClassVar[str] = "something went wrong"
    advice: ClassVar[str] = ""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(self.sentence.format_map(facts))

    @property
    def hint(self) -> str:
        """What to do next, in one or two sentences."""
        return self.advice.format_map(self.facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts)


def _rebuild(kind: type[CounterfoilError], facts: dict[str, Any]) -> CounterfoilError:
    return kind(**facts)


class Halted(BaseException):
    """Ends a workflow's body at a context call. A control signal, never an error: let it pass."""


class ClosureWarning(UserWarning):
    """A step's function uses something from around it that can't be recorded, so a change of it goes unnoticed."""
