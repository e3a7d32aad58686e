# Both commands work from a bare clone: they need Python >= 3.11 and a package
# registry, nothing else. Another Python: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv-$(notdir $(PYTHON))
BIN := $(VENV)/bin
OLDEST := .venv-oldest
# Tests of one file share programs. In the order of their names, files that take
# long are not the last.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
INSTALL := -m pip install --quiet

.PHONY: eval test test-slow test-oldest lint clean

eval: $(VENV)/.installed
	$(BIN)/disco-rl eval --steps 500 --set env.rows=5 --set env.columns=5 \
	  --set batching.batch_size=16 --set batching.num_envs=8

test: lint
	$(BIN)/python -m pytest $(WORKERS) --durations 10

# What takes minutes to compile and is implied, but for the composition, by tests
# of the parts.
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest $(WORKERS) -m slow

# The oldest versions that pyproject.toml allows, which Python 3.11 has.
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest $(WORKERS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "disco_rl needs Python 3.11 or newer, got " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	touch $@

# gymnax asks for JAX 0.6, but does with less.
$(OLDEST)/.installed: pyproject.toml constraints/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(INSTALL) --upgrade pip
	$(OLDEST)/bin/python $(INSTALL) --constraint constraints/oldest.txt \
	  --editable '.[atari,notebooks]' flax hatchling hypothesis pytest \
	  pytest-xdist seaborn
	$(OLDEST)/bin/python $(INSTALL) --constraint constraints/oldest.txt \
	  --no-deps gymnax
	touch $@

clean:
	rm -rf .venv-* .pytest_cache .mypy_cache .ruff_cache build dist
