"""The memory store keeps every promise of a store."""

import pytest

from counterfoil.stores.memory import MemoryStore
from counterfoil.testing.conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def make_store(self):
        return MemoryStore
