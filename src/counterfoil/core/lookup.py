"""The class that a recorded exception names: among the builtins, the registered, and what the program has loaded.

Nothing is imported and no code runs because a record names it (a module's `__getattr__` neither): names are looked up
in the dictionaries of modules and classes as they lie there, and only a class of exceptions is ever given back.
"""

import sys
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from counterfoil.core import registry


def class_of(name: str) -> type[Exception] | None:
    """The class of exceptions that has this name in records; None if there is none here."""
    found = registry.registered(name) or _loaded(name)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def is_expected(kind: type, name: str, known_modules: Collection[str]) -> bool:
    """Whether the name stands for this class wherever the run is taken up.

    It does for builtins, for registered classes, and for those of modules that were loaded before any step ran.
    """
    if registry.registered(name) is kind:
        return True
    return kind.__module__ in known_modules and _loaded(name) is kind


def _loaded(name: str) -> Any:
    module, _, path = name.partition(":")
    is_main = module == registry.stable_module("__main__")
    found: Any = sys.modules.get("__main__" if is_main else module)
    for part in path.split("."):
        found = _own(found).get(part)
    return found


def _own(holder: Any) -> Mapping[str, Any]:
    """The dictionary of a module or a class, past any code of theirs that would answer in its place."""
    if issubclass(type(holder), ModuleType):
        names: Mapping[str, Any] = object.__getattribute__(holder, "__dict__")
        return names
    return type.__dict__["__dict__"].__get__(holder) if issubclass(type(holder), type) else {}
