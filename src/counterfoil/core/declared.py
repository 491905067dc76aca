"""Which classes an annotation declares: its own, those in its arguments, and those of their fields, all the way down.

A record may name these and no others, apart from the registered ones. What an annotation says beyond that (which field
holds which) is not asked: a record says so itself.
"""

import contextlib
import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ForwardRef

from counterfoil.core import registry
from counterfoil.core.kinds import is_model, kind_of

_NOT_THE_USERS = frozenset({"builtins", "enum", "msgspec", "pydantic", "typing"})


class Declared:
    """The classes of one annotation, by the names that records give them."""

    def __init__(self, annotation: Any) -> None:
        seen: set[int] = set()
        kept: list[Any] = []  # so that no id is used twice
        classes: dict[str, type] = {}
        left = [annotation]
        while left:
            each = left.pop()
            if id(each) not in seen:
                seen.add(id(each))
                kept.append(each)
                if isinstance(each, type) and _is_recordable(each):
                    classes.setdefault(registry.name_of(each), each)
                left += _inside(each)
        self.classes = classes

    def find(self, name: str) -> type | None:
        """The class of this name: declared, or registered (by an alias, perhaps), or one that moved to another module.

        The last holds for a declared class that alone has the name's second half.
        """
        return self.classes.get(name) or registry.registered(name) or _below_registered(name) or self._moved(name)

    def _moved(self, name: str) -> type | None:
        path = name.partition(":")[2]
        found = [class_ for class_ in self.classes.values() if class_.__qualname__ == path]
        return found[0] if len(found) == 1 else None


def _below_registered(name: str) -> type | None:
    """A class that stands in the fields of a registered one."""
    found = (declared(each).classes.get(name) for each in registry.all_registered())
    return next(filter(None, found), None)


def declared(annotation: Any) -> Declared:
    """The classes of an annotation."""
    try:
        return _declared(annotation)
    except TypeError:  # an annotation that can't be hashed
        return Declared(annotation)


@lru_cache(maxsize=1024)
def _declared(annotation: Any) -> Declared:
    return Declared(annotation)


def _is_recordable(class_: Any) -> bool:
    return issubclass(class_, enum.Enum) or kind_of(class_) is not None


def _inside(annotation: Any) -> Iterator[Any]:
    """What stands one level further in."""
    if isinstance(annotation, type):
        yield from _fields(annotation)
    for each in typing.get_args(annotation):
        yield type(each) if isinstance(each, enum.Enum) else each
    yield typing.get_origin(annotation)
    if isinstance(annotation, typing.TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__)
    yield getattr(annotation, "__supertype__", None)  # of a NewType
    if type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, from Python 3.12
        with contextlib.suppress(Exception):  # what stands there is worked out now, and may name what is not there
            yield annotation.__value__


def _fields(class_: type) -> Iterator[Any]:
    """The annotations of a class's fields."""
    if is_model(class_):
        model: Any = class_
        yield from (field.annotation for field in model.model_fields.values())
        generic = getattr(model, "__pydantic_generic_metadata__", None)  # BaseModel itself has none
        yield from (generic["origin"], *generic["args"]) if generic else ()
    if dataclasses.is_dataclass(class_) or typing.is_typeddict(class_) or _is_recordable(class_):
        yield from _hints(class_)
    yield from getattr(class_, "__orig_bases__", ())


def _hints(class_: type) -> Iterator[Any]:
    """The annotations that stand in a class and those above it. One that can't be resolved costs the others nothing."""
    for each in class_.__mro__:
        if each.__module__.partition(".")[0] in _NOT_THE_USERS:
            continue
        around = vars(sys.modules.get(each.__module__, types))
        for annotation in vars(each).get("__annotations__", {}).values():
            yield _resolved(annotation, around, class_)


def _resolved(annotation: Any, around: dict[str, Any], class_: type) -> Any:
    if not isinstance(annotation, str | ForwardRef):
        return annotation
    alone = types.SimpleNamespace(__annotations__={"it": annotation})
    names = {class_.__name__: class_, **{each.__name__: each for each in getattr(class_, "__type_params__", ())}}
    try:
        return typing.get_type_hints(alone, globalns=around, localns=names)["it"]
    except Exception:  # noqa: BLE001 - it is Python text of the user's, which may raise anything
        return None
