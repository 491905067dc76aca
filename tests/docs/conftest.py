"""The documents as a test sees them: their fenced blocks, headings, tables and links.

A comment in front of a block says how it is meant:

    <!-- continues -->      the block goes on where the one before ended
    <!-- refused: CODE -->  the block ends with the error of this code, and that is its point
    <!-- file: NAME -->     README: the block is the content of this file
    <!-- not run: WHY -->   README: the block can't be run in a test
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?:^<!-- (?P<marker>[^\n]*?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
ROW = re.compile(r"^\| (?!---)(.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    marker: str


@dataclass(frozen=True)
class Page:
    """One document; `name` is its path in the repository."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        return ROOT / self.name

    @property
    def blocks(self) -> list[Block]:
        return [Block(m["language"], m["text"], m["marker"] or "") for m in FENCE.finditer(self.text)]

    @property
    def prose(self) -> str:
        """The text without its blocks."""
        return FENCE.sub("", self.text)

    def sections(self) -> dict[str, str]:
        """Text by second-level heading, the heading's backquotes removed."""
        parts = re.split(r"^## (.*)$", self.text, flags=re.MULTILINE)[1:]
        return {title.strip("`"): text for title, text in zip(parts[::2], parts[1::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in the text, the heading rows included."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in ROW.findall(text)]


def quoted(text: str) -> list[str]:
    """The words in backquotes."""
    return re.findall(r"`([^`]+)`", text)


def read_page(name: str) -> Page:
    return Page(name, (ROOT / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Script:
    """Python blocks that belong together, as one program."""

    name: str
    text: str
    refused: str | None  # the code of the error that it ends with


def scripts(page: Page) -> list[Script]:
    """The programs of a page; a block that continues another one is added to it."""
    found: list[Script] = []
    for block in page.blocks:
        if block.language != "python":
            continue
        text = f"{found.pop().text}\n\n{block.text}" if block.marker == "continues" else block.text
        refused = block.marker.removeprefix("refused: ") if block.marker.startswith("refused: ") else None
        found.append(Script(f"{page.name} {len(found) + 1}", text, refused))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "script" in metafunc.fixturenames:
        found = [each for name in page_names() if name != "README.md" for each in scripts(read_page(name))]
        metafunc.parametrize("script", found, ids=lambda each: each.name)


def page_names() -> list[str]:
    """The documents that users and developers read."""
    return ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def pages() -> dict[str, Page]:
    return {name: read_page(name) for name in page_names()}


@pytest.fixture
def tables():
    return rows


@pytest.fixture
def words():
    return quoted


@pytest.fixture(scope="session")
def tracked(root) -> dict[str, str]:
    """Every text file that the repository keeps, by name."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    names = [name for name in listing.split("\0") if name and (root / name).is_file()]
    return {name: (root / name).read_text(encoding="utf-8", errors="replace") for name in names}


@pytest.fixture
def command_folder(tmp_path_factory) -> Path:
    """A folder for PATH in which `counterfoil` is the one under test."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "counterfoil"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m counterfoil "$@"\n')
    command.chmod(0o755)
    return folder
