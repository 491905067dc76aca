"""The SQLite store keeps every promise of a store, whichever thread its commits are made in."""

import pytest

from counterfoil.stores import sqlite
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "runs.db")


class TestSqliteStoreOnTheEventLoop(TestSqliteStore):
    @pytest.fixture(autouse=True)
    def every_disk_is_quick(self, monkeypatch):
        monkeypatch.setattr(sqlite, "QUICK_COMMITS_MIN", 0)


class TestSqliteStoreInItsThread(TestSqliteStore):
    @pytest.fixture(autouse=True)
    def no_disk_is_quick(self, monkeypatch):
        monkeypatch.setattr(sqlite, "QUICK_SECONDS", 0)
