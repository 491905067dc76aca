"""Classes whose instances can be recorded: how one is taken apart, and how it is built again.

An instance is built from its recorded attributes, as unpickling does: no constructor, validator or `__post_init__` is
run (msgspec has no way around a Struct's), so none can refuse, change or read a clock on replay. Whether a class may be
built at all is not decided here.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import msgspec

UNSET, OTHERS = "unset", "others"
EXTRA, PRIVATE, GIVEN = "extra", "private", "given"
_BOOKKEEPING = frozenset({"__orig_class__"})  # typing's, on an instance of a generic class
_REQUIRED: Any = object()


class UnfitError(Exception):
    """Why a recorded value can't be built, and where in it; the path grows on the way up."""

    def __init__(self, reason: str, type_: str, at: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.type = reason, type_
        self.path = [at] if at else []


class Parts(NamedTuple):
    """An instance, taken apart."""

    content: Any  # its fields by name, or its text
    more: dict[str, Any]  # what else there is, by group; empty groups are left out


class Kind(Protocol):
    """What the classes of one kind have in common."""

    def take(self, value: Any) -> Parts:
        """The parts of an instance."""
        ...

    def build(self, class_: Any, parts: Parts) -> Any:
        """The instance of these parts. Raises UnfitError if the class has changed, or anything else if it refuses."""
        ...


def kind_of(class_: Any) -> Kind | None:
    """The kind of a class; None if its instances can't be recorded. An Enum is a case of its own."""
    try:
        return _kind_of(class_)
    except TypeError:  # a class that can't be hashed
        return None


@lru_cache(maxsize=4096)
def _kind_of(class_: Any) -> Kind | None:
    if _is_below(class_, "pydantic.main", "BaseModel"):
        return _Model()
    if issubclass(class_, msgspec.Struct):
        return _Struct()
    if issubclass(class_, tuple):
        return _NamedTuple() if isinstance(getattr(class_, "_fields", None), tuple) else None
    if dataclasses.is_dataclass(class_):
        return _Dataclass()
    return _Text() if _is_url(class_) else None


def is_model(class_: type) -> bool:
    """Whether it is a pydantic model."""
    return isinstance(kind_of(class_), _Model)


def is_pydantic_secret(value: object) -> bool:
    """Whether it is one of pydantic's secrets, which are never written."""
    return hasattr(type(value), "get_secret_value")


class _Dataclass:
    """Standard dataclasses, and pydantic's."""

    def take(self, value: Any) -> Parts:
        class_ = type(value)
        names = [field.name for field in dataclasses.fields(class_)]
        return _taken(value, names, _state(value))

    def build(self, class_: Any, parts: Parts) -> Any:
        defaults = {field.name: _default_of(field) for field in dataclasses.fields(class_)}
        fields = _settled(class_, parts, defaults)
        built = object.__new__(class_)
        for name, value in (fields | _others(class_, parts)).items():
            object.__setattr__(built, name, value)
        return built


class _NamedTuple:
    """typing.NamedTuple and collections.namedtuple."""

    def take(self, value: Any) -> Parts:
        return _parts(dict(zip(type(value)._fields, value, strict=True)), others=getattr(value, "__dict__", {}))

    def build(self, class_: Any, parts: Parts) -> Any:
        defaults = {name: _given(class_._field_defaults, name) for name in class_._fields}
        fields = _settled(class_, parts, defaults)
        built = tuple.__new__(class_, fields.values())
        for name, value in _others(class_, parts).items():
            object.__setattr__(built, name, value)
        return built


class _Struct:
    """msgspec.Struct, where a field may be UNSET."""

    def take(self, value: Any) -> Parts:
        taken = _taken(value, type(value).__struct_fields__, getattr(value, "__dict__", {}))
        content = {name: part for name, part in taken.content.items() if part is not msgspec.UNSET}
        unset = [name for name in taken.content if name not in content]
        return Parts(content, taken.more | ({UNSET: unset} if unset else {}))

    def build(self, class_: Any, parts: Parts) -> Any:
        defaults = {field.name: _struct_default(field) for field in msgspec.structs.fields(class_)}
        fields = _settled(class_, parts, defaults) | dict.fromkeys(parts.more.get(UNSET, ()), msgspec.UNSET)
        built = class_(**fields)
        for name, value in fields.items():  # __post_init__ may have changed them
            msgspec.structs.force_setattr(built, name, value)
        for name, value in _others(class_, parts).items():
            setattr(built, name, value)
        return built


class _Model:
    """pydantic models, with their extra fields, private attributes and the names of the fields that were given."""

    def take(self, value: Any) -> Parts:
        taken = self._fields(value)
        extra, private = value.__pydantic_extra__ or {}, value.__pydantic_private__ or {}
        given = value.__pydantic_fields_set__
        more = taken.more | {name: group for name, group in ((EXTRA, extra), (PRIVATE, private)) if group}
        if given != {*taken.content, *extra}:
            more[GIVEN] = sorted(given)
        return Parts(taken.content, more)

    @staticmethod
    def _fields(value: Any) -> Parts:
        class_: Any = type(value)
        names, held = class_.model_fields, value.__dict__
        if held.keys() == names.keys() and not _has_slots(class_):  # as most are
            return Parts({name: held[name] for name in names}, {})
        state = {name: part for name, part in _state(value).items() if not name.startswith("__pydantic_")}
        return _taken(value, names, state, read=state.__getitem__)

    def build(self, class_: Any, parts: Parts) -> Any:
        fields = _settled(class_, parts, {name: _model_default(field) for name, field in class_.model_fields.items()})
        extra = _group(class_, parts, EXTRA)
        if extra is None and class_.model_config.get("extra") == "allow":
            extra = {}
        given = parts.more.get(GIVEN, [*parts.content, *(extra or ())])
        built = object.__new__(class_)
        object.__setattr__(built, "__dict__", fields)
        for name, value in _others(class_, parts).items():
            object.__setattr__(built, name, value)
        object.__setattr__(built, "__pydantic_fields_set__", {str(name) for name in given})
        for name, group in (("__pydantic_extra__", extra), ("__pydantic_private__", _private(class_, parts))):
            if group is not None or not class_.__pydantic_root_model__:  # a root model has None on its class
                object.__setattr__(built, name, group)
        return built


class _Text:
    """pydantic's URLs, which are their text."""

    def take(self, value: Any) -> Parts:
        return Parts(str(value), {})

    def build(self, class_: Any, parts: Parts) -> Any:
        if type(parts.content) is not str:
            raise UnfitError("its text is missing", class_.__qualname__)
        return class_(parts.content)


def _state(value: Any) -> dict[str, Any]:
    """All that an instance holds, in its dictionary and its slots."""
    held: Any = object.__getstate__(value)
    if type(held) is dict:
        return held
    both = held if isinstance(held, tuple) else (held,)
    return {name: part for each in both for name, part in (each or {}).items()}


@functools.lru_cache(maxsize=4096)
def _has_slots(class_: Any) -> bool:
    """Whether a model's class keeps anything outside its dictionary, but for what pydantic itself does."""
    ours = (each for each in class_.__mro__ if each.__module__.partition(".")[0] != "pydantic")
    return any(vars(each).get("__slots__") for each in ours)


@functools.lru_cache(maxsize=4096)
def _bookkeeping(class_: Any) -> frozenset[str]:
    """Names under which an instance keeps what is none of its content."""
    found: dict[str, Any] = {}
    for each in reversed(class_.__mro__):
        found.update(vars(each))
    return _BOOKKEEPING | {name for name, value in found.items() if isinstance(value, functools.cached_property)}


def _taken(
    value: Any, names: Iterable[str], state: dict[str, Any], *, read: Callable[[str], Any] | None = None
) -> Parts:
    """Fields by name, those that are not set, and all other attributes, but for what a cached property keeps."""
    content, unset = {}, []
    for name in names:
        try:
            content[name] = read(name) if read else getattr(value, name)
        except (AttributeError, KeyError):
            unset.append(name)
    class_: Any = type(value)
    bookkeeping = _bookkeeping(class_)
    others = {name: part for name, part in state.items() if name not in content and name not in bookkeeping}
    return _parts(content, unset=unset, others=others)


def _parts(content: Any, **groups: Any) -> Parts:
    return Parts(content, {name: group for name, group in groups.items() if group})


def _settled(class_: type, parts: Parts, defaults: dict[str, Any]) -> dict[str, Any]:
    """The fields to build with: the recorded ones, and the defaults of those that are newer than the record."""
    name_of_class, content = class_.__qualname__, parts.content
    if type(content) is not dict:
        raise UnfitError("its fields are missing", name_of_class)
    unset = parts.more.get(UNSET, ())
    for name in (*content, *unset):
        if name not in defaults:
            raise UnfitError(f"the class has no field {name!r} any more", name_of_class, f".{name}")
    fields = {}
    for name, default in defaults.items():
        if name in content:
            fields[name] = content[name]
        elif name not in unset:
            if default is _REQUIRED:
                raise UnfitError(f"the record has no field {name!r}, and it has no default", name_of_class, f".{name}")
            fields[name] = default()
    return fields


def _others(class_: type, parts: Parts) -> dict[str, Any]:
    others = _group(class_, parts, OTHERS) or {}
    for name in others:
        if name.startswith("__"):
            raise UnfitError(f"{name!r} is no attribute that can be recorded", class_.__qualname__, f".{name}")
    return others


def _group(class_: type, parts: Parts, name: str) -> dict[str, Any] | None:
    group = parts.more.get(name)
    if group is not None and not (type(group) is dict and all(type(key) is str for key in group)):
        raise UnfitError(f"{name!r} is not a group of attributes", class_.__qualname__)
    return cast("dict[str, Any] | None", group)


def _private(class_: Any, parts: Parts) -> dict[str, Any] | None:
    """Private attributes: the recorded ones, and the defaults of those that are newer than the record."""
    declared = class_.__private_attributes__
    group = _group(class_, parts, PRIVATE) or {}
    for name in group:
        if name not in declared:
            raise UnfitError(f"the class has no attribute {name!r} any more", class_.__qualname__, f".{name}")
    newer = {name: attribute.get_default() for name, attribute in declared.items() if name not in group}
    kept = {name: value for name, value in newer.items() if type(value).__name__ != "PydanticUndefinedType"}
    return group | kept if declared else None


def _given(defaults: dict[str, Any], name: str) -> Any:
    return (lambda: defaults[name]) if name in defaults else _REQUIRED


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return _REQUIRED if field.default is dataclasses.MISSING else lambda: field.default


def _struct_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory
    return _REQUIRED if field.default is msgspec.NODEFAULT else lambda: field.default


def _model_default(field: Any) -> Any:
    return _REQUIRED if field.is_required() else lambda: field.get_default(call_default_factory=True)


def _is_below(class_: type, module: str, name: str) -> bool:
    """Whether it is a class of the program's, below one of a package that may not be there: then nothing is."""
    above = getattr(sys.modules.get(module), name, None)
    return isinstance(above, type) and issubclass(class_, above) and class_.__module__.partition(".")[0] != "pydantic"


def _is_url(class_: type) -> bool:
    return hasattr(class_, "unicode_string") and any(
        each.__module__.partition(".")[0] in {"pydantic", "pydantic_core"} for each in class_.__mro__
    )
