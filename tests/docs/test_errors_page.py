"""docs/errors.md has a section for every error code and every reason of a pause, and no other (law J10)."""

import ast
import importlib
import re
import string
from pathlib import Path

import pytest

import counterfoil
from counterfoil import errors

SOURCE = Path(counterfoil.__file__).parent
DEFINES_ERRORS = re.compile(r"^class \w+\(\w+Error\):", re.MULTILINE)

for path in SOURCE.rglob("*.py"):
    if DEFINES_ERRORS.search(path.read_text(encoding="utf-8")):
        importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))


def _tree(kind: type[errors.CounterfoilError]) -> list[type[errors.CounterfoilError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _tree(child))]


OURS = [kind for kind in _tree(errors.CounterfoilError) if kind.__module__.startswith("counterfoil.")]
KINDS = {kind.code: kind for kind in OURS}


@pytest.fixture
def sections(pages) -> dict[str, str]:
    return pages["docs/errors.md"].sections()


@pytest.fixture
def reasons() -> set[str]:
    """Reasons of a pause that are no codes: Verdict(reason="...")."""
    given = [word.value for call in _calls("engine", "Verdict") for word in call.keywords if word.arg == "reason"]
    return {value.value for value in given if isinstance(value, ast.Constant)}


@pytest.fixture
def said() -> set[str]:
    """Codes that the command line prints without an error of ours: _object_of("...", ...)."""
    return {call.args[0].value for call in _calls("cli", "_object_of") if isinstance(call.args[0], ast.Constant)}


def test_no_two_errors_share_a_code():
    assert len(KINDS) == len(OURS)


def test_the_engine_has_reasons_of_its_own(reasons):
    assert {"step_failed", "crash_limit"} <= reasons


def test_the_command_line_has_codes_of_its_own(said):
    assert {"usage", "internal"} <= said


def test_every_code_and_every_reason_has_a_section_and_no_section_is_left_over(sections, reasons, said):
    assert sorted(sections) == sorted(KINDS.keys() | reasons | said)


@pytest.mark.parametrize("code", KINDS)
def test_a_section_names_its_class(sections, code):
    assert f"`{KINDS[code].__name__}`" in sections[code]


@pytest.mark.parametrize("code", KINDS)
def test_a_section_lists_the_fields_of_the_message_and_the_hint(sections, words, code):
    _, _, listed = sections[code].partition("- **Fields**")
    assert sorted(words(listed.partition("\n\n")[0])) == sorted(_fields(KINDS[code]))


def test_every_section_says_what_becomes_of_the_record_and_what_to_do(sections):
    assert [code for code, text in sections.items() if "- **Record**" not in text or "- **Do**" not in text] == []


def _calls(folder: str, function: str) -> list[ast.Call]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / folder).glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) == function]


def _fields(kind: type[errors.CounterfoilError]) -> set[str]:
    template = string.Formatter().parse(kind.sentence + kind.advice)
    return {name.partition("!")[0] for _, name, _, _ in template if name}
