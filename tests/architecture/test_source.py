"""House rules: clock and chance have one home, times have a zone, nothing is left over."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

CLOCK_AND_CHANCE = ("engine/system.py", "lab", "testing")
FORBIDDEN_CALLS = re.compile(
    r"(datetime\.)?datetime\.(now|utcnow)|(datetime\.)?date\.today|time\.time(_ns)?"
    r"|uuid\.uuid[14]|os\.urandom|(random|secrets)\.\w+"
)
FORBIDDEN_IMPORTS = re.compile(r"time\.time(_ns)?|uuid\.uuid[14]|os\.urandom|(random|secrets)(\.\w+)?")
NAIVE_BY_NATURE = {"utcnow", "utcfromtimestamp", "today"}
TAKES_ZONE = {"now": 1, "fromtimestamp": 2, "datetime": 8}  # at which position the zone stands


def test_only_the_command_line_prints(modules):
    printing = [m.name for m in modules if not m.is_in("cli") and "print" in _calls(m.tree)]
    assert printing == []


def test_clock_and_chance_are_read_in_one_module(modules):
    bad = [
        f"{module.name}: {name}"
        for module in modules
        if not module.is_in(*CLOCK_AND_CHANCE)
        for name in _clock_and_chance(module.tree)
    ]
    assert bad == []


def test_every_time_has_a_zone(modules):
    bad = [
        f"{module.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _is_naive(node)
    ]
    assert bad == []


def test_every_ignored_type_error_is_named(modules):
    bare = re.compile(r"type:\s*ignore(?!\[)|pyright:\s*ignore(?!\[)")
    assert [m.name for m in modules if any(map(bare.search, _comments(m.text)))] == []


def test_no_unfinished_work_is_left_in_comments(modules):
    leftover = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert [m.name for m in modules if any(map(leftover.search, _comments(m.text)))] == []


def test_every_module_says_what_it_is_for(modules):
    assert [m.name for m in modules if not ast.get_docstring(m.tree)] == []


def _calls(tree: ast.Module) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _clock_and_chance(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() if FORBIDDEN_CALLS.fullmatch(ast.unparse(node)):
                yield ast.unparse(node)
            case ast.Import(names=names):
                yield from (n.name for n in names if FORBIDDEN_IMPORTS.fullmatch(n.name))
            case ast.ImportFrom(module=str(home), names=names):
                imported = (f"{home}.{n.name}" for n in names)
                yield from (name for name in imported if FORBIDDEN_IMPORTS.fullmatch(name))


def _is_naive(call: ast.Call) -> bool:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if not (owner.endswith(("datetime", "date")) or name == "datetime"):
        return False
    zone_is_named = {"tz", "tzinfo", None} & {keyword.arg for keyword in call.keywords}
    zone_is_placed = len(call.args) >= TAKES_ZONE.get(name, 0)
    return name in NAIVE_BY_NATURE or not (zone_is_named or zone_is_placed)


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
