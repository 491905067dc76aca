"""docs/events.md describes every event type and every field, and nothing else."""

import typing

import msgspec
import pytest

from counterfoil.core import events, parts

PARTS = (
    events.Envelope, events.Reference, events.Stub,
    parts.ErrorRecord, parts.ResponseRecord, parts.Shared, parts.Send, parts.Answer,
)  # fmt: skip
DESCRIBED: dict[str, type] = {**events.BODIES, **{part.__name__: part for part in PARTS}}


@pytest.fixture
def described(pages, tables, words) -> dict[str, tuple[list[str], list[str]]]:
    found = [row for row in tables(pages["docs/events.md"].text) if row[0].startswith("`")]
    return {words(row[0])[0]: (words(row[2]), words(row[3])) for row in found}


def test_every_event_type_is_described_and_no_other(described):
    assert sorted(described) == sorted(DESCRIBED)


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_field_is_described_as_critical_or_diagnostic(described, name):
    assert described[name] == (_fields(DESCRIBED[name], "critical"), _fields(DESCRIBED[name], "diagnostic"))


def _fields(kind: type, mark: str) -> list[str]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [f.encode_name for f in msgspec.structs.fields(kind) if mark in getattr(hints[f.name], "__metadata__", ())]
