"""The SQLite store keeps every promise of a store."""

import pytest

from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "runs.db")
