"""The shipped suite is a module like any other to pytest, unless it is told to explain its assertions."""

import pytest

pytest.register_assert_rewrite("counterfoil.testing.conformance", "counterfoil.testing.streaming")
