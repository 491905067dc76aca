"""JSON values as the types that an annotation declares: arguments given as JSON, and what bare records hold.

Here, and only here, a pydantic model is validated and a string becomes a date. What does not fit is refused; what would
be left out or made less of is refused too, except by a model whose own settings say so.
"""

import dataclasses
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from counterfoil.core.canonical import canonical
from counterfoil.core.declared import declared
from counterfoil.core.kinds import UnfitError, is_model

_ABSENT: Any = object()
_PLAIN = frozenset({str, int, float, bool, type(None), dict, list})


def fitted(plain: Any, annotation: Any) -> Any:
    """The value as the annotated type. Raises UnfitError."""
    try:
        built = _converter(annotation)(plain)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnfitError(reason, type_name(annotation)) from error
    _check_all_there(plain, built)
    return built


def type_name(annotation: Any) -> str:
    """An annotation in words."""
    if annotation is Any:
        return "anything"
    return (
        str(annotation) if hasattr(annotation, "__origin__") else getattr(annotation, "__qualname__", str(annotation))
    )


def left_out(recorded: Any, again: Any, path: str = "$") -> str | None:
    """Where a written value holds something that is not in what was made of it, written again; None if nowhere."""
    if type(recorded) is dict and type(again) is dict:
        places = (left_out(part, again.get(key, _ABSENT), f"{path}.{key}") for key, part in recorded.items())
        return next(filter(None, places), None)
    if type(recorded) is list and type(again) is list and len(recorded) == len(again):
        if sorted(map(canonical, recorded)) == sorted(map(canonical, again)):  # a set has no order
            return None
        places = (left_out(*pair, f"{path}[{n}]") for n, pair in enumerate(zip(recorded, again, strict=True)))
        return next(filter(None, places), None)
    return None if recorded == again else path


def _check_all_there(plain: Any, built: Any, path: str = "") -> None:
    if type(plain) is dict:
        names = _field_names(type(built))
        for key, part in plain.items():
            if names is not None and key not in names:
                raise UnfitError(f"the class has no field {key!r}", type(built).__qualname__, f"{path}.{key}")
            if names is not None or type(built) is dict:
                inner = getattr(built, names[key]) if names else built.get(key)
                _check_all_there(part, inner, f"{path}.{key}")
    elif type(plain) is list and isinstance(built, list | tuple):
        for index, (part, inner) in enumerate(zip(plain, built, strict=False)):
            _check_all_there(part, inner, f"{path}[{index}]")
    elif type(plain) not in _PLAIN and type(built) is not type(plain):
        reason = f"a {type(plain).__name__} is no {type(built).__name__}"
        raise UnfitError(reason, type(built).__qualname__, path)


def _field_names(class_: Any) -> dict[str, str] | None:
    """The fields of a class that leaves out nothing, by the names that JSON gives them; None for others."""
    if issubclass(class_, msgspec.Struct):
        return dict(zip(class_.__struct_encode_fields__, class_.__struct_fields__, strict=True))
    if dataclasses.is_dataclass(class_):
        return {field.name: field.name for field in dataclasses.fields(class_)}
    return None


def _converter(annotation: Any) -> Callable[[Any], Any]:
    try:
        return _converter_of(annotation)
    except TypeError:  # an annotation that can't be hashed is compiled each time
        return _converter_of.__wrapped__(annotation)


@lru_cache(maxsize=1024)
def _converter_of(annotation: Any) -> Callable[[Any], Any]:
    by_pydantic = _adapter(annotation)

    def convert(plain: Any) -> Any:
        try:
            return msgspec.convert(plain, annotation, dec_hook=_own_type)
        except TypeError:  # a union of models, for example, is pydantic's alone
            if by_pydantic is None:
                raise
            return by_pydantic.validate_python(plain)

    return convert


def _own_type(kind: Any, value: Any) -> Any:
    """What msgspec does not know."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if type(value) is kind and type(value) not in _PLAIN:  # built already, from its own tag
        return value
    msg = f"{kind.__qualname__} is not a type that can be recorded"
    raise TypeError(msg)


def _adapter(annotation: Any) -> Any:
    has_models = any(map(is_model, declared(annotation).classes.values()))
    return sys.modules["pydantic"].TypeAdapter(annotation) if has_models else None
