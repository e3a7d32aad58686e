"""No module imports from a layer above its own."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / 'disco_rl'

# From low to high. Members of one layer do not import each other, but for
# `WITHIN_A_LAYER`.
LAYERS = (
  ('types', 'utils', 'compat', 'fields', 'installation', 'memory'),
  ('arithmetic', 'optimizers', 'processes'),
  ('runs', 'device_choice'),
  ('environments', 'networks', 'value_fns'),
  ('update_rules',),
  ('schema',),
  ('rule_zoo',),
  ('config',),
  ('parallel', 'learning'),
  ('agent',),
  ('evaluation', 'conformance'),
  ('meta_training', 'benchmarking', 'inspection'),
  ('cli',),
)
LEVELS = {name: i for i, layer in enumerate(LAYERS) for name in layer}
WITHIN_A_LAYER = {
  ('compat', 'types'),
  ('utils', 'fields'),
  ('utils', 'types'),
  ('value_fns', 'networks'),
}
# Both are where the published library has them, see
# tests/contracts/published_api.json. The second imports the lowest layer only.
PUBLISHED = {('networks.meta_nets', 'update_rules.input_transforms')}


def _imported_modules(source):
  """Returns the modules of the package that a program imports."""
  for node in ast.walk(ast.parse(source)):
    names = []
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    for name in names:
      package, _, module = name.partition('.')
      if package == 'disco_rl' and module:
        yield module


def _violations(module, source):
  """Returns the imports of a module that are not allowed."""
  unit = module.partition('.')[0]
  for imported in _imported_modules(source):
    other = imported.partition('.')[0]
    is_lower = LEVELS[other] < LEVELS[unit] or other == unit
    is_allowed = (unit, other) in WITHIN_A_LAYER
    if not (is_lower or is_allowed or (module, imported) in PUBLISHED):
      yield imported


MODULES = {
  '.'.join(path.relative_to(PACKAGE).with_suffix('').parts): path
  for path in sorted(PACKAGE.rglob('*.py'))
  if path != PACKAGE / '__init__.py'  # It collects the public functions.
}


def test_every_module_is_in_a_layer():
  assert {name.partition('.')[0] for name in MODULES} == LEVELS.keys()


@pytest.mark.parametrize('module', MODULES)
def test_nothing_is_imported_from_above(module):
  source = MODULES[module].read_text(encoding='utf-8')
  assert not list(_violations(module, source))


def test_the_check_can_fail():
  inner = 'if TYPE_CHECKING:\n  from disco_rl.cli import main'
  for module, source in (
    ('runs.files', 'from disco_rl import agent'),
    ('runs.files', 'import disco_rl.schema'),
    ('evaluation.plan', 'def f():\n  from disco_rl.cli import main'),
    ('agent', inner),
    ('networks.nets', 'from disco_rl.value_fns import value_fn'),
    ('networks.nets', 'from disco_rl.update_rules import input_transforms'),
    ('parallel', 'from disco_rl.learning import replay'),
  ):
    assert list(_violations(module, source)), source
  for module, source in (
    ('runs.files', 'import disco_rl\nfrom disco_rl import types, utils'),
    ('value_fns.value_fn', 'from disco_rl.networks import nets'),
    ('cli.main', 'from disco_rl.cli import errors\nimport numpy as np'),
  ):
    assert not list(_violations(module, source)), source


def test_devices_are_known_to_small_modules():
  processes = {'processes.arrays', 'processes.group', 'processes.runtime'}
  for name, known in (
    ('parallel', {'compat', 'types', 'device_choice', *processes}),
    ('device_choice', {'fields', 'processes.runtime'}),
  ):
    source = MODULES[name].read_text(encoding='utf-8')
    assert set(_imported_modules(source)) <= known


def test_exceptions_are_needed():
  """Exceptions that are not needed should be removed above."""
  edges, paths = set(), set()
  for module, path in MODULES.items():
    for imported in _imported_modules(path.read_text(encoding='utf-8')):
      edges.add((module.partition('.')[0], imported.partition('.')[0]))
      paths.add((module, imported))
  assert edges >= WITHIN_A_LAYER and paths >= PUBLISHED
