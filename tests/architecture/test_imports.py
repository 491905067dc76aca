"""Imports point down: the contracts of pyproject.toml are kept, and there are some."""

import subprocess
import sys
import tomllib
from pathlib import Path


def test_every_import_contract_is_kept(root):
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_and_its_folders_must_place_every_module(root):
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    exhaustive = {
        container
        for contract in settings["contracts"]
        if contract.get("exhaustive")
        for container in contract["containers"]
    }
    assert exhaustive == {
        "counterfoil",
        "counterfoil.core",
        "counterfoil.engine",
        "counterfoil.integrations",
        "counterfoil.stores",
    }


def test_importing_the_package_loads_no_client_and_nothing_that_is_an_extra():
    foreign = {"openai", "anthropic", "httpx", "httpx2", "greenlet", "genai_prices", "pydantic"}
    code = "import sys, counterfoil, counterfoil.cli.main; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert foreign & set(ran.stdout.split()) == set()
