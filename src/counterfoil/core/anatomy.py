"""What an exception is made of: taken apart and put together without running a line of its class.

A foreign exception may raise from any property, hide its `args` behind one, or refuse to be built. So its parts are
read and set by the descriptors of the builtin classes it derives from, its slots by their own; what a class of an
extension keeps in memory of its own can't be reached, and such a class is refused.
"""

from collections.abc import Mapping, Sequence
from types import MemberDescriptorType, TracebackType
from typing import Any, cast

_HEAP_TYPE = 1 << 9  # of type.__flags__: made by a class statement or by an extension, not part of the interpreter
_POINTER_BYTES = tuple.__itemsize__
_PLAIN = (object, BaseException, BaseExceptionGroup)
"""Classes whose members are no attributes: they have descriptors of their own below."""

_args: Any = BaseException.__dict__["args"]
_attributes: Any = BaseException.__dict__["__dict__"]
_cause: Any = BaseException.__dict__["__cause__"]
_context: Any = BaseException.__dict__["__context__"]
_traceback: Any = BaseException.__dict__["__traceback__"]
_is_suppressed: Any = BaseException.__dict__["__suppress_context__"]
_members: Any = BaseExceptionGroup.__dict__["exceptions"]
_message: Any = BaseExceptionGroup.__dict__["message"]


def arguments(error: BaseException) -> tuple[Any, ...]:
    """The true `args`; of a group without its members, which stand second."""
    args = cast("tuple[Any, ...]", _args.__get__(error))
    return (_message.__get__(error), *args[2:]) if is_group(type(error)) else args


def attributes(error: BaseException) -> dict[str, Any]:
    """What its instance holds, by name: slots, the fields of builtin classes, and its dictionary."""
    own = {name: value for name, value in dict.items(_attributes.__get__(error)) if type(name) is str}
    for name, slot in _slots(type(error)).items():
        try:
            value = slot.__get__(error)
        except AttributeError:  # never set
            continue
        if value is not None or _is_heap(slot.__objclass__):  # a builtin's field that was never set reads as None
            own[name] = value
    return own


def cause(error: BaseException) -> BaseException | None:
    """The true `__cause__`."""
    return cast("BaseException | None", _cause.__get__(error))


def context(error: BaseException) -> BaseException | None:
    """The true `__context__`."""
    return cast("BaseException | None", _context.__get__(error))


def trace(error: BaseException) -> TracebackType | None:
    """The true `__traceback__`."""
    return cast("TracebackType | None", _traceback.__get__(error))


def is_suppressed(error: BaseException) -> bool:
    """Whether the context is not to be shown: `raise ... from`."""
    return bool(_is_suppressed.__get__(error))


def is_group(kind: type) -> bool:
    """Whether exceptions of this class hold others."""
    return issubclass(kind, BaseExceptionGroup)


def members(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions in a group; none if it is no group."""
    return cast("tuple[BaseException, ...]", _members.__get__(error)) if is_group(type(error)) else ()


def built(
    kind: type[Exception], args: Sequence[Any], attributes: Mapping[str, Any], *, members: Sequence[BaseException] = ()
) -> Exception:
    """An exception of this class with these parts, as `arguments`, `attributes` and `members` gave them.

    Raises whatever the interpreter says of parts, or of a class, that can't be put together so.
    """
    new: Any = _builtin_base(kind).__new__
    if is_group(kind):
        message, *rest = args
        error: Exception = new(kind, message, list(members))
        args = (message, list(members), *rest)
    else:
        error = new(kind)
    _args.__set__(error, tuple(args))
    own, slots = _attributes.__get__(error), _slots(kind)
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(error, value)
        else:
            own[name] = value
    return error


def set_context(error: BaseException, context: BaseException | None) -> None:
    """Set the true `__context__`."""
    _context.__set__(error, context)


def link(error: BaseException, *, cause: BaseException | None, context: BaseException | None, suppressed: bool) -> None:
    """Set what stands behind an exception."""
    _cause.__set__(error, cause)
    _context.__set__(error, context)
    _is_suppressed.__set__(error, suppressed)


def _slots(kind: type) -> dict[str, Any]:
    """The slots of a class and the fields of its builtin bases, by name."""
    return {
        name: value
        for holder in reversed(kind.__mro__)
        if holder not in _PLAIN
        for name, value in holder.__dict__.items()
        if type(value) is MemberDescriptorType
    }


def _builtin_base(kind: type) -> type:
    """The nearest class of the interpreter. Raises TypeError if the class has more memory than we can fill."""
    base = next(holder for holder in kind.__mro__ if not _is_heap(holder))
    slots = sum(_is_heap(slot.__objclass__) for slot in _slots(kind).values())
    if base.__module__ != "builtins" or kind.__basicsize__ > base.__basicsize__ + (slots + 1) * _POINTER_BYTES:
        msg = f"{kind.__qualname__} keeps what can't be seen from Python"
        raise TypeError(msg)
    return base


def _is_heap(kind: type) -> bool:
    return bool(kind.__flags__ & _HEAP_TYPE)
