"""Which classes a record may name."""

import pytest

from counterfoil.core.registry import is_registered, name_of, register, registered
from counterfoil.errors import DeclarationError


class Moved:
    """A class of this module."""


class Other:
    """Another one."""


def test_a_registered_class_is_found_by_its_name_and_by_those_it_had():
    assert register(Moved, aliases=["old.place:Moved"]) is Moved
    assert registered(name_of(Moved)) is registered("old.place:Moved") is Moved


def test_a_class_that_is_not_registered_is_not_found():
    assert not is_registered(Other)
    assert registered(name_of(Other)) is None


def test_a_name_stands_for_one_class():
    register(Moved, aliases=["old.place:Moved"])
    with pytest.raises(DeclarationError, match="stands for"):
        register(Other, aliases=["old.place:Moved"])


def test_only_a_class_can_be_registered():
    with pytest.raises(DeclarationError, match="no class"):
        register("Moved")
