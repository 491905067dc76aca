"""Links lead somewhere, and nothing in the repository names a package registry or a folder of one computer."""

import re
from pathlib import Path

import pytest

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
HOST_PARTS = ("pypi" + ".org", "python" + "hosted", "npm" + "js", "artifact" + "ory", "index" + "-url = ")
FOLDER_PARTS = ("/wo" + "rk/", "/ro" + "ot/", "/tmp" + "/v/", "/ho" + "me/")
DEAD = "docs/gone.md"


@pytest.fixture
def links(tracked) -> list[tuple[str, str]]:
    """Every relative link in a tracked document, with the document."""
    found = [(name, link) for name, text in tracked.items() if name.endswith(".md") for link in LINK.findall(text)]
    return [(name, link) for name, link in found if not link.startswith(("https://", "http://", "mailto:"))]


def test_there_are_links_to_check(links):
    assert ("docs/events.md", "errors.md") in links


def test_every_internal_link_leads_to_a_file_and_a_heading_of_it(links, root):
    assert [(name, link) for name, link in links if not _leads_somewhere(root / name, link)] == []


@pytest.mark.parametrize("link", [DEAD, "README.md#no-such-heading", "#no-such-heading"])
def test_a_dead_link_is_noticed(root, link):
    assert not _leads_somewhere(root / "README.md", link)


@pytest.mark.parametrize("part", [*HOST_PARTS, *FOLDER_PARTS])
def test_no_tracked_text_names_a_registry_or_a_folder_of_one_computer(tracked, part):
    assert [name for name, text in tracked.items() if part in text] == []


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text(encoding="utf-8"))


def _anchors(text: str) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in HEADING.findall(text)}
