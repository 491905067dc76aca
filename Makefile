# Everything a developer runs. Needs python3 (3.11 or newer), make and git; each target makes
# its own virtual environment, and a stamp file in it says which packages are already there.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=

bin := $(VENV)/bin
legacy := .venv-legacy
export UV_PYTHON_DOWNLOADS := never
install := $(bin)/uv pip install --quiet --python $(bin)/python --constraints constraints.txt
pins := $(bin)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
  --custom-compile-command 'make pins' --no-emit-index-url --no-annotate
pytest := $(bin)/python -m pytest
legacy_tests := $(wildcard tests/integration/test_wrap_*.py) tests/integration/test_openai_calls.py \
  tests/e2e/test_wrapped_clients.py tests/e2e/test_streamed_calls.py
typed := src examples $(wildcard tests/typing)

.DEFAULT_GOAL := help
.PHONY: help demo test test-legacy check bench docs soak format pins clean

help: ## print this help
	@echo 'usage: make TARGET [PYTHON=python3.x] [VENV=folder] [PYTEST_ARGS="..."]'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' $(MAKEFILE_LIST) | expand -t 15

demo: $(VENV)/.core ## kill an agent for real, resume it, count the model calls
	$(bin)/counterfoil lab

test: $(VENV)/.test ## run the tests (PYTEST_ARGS is passed on)
	$(pytest) -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-legacy: $(legacy)/.test ## run the tests that use a model's client, with clients built on httpx
	$(legacy)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m sdk $(legacy_tests) $(PYTEST_ARGS)

check: $(VENV)/.test ## lint, format, types, import contracts, size caps
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy $(typed)
	$(bin)/lint-imports
	$(pytest) tests/architecture

bench: $(VENV)/.bench ## measure steps a second, beside the floor and a peer
	$(bin)/python bench/run.py

docs: $(VENV)/.test ## run every block and command that the documents show
	$(pytest) tests/docs $(PYTEST_ARGS)

soak: $(VENV)/.test ## the crash tests with many more kill points; takes a while
	COUNTERFOIL_SOAK=20 $(pytest) tests/crash --timeout 3600 $(PYTEST_ARGS)

format: $(VENV)/.test ## put the source in its normal form
	$(bin)/ruff check --fix
	$(bin)/ruff format

pins: $(VENV)/.uv ## choose the newest versions again and write constraints*.txt
	$(pins) --all-extras --group test --group bench --output-file constraints.txt pyproject.toml
	$(pins) --group legacy --output-file constraints-legacy.txt pyproject.toml

clean: ## remove the environments, caches and builds
	rm -rf $(VENV) .venv .venv-* build dist htmlcov .coverage .coverage.*
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
	  "Counterfoil needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.x" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(bin)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	@touch $@

$(VENV)/.core: $(VENV)/.uv pyproject.toml constraints.txt
	$(install) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(install) --group test
	@touch $@

$(legacy)/.test: $(VENV)/.uv pyproject.toml constraints-legacy.txt
	$(bin)/uv venv --quiet --allow-existing --python $(bin)/python $(legacy)
	$(bin)/uv pip install --quiet --python $(legacy)/bin/python --constraints constraints-legacy.txt \
	  --editable . --group legacy
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	$(install) --group bench
	@touch $@
