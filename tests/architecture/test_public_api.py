"""The public surface is a list: sorted, importable, and changed only on purpose.

After a wanted change, write the new list to public_api.txt, one name a line.
"""

import pytest

import counterfoil


@pytest.fixture
def recorded(root) -> list[str]:
    return (root / "tests/architecture/public_api.txt").read_text(encoding="utf-8").split()


def test_the_public_names_are_sorted():
    assert list(counterfoil.__all__) == sorted(set(counterfoil.__all__))


def test_every_public_name_can_be_imported():
    assert [name for name in counterfoil.__all__ if not hasattr(counterfoil, name)] == []


def test_the_public_names_are_the_recorded_ones(recorded):
    assert list(counterfoil.__all__) == recorded
