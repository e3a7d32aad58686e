# `make eval` and `make test` work in a fresh clone: they need only Python >= 3.11
# and access to a package index. With another Python: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv-$(notdir $(PYTHON))
BIN := $(VENV)/bin
OLDEST := .venv-oldest
# Each file of tests runs in one worker, since its tests share compiled programs.
# Files run in the order of their names, so that long ones do not come last.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
INSTALL := -m pip install --quiet

.PHONY: eval test test-slow test-oldest bench bench-growth bench-scaling docs \
  lint release clean

eval: $(VENV)/.installed
	$(BIN)/disco-rl eval --steps 500 --set env.rows=5 --set env.columns=5 \
	  --set batching.batch_size=16 --set batching.num_envs=8

test: lint
	$(BIN)/python -m pytest $(WORKERS) --durations 10

# Tests that compile or run for minutes; their parts are tested by `make test`.
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest $(WORKERS) -m slow

# With the oldest versions that pyproject.toml allows, on Python 3.11.
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest $(WORKERS)

# Times and memory; less than ten minutes, on a machine that does nothing else.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.all --json bench.json

# How times grow with sizes, as a picture; about twenty minutes.
bench-growth: $(VENV)/.installed
	$(BIN)/python -m benchmarks.growth --json growth.json --png growth.png

# How meta-updates scale over simulated devices and processes; eleven minutes.
bench-scaling: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scaling --json scaling.json --png scaling.png

# The documentation site, in build/site; warnings are errors.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Builds dist/, checks it, and trains an agent with the wheel elsewhere.
release:
	.ci/release $(PYTHON)

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "disco_rl needs Python 3.11 or newer, got " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	touch $@

# gymnax requires JAX 0.6, but works with older versions.
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
