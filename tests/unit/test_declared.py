"""Which classes an annotation allows a record to name."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)

import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

from counterfoil.core.declared import declared
from counterfoil.core.registry import name_of, register

if TYPE_CHECKING:
    from nowhere import Absent

T = TypeVar("T")


@dataclasses.dataclass
class Leaf:
    value: int


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Tree(Generic[T]):
    leaf: Leaf
    trees: "list[Tree[T]]"
    absent: "Absent | None" = None


class Pair(NamedTuple):
    leaf: "Leaf"


class Options(TypedDict):
    leaf: Leaf


class Request(msgspec.Struct):
    leaf: Leaf


class Model(pydantic.BaseModel):
    inner: "Model | None" = None
    _leaf: Leaf


class Wrapped(pydantic.BaseModel, Generic[T]):
    inner: T


class Below(Wrapped[Leaf]):
    pass


LEAVES = [  # one of them spelled as it was in older code
    Leaf, list[Leaf], Leaf | None, Optional[Leaf],  # noqa: UP045
    dict[str, tuple[Leaf, ...]], Tree[int], Tree[Leaf], Pair, Options,
    Request, Model, Wrapped[Leaf], Below, NewType("Named", Leaf), TypeVar("Bound", bound=Leaf), type[Leaf],
    TypeVar("Either", int, Leaf), Mapping[Colour, Leaf], Callable[..., Leaf], Callable[[int], Leaf],
]  # fmt: skip


@pytest.mark.parametrize("annotation", LEAVES, ids=range(len(LEAVES)))
def test_a_class_is_declared_wherever_it_stands(annotation):
    assert declared(annotation).find(name_of(Leaf)) is Leaf


@pytest.mark.parametrize("annotation", [Colour, Literal[Colour.RED], dict[Colour, int]], ids=range(3))
def test_an_enumeration_is_declared_by_itself_and_by_its_members(annotation):
    assert declared(annotation).find(name_of(Colour)) is Colour


NOTHING = [
    None,
    Any,
    int,
    str,
    list,
    list["Leaf"],
    "Leaf",
    ForwardRef("Leaf"),
    Exception,
    object,
    type,
    Literal["Leaf"],
]


@pytest.mark.parametrize("annotation", NOTHING, ids=range(len(NOTHING)))
def test_what_names_no_class_declares_none(annotation):
    assert declared(annotation).classes == {}


def test_a_name_that_is_there_for_type_checkers_only_costs_the_others_nothing():
    assert sorted(declared(Tree[int]).classes) == sorted(map(name_of, (Tree, Leaf)))


def test_a_generic_model_declares_itself_with_and_without_its_argument():
    assert {name_of(Wrapped), name_of(Wrapped[Leaf]), name_of(Leaf)} == declared(Wrapped[Leaf]).classes.keys()


def test_nothing_of_pydantic_is_declared_by_a_model():
    assert declared(Model).classes.keys() == {name_of(Model), name_of(Leaf)}


def test_an_annotation_that_can_not_be_hashed_declares_as_well():
    assert declared(Annotated[Leaf, []]).find(name_of(Leaf)) is Leaf


def test_a_class_in_the_fields_of_a_registered_one_may_be_named():
    @dataclasses.dataclass
    class Inner:
        value: int

    outer = register(dataclasses.make_dataclass("Outer", [("inner", Inner)]))
    assert (declared(None).find(name_of(outer)), declared(None).find(name_of(Inner))) == (outer, Inner)


@pytest.mark.parametrize(("annotation", "found"), [(Leaf, Leaf), (Tree[int], Leaf), (Colour, None)], ids=range(3))
def test_a_moved_class_is_found_if_one_class_alone_has_its_name(annotation, found):
    assert declared(annotation).find("some.other.place:Leaf") is found


def test_a_moved_class_is_not_found_among_two():
    other = dataclasses.make_dataclass("Leaf", [])
    other.__module__ = "another"
    assert declared(Leaf | other).find("some.other.place:Leaf") is None


class Unhashable(type):
    def __hash__(cls) -> int:
        raise TypeError("not this class")


def test_a_class_that_can_not_be_hashed_is_not_declared():
    assert declared(Unhashable("Odd", (), {})).classes == {}


class Broken:
    """As `type X = list[Nowhere]` is, from Python 3.12."""

    @property
    def __value__(self) -> Any:
        raise NameError("Nowhere")


Broken.__name__ = "TypeAliasType"


@pytest.mark.parametrize(
    ("alias", "found"), [(TypeAliasType("Names", list[Leaf]), Leaf), (Broken(), None)], ids=range(2)
)
def test_an_alias_stands_for_what_it_names(alias, found):
    assert declared(alias).find(name_of(Leaf)) is found
