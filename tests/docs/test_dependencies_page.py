"""docs/dependencies.md says of every package in pyproject.toml why it and not another."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = [
    SETTINGS["project"]["dependencies"],
    *SETTINGS["project"]["optional-dependencies"].values(),
    *SETTINGS["dependency-groups"].values(),
    SETTINGS["build-system"]["requires"],
]
PACKAGES = sorted({re.split(r"[<>=;]", each)[0] for group in GROUPS for each in group if isinstance(each, str)})


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_explained(package):
    assert re.search(rf"\b{package}\b", (ROOT / "docs" / "dependencies.md").read_text())
