"""The notebooks run from top to bottom, at tiny sizes."""

import importlib.util
import os
import pathlib
import re
import runpy
import sys
import tomllib
import types

import jax
import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
COLABS = ROOT / 'colabs'
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text('utf-8'))
REPOSITORY = PROJECT['tool']['disco_rl']['repository']

# Replaces the cell tagged `parameters`.
TINY = {
  'eval.ipynb': """
RULE = 'policy_gradient'
BASELINE = 'actor_critic'
ENVIRONMENT = 'catch'
ENVIRONMENT_SETTINGS = dict(rows=5, columns=4)
NUM_ITERATIONS = 12
SEEDS = (0, 1)
SIZES = dict(batch_size=8, rollout_length=6, num_envs=2, replay_capacity=16)
""",
  'inspect.ipynb': """
RULE = 'catch_small'
ENVIRONMENT = 'catch'
SETTINGS = {
  'env.rows': 5,
  'env.columns': 4,
  'batching.batch_size': 8,
  'batching.num_envs': 8,
  'batching.rollout_length': 9,
  'chunk_size': 1,
  'agent.net_settings.net_args.dense': (9, 8),
}
NUM_ITERATIONS = 4
SIZES = dict(num_streams=8, num_steps=24)
""",
  'meta_train.ipynb': """
INIT = 'random'
NUM_META_UPDATES = 3
NUM_AGENTS = 1
BOARD = dict(rows=5, columns=4)
SETTINGS = {
  'meta.num_inner_updates': 1,
  'batching.batch_size': 3,
  'batching.num_envs': 3,
  'batching.rollout_length': 6,
  'net.catch.net_args.dense': (9, 8),
}
NUM_ITERATIONS = 4
SEEDS = (0, 1)
FRESH_SIZES = dict(
  batch_size=8, rollout_length=6, num_envs=2, replay_capacity=16
)
""",
}


def test_every_notebook_is_here():
  assert {path.name for path in COLABS.glob('*.ipynb')} == set(TINY)


@pytest.mark.parametrize(
  'name',
  [
    'eval.ipynb',
    pytest.param('inspect.ipynb', marks=pytest.mark.slow),
    # Compiles for minutes; its parts are tested elsewhere.
    pytest.param('meta_train.ipynb', marks=pytest.mark.slow),
  ],
)
def test_notebook(name, monkeypatch):
  for variable, value in {
    # The folder of this process, which compiles nothing in the meantime.
    'JAX_COMPILATION_CACHE_DIR': jax.config.jax_compilation_cache_dir or '',
    'JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES': 'none',
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
    'JAX_PLATFORMS': 'cpu',
  }.items():
    monkeypatch.setenv(variable, value)
  notebook = nbformat.read(COLABS / name, as_version=4)
  (parameters,) = [
    cell
    for cell in notebook.cells
    if 'parameters' in cell.metadata.get('tags', ())
  ]
  parameters.source = TINY[name]
  nbclient.NotebookClient(
    notebook, timeout=300, kernel_name='python3'
  ).execute()
  images = [
    output
    for cell in notebook.cells
    for output in cell.get('outputs', ())
    if 'image/png' in output.get('data', {})
  ]
  assert images


@pytest.mark.parametrize('name', sorted(TINY))
def test_outputs_of_notebooks_have_no_private_paths(name):
  text = (COLABS / name).read_text(encoding='utf-8')
  for word in (os.path.expanduser('~'), str(COLABS.parent), '/tmp/', '/home/'):
    assert word not in text


@pytest.mark.parametrize('name', sorted(TINY))
def test_pages_of_notebooks_are_up_to_date(name):
  """`python colabs/pages.py` writes them."""
  module = runpy.run_path(str(COLABS / 'pages.py'))
  written = module['pages'](COLABS / name)
  stem = name.removesuffix('.ipynb')
  found = {path.name for path in module['PAGES'].glob(f'{stem}*')}
  assert found == written.keys()
  for file_name, content in written.items():
    assert (module['PAGES'] / file_name).read_bytes() == content


def _run_first_cell(name):
  """Runs the first cell with code; returns the lines that install packages."""
  transformer = pytest.importorskip('IPython.core.inputtransformer2')
  notebook = nbformat.read(COLABS / name, as_version=4)
  cell = next(cell for cell in notebook.cells if cell.cell_type == 'code')
  source = transformer.TransformerManager().transform_cell(cell.source)
  installed, names = [], {}

  def run_line_magic(magic, line):
    assert magic == 'pip'
    installed.append(line.format_map(names))

  shell = types.SimpleNamespace(run_line_magic=run_line_magic)
  names['get_ipython'] = lambda: shell
  exec(compile(source, name, 'exec'), names)
  return installed


@pytest.mark.parametrize('name', sorted(TINY))
def test_the_first_cell_installs_the_library_in_colab_only(name, monkeypatch):
  assert _run_first_cell(name) == []
  colab = types.ModuleType('google.colab')
  monkeypatch.setitem(sys.modules, 'google.colab', colab)
  assert _run_first_cell(name) == []  # It is there already.
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  package = PROJECT['project']['name']
  assert _run_first_cell(name) == [
    f'install --quiet "{package}[plots] @ git+{REPOSITORY}"'
  ]


@pytest.mark.parametrize('name', sorted(TINY))
def test_a_badge_opens_the_notebook(name):
  badge = (
    'https://colab.research.google.com/'
    f'{REPOSITORY.removeprefix("https://")}/blob/main/colabs/{name}'
  ).replace('github.com/', 'github/')
  first = nbformat.read(COLABS / name, as_version=4).cells[0].source
  assert f']({badge})' in first.splitlines()[0]
  # Other badges are of the same notebooks.
  page = (ROOT / 'README.md').read_text('utf-8')
  for found in re.findall(r'https://colab[^)]+\.ipynb', page):
    assert found.rpartition('/')[0] == badge.rpartition('/')[0]
    assert found.rpartition('/')[2] in TINY
