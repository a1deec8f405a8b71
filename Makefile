# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BENCH := .venv-bench
BIN := $(VENV)/bin

.PHONY: demo test check lint lock clean

demo: $(VENV)/.demo
	$(BIN)/evalkit demo --out runs

# Everything: lint, types, floors, all tests, all notebooks. Ends with pytest's own line.
test: $(VENV)/.dev $(PEERS)/.done lint
	$(BIN)/python -m pytest -q tests/golden --nbval --nbval-current-env -p no:cacheprovider
	@# the notebooks make real runs: their keys and trust belong in a home of their own, not in the user's
	home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && \
	  XDG_CONFIG_HOME=$$home/config XDG_STATE_HOME=$$home/state \
	  $(BIN)/python -m pytest tests notebooks --nbval-lax --nbval-current-env --ignore=tests/golden

# The fast part, for every change.
check: $(VENV)/.dev lint
	$(BIN)/python -m pytest -q tests --ignore=tests/golden -m "not slow and not browser"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --verbose
	$(BIN)/nbstripout --verify --keep-id notebooks/*.ipynb

# Made anew by hand when dependencies change.
lock: $(VENV)/.dev
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -q -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev -c requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --no-header -q -o requirements-dev.lock
	$(BIN)/uv pip compile tests/peers/requirements.in --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -q -o tests/peers/requirements.lock
	$(BIN)/uv pip compile benchmarks/peers/requirements.in -c tests/peers/requirements.lock \
	  --excludes benchmarks/peers/excludes.txt --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -q -o benchmarks/peers/requirements.lock

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "evalkit needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python requirements.lock pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements-dev.lock pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	touch $@ $(VENV)/.demo

# Packages that the tests ask what they return (tests/peers); nothing of ours is in there.
$(PEERS)/.done: tests/peers/requirements.lock
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	touch $@

# The same and those that need PyTorch, beside evalkit: for benchmarks/scoring.py, by hand (1.3 GB).
$(BENCH)/.done: benchmarks/peers/requirements.lock
	$(PYTHON) -m venv --clear $(BENCH)
	$(BENCH)/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
	$(BENCH)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r $<
	$(BENCH)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(BENCH) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
