"""Public names use the words of docs/glossary.md and none of those it bans."""

import ast
import re

import pytest

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")  # of snake_case and CamelCase
HEADING = "## Words that no public name contains"


@pytest.fixture(scope="module")
def banned(root) -> set[str]:
    section = (root / "docs/glossary.md").read_text(encoding="utf-8").split(HEADING)[1]
    return set(re.findall(r"`(\w+)`", section.split("\n## ")[0]))


def test_the_glossary_bans_words(banned):
    assert {"manager", "helper", "util", "common", "base"} <= banned


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("RunManager", {"run", "manager"}),
        ("open_http_util", {"open", "http", "util"}),
        ("HTTPBase2", {"http", "base", "2"}),
        ("database", {"database"}),
    ],
)
def test_a_name_is_judged_by_its_whole_pieces(name, pieces):
    assert _pieces(name) == pieces


def test_no_public_name_contains_a_banned_word(modules, banned):
    bad = [
        f"{module.name}: {name}"
        for module in modules
        for name in (*_public_names(module.tree), *module.name.removesuffix(".py").split("/"))
        if _pieces(name) & banned
    ]
    assert bad == []


def _pieces(name: str) -> set[str]:
    return {piece.lower() for piece in PIECE.findall(name)}


def _public_names(tree: ast.Module | ast.ClassDef) -> list[str]:
    """Functions and classes of a module, and the methods of those classes."""
    public = [node for node in tree.body if isinstance(node, DEFINITIONS) and not node.name.startswith("_")]
    classes = [node for node in public if isinstance(node, ast.ClassDef)]
    return [node.name for node in public] + [n for node in classes for n in _public_names(node)]
