"""Whether two values are the same in type and in value, more strictly than `==`, and where they are not.

1 is not True here, 0.0 is not -0.0, Decimal("1") is not Decimal("1.0"), and nan is nan.
"""

import enum
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from counterfoil.core.forms import DEPTH_MAX, NamedWalk
from counterfoil.core.kinds import kind_of
from counterfoil.core.leaves import Secret, key_path

_END: Any = object()
_EQUAL = (str, bytes, bytearray, int, Secret)
_PLAIN = frozenset({str, int, bool, type(None)})


def is_surely_same(one: Any, other: Any) -> bool:
    """The quick answer for what most values consist of; where it is False, `differences` has to look."""
    class_ = type(one)
    if class_ is not type(other):
        return False
    if class_ in _PLAIN:
        return bool(one == other)
    if class_ is dict:
        return _has_same_names(one, other) and all(map(is_surely_same, one.values(), other.values()))
    if class_ is list or class_ is tuple:
        return len(one) == len(other) and all(map(is_surely_same, one, other))
    kind = None if isinstance(one, enum.Enum) else kind_of(class_)
    if kind is None:
        return class_ is float and repr(one) == repr(other)
    mine, theirs = kind.take(one), kind.take(other)
    return is_surely_same(mine.content, theirs.content) and is_surely_same(mine.more, theirs.more)


def _has_same_names(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return all(type(name) is str for name in one) and list(one) == list(other)


def differences(one: Any, other: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """The places in which two values differ, each with the first value's part."""
    if type(one) is not type(other):
        yield path, one
        return
    mine, theirs = _parts(one), _parts(other)
    if mine is None or theirs is None:
        if not _is_same_leaf(one, other):
            yield path, one
    elif [step for step, _ in mine] != [step for step, _ in theirs]:
        yield path, one
    else:
        for (step, part), (_, counterpart) in zip(mine, theirs, strict=True):
            yield from differences(part, counterpart, path + step)


def circle(value: Any) -> str | None:
    """The path at which a value contains itself, or something that contains it; None if it does not."""
    steps: list[str] = []
    above: list[int] = []
    done: dict[int, Any] = {}  # parts that hold no circle; kept, so that no id is used twice
    left = [iter([("$", value)])]
    while left:
        step, part = next(left[-1], ("", _END))
        if part is _END:
            left.pop()
            del steps[-1:], above[-1:]
        elif id(part) in above:
            return "".join([*steps, step])
        elif id(part) not in done and len(above) <= DEPTH_MAX:
            done[id(part)] = part
            steps.append(step)
            above.append(id(part))
            left.append(iter(_parts(part) or _members(part)))
    return None


def _members(value: Any) -> list[tuple[str, Any]]:
    return [("{}", each) for each in value] if isinstance(value, set | frozenset) else []


def _is_same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, enum.Enum):
        return one is other
    if isinstance(one, set | frozenset):
        return _written(one) == _written(other)
    return bool(one == other) if isinstance(one, _EQUAL) else repr(one) == repr(other)


def _written(value: Any) -> bytes:
    return msgspec.json.encode(NamedWalk().plain(value))


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """What a value consists of, with a step of a path to each; None for one that has no parts to compare alone."""
    if isinstance(value, dict):
        return [each for key, part in value.items() for each in _entry(key, part)]
    class_: Any = type(value)
    kind = None if isinstance(value, enum.Enum) else kind_of(class_)
    if kind is not None:
        taken = kind.take(value)
        groups = {"": taken.content, **taken.more}
        return [(step, part) for name in groups for step, part in _group(name, groups[name])]
    if isinstance(value, list | tuple | deque):
        length = [(".maxlen", value.maxlen)] if isinstance(value, deque) else []
        return [(f"[{index}]", part) for index, part in enumerate(value)] + length
    return None


def _entry(key: Any, part: Any) -> Iterator[tuple[str, Any]]:
    if type(key) is str:
        yield f".{key}", part
    else:
        step = key_path(key)
        yield f"{step} (the key)", key
        yield step, part


def _group(name: str, group: Any) -> list[tuple[str, Any]]:
    if isinstance(group, dict):
        return [(f".{key}", part) for key, part in group.items()]
    return [(name and f".{name}", group)]
