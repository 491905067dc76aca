"""Rules for the whole suite: in CI a skipped test is a failed test.

A database or a browser that is missing must not turn the build green.
"""

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

from counterfoil.core import registry
from counterfoil.engine import bridge, definitions, keyring

IN_CI = bool(os.environ.get("CI"))
R = TypeVar("R", pytest.TestReport, pytest.CollectReport)


def _refuse_skip(report: R) -> R:
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refuse_skip((yield))


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What a test registers and declares is forgotten after it; what other modules declare is unknown to it."""
    own = {
        name: declared
        for name, declared in definitions._workflows.items()
        if declared.function.__module__ == request.module.__name__
    }
    monkeypatch.setattr(definitions, "_workflows", own)
    monkeypatch.setattr(bridge._bridges, "is_wanted", False)
    monkeypatch.setattr(keyring, "_held", {})
    for name in ("_names", "_types"):
        monkeypatch.setattr(registry, name, dict(vars(registry)[name]))
