"""A store that may kill its process keeps every promise as long as it does not."""

import pytest

from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.conformance import StoreConformance
from counterfoil.testing.crash import KillingStore


class TestKillingStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: KillingStore(SqliteStore(tmp_path / "runs.db"), before=10_000)
