# Both commands work from a bare clone: they need Python >= 3.11 and a package
# registry, nothing else. Another Python: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv-$(notdir $(PYTHON))
BIN := $(VENV)/bin

.PHONY: eval test test-slow lint clean

eval: $(VENV)/.installed
	$(BIN)/disco-rl eval --steps 500 --set env.rows=5 --set env.columns=5 \
	  --set experiment.batch_size=16 --set experiment.replay_ratio=2

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 10

# What takes minutes to compile and is implied, but for the composition, by tests
# of the parts.
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "disco_rl needs Python 3.11 or newer, got " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv-* .pytest_cache .mypy_cache .ruff_cache build dist
