"""The libraries that clients send with. Beside legacy clients there is only `httpx`."""

import importlib
from importlib.util import find_spec

import pytest

LIBRARIES = [importlib.import_module(name) for name in ("httpx", "httpx2") if find_spec(name)]
MODULES = [pytest.param(module, id=module.__name__) for module in LIBRARIES]
