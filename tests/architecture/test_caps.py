"""Size caps: files, functions, parameters, nesting and classes stay small.

Budgets per module are in budgets.toml; the caps here hold for all and have no exceptions.
"""

import ast
import statistics
import tomllib
from collections.abc import Iterator

import pytest

FILE_LINES, CORE_FILE_LINES = 600, 400
FUNCTION_LINES, FUNCTION_P90, FUNCTION_MEDIAN = 60, 35, 9
PARAMETERS, POSITIONAL = 6, 3
NESTING = 4
PUBLIC_METHODS = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (
    *(ast.If, ast.Match, ast.Try, ast.TryStar, ast.While),
    *(ast.For, ast.AsyncFor, ast.With, ast.AsyncWith),
)


@pytest.fixture(scope="module")
def budgets(root) -> dict[str, int]:
    return tomllib.loads((root / "tests/architecture/budgets.toml").read_text())["lines"]


@pytest.fixture(scope="module")
def functions(modules) -> dict[str, Function]:
    return {
        f"{module.name}:{node.lineno} {node.name}": node
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, FUNCTIONS)
    }


def test_every_module_has_a_budget(modules, budgets):
    assert [module.name for module in modules if module.name not in budgets] == []


def test_no_module_is_over_its_budget(modules, budgets):
    over = {m.name: m.lines for m in modules if m.lines > budgets.get(m.name, FILE_LINES)}
    assert over == {}


def test_no_budget_is_over_the_cap(budgets):
    assert {name: lines for name, lines in budgets.items() if lines > _cap(name)} == {}


def test_no_function_is_too_long(functions):
    assert [name for name, node in functions.items() if _lines(node) > FUNCTION_LINES] == []


def test_most_functions_are_short(functions):
    lengths = [_lines(node) for node in functions.values()]
    assert statistics.median(lengths) <= FUNCTION_MEDIAN
    assert statistics.quantiles(lengths, n=10)[-1] <= FUNCTION_P90


def test_no_function_takes_too_many_parameters(functions):
    assert [name for name, node in functions.items() if _named(node) > PARAMETERS] == []


def test_few_parameters_may_be_given_by_position(functions):
    over = {name for name, node in functions.items() if _positional(node) > POSITIONAL}
    assert over == set()


def test_no_function_nests_too_deeply(functions):
    assert [name for name, node in functions.items() if _nesting(node.body) > NESTING] == []


def test_no_public_class_has_too_many_methods(modules):
    classes = [
        (f"{module.name} {node.name}", node)
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, node in classes if len(_methods(node)) > PUBLIC_METHODS] == []


def _cap(module_name: str) -> int:
    return CORE_FILE_LINES if module_name.startswith("core/") else FILE_LINES


def _lines(node: Function) -> int:
    return node.end_lineno - node.lineno + 1


def _positional(node: Function) -> int:
    """How many parameters a caller may give by position; *args is the user's own list."""
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return len(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def _named(node: Function) -> int:
    return _positional(node) + len(node.args.kwonlyargs)


def _methods(node: ast.ClassDef) -> set[str]:
    names = {item.name for item in node.body if isinstance(item, FUNCTIONS)}
    return {name for name in names if not name.startswith("_")}


def _nesting(body: list[ast.stmt]) -> int:
    """How deep blocks lie in blocks; an inner function or class is counted on its own."""
    blocks = [statement for statement in body if isinstance(statement, BLOCKS)]
    return max((_depth(block) for block in blocks), default=0)


def _depth(block: ast.stmt) -> int:
    return max(1 + max(map(_nesting, _bodies(block)), default=0), _elif_depth(block))


def _bodies(block: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists inside a block, without the `elif` that continues it."""
    parts = [block, *getattr(block, "handlers", []), *getattr(block, "cases", [])]
    for part in parts:
        for field in ("body", "orelse", "finalbody"):
            if not (field == "orelse" and _elif(part)):
                yield getattr(part, field, [])


def _elif(block: ast.AST) -> ast.If | None:
    match block:
        case ast.If(orelse=[ast.If() as inner]) if inner.col_offset == block.col_offset:
            return inner
    return None


def _elif_depth(block: ast.stmt) -> int:
    follower = _elif(block)
    return _depth(follower) if follower else 0
