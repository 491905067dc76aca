"""What the architecture tests read: every module of the package, as text and as a tree."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "counterfoil"


@dataclass(frozen=True)
class Module:
    """One source file; `name` is its path inside the package, such as `core/keys.py`."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def is_in(self, *places: str) -> bool:
        """Whether this is one of the named files, or lies in one of the named folders."""
        return any(self.name == place or self.name.startswith(f"{place}/") for place in places)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    return [_read(path) for path in sorted(PACKAGE.rglob("*.py"))]


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path.relative_to(PACKAGE).as_posix(), text, ast.parse(text))
