"""Types that the program allows a record to name.

Nothing named in stored bytes is ever imported. A class is found by its recorded name only if the program registered
it, or (exceptions only, see `failure`) if it was loaded before the run was taken up. A class that has moved is found by
the names it had.
"""

import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

from counterfoil.errors import DeclarationError

T = TypeVar("T", bound=type)

_names: dict[type, str] = {}
_types: dict[str, type] = {}


def register(kind: T, /, *, aliases: Sequence[str] = ()) -> T:
    """Let this class be built from records that name it. Returns it, so that it can stand as a decorator.

    A value of a registered class may be recorded where no annotation says what it is; a registered exception is rebuilt
    in every process that registered it. `aliases` are names that it had when older records were made, each
    "module:qualified name". Raises DeclarationError for what is no class, or for a name that another class has.
    """
    if not isinstance(kind, type):
        raise DeclarationError(name=repr(kind), problem="it is no class", fix="Register classes only.")
    for name in (name_of(kind), *aliases):
        other = _types.get(name)
        if other is not None and name_of(other) != name_of(kind):
            raise DeclarationError(
                name=name, problem=f"that name stands for {name_of(other)}", fix="Give each name to one class."
            )
        _types[name] = kind
    _names[kind] = name_of(kind)
    return kind


def is_registered(kind: type) -> bool:
    """Whether records may name this class."""
    return kind in _names


def registered(name: str) -> type | None:
    """The registered class of this name or alias."""
    return _types.get(name)


def all_registered() -> tuple[type, ...]:
    """Every registered class."""
    return tuple(_names)


def name_of(kind: type) -> str:
    """How a record names a class: module and qualified name, joined by ":"."""
    return f"{stable_module(kind.__module__)}:{kind.__qualname__}"


def stable_module(module: str) -> str:
    """A module's name in every process: the file that is run as `__main__` here is loaded by its name elsewhere."""
    if module != "__main__":
        return module
    main = sys.modules.get(module)
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return PurePath(file).stem if file else module
