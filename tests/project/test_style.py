"""Conventions that the linter cannot check."""

import ast
import importlib
import pathlib
import pkgutil

import pytest

import disco_rl
from disco_rl.environments import registry as environments

ROOT = pathlib.Path(__file__).parents[2]
FILES = sorted(
  path
  for folder in ('disco_rl', 'tests', 'examples', 'benchmarks')
  for path in (ROOT / folder).rglob('*.py')
  # It imports the public functions by name, for type checkers.
  if path != ROOT / 'disco_rl' / '__init__.py'
)


@pytest.mark.parametrize('path', FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_our_own_code_is_imported_by_module(path):
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if not isinstance(node, ast.ImportFrom):
      continue
    assert node.level == 0, 'relative import'
    package = (node.module or '').split('.')[0]
    if package not in ('disco_rl', 'tests', 'benchmarks'):
      continue
    for alias in node.names:
      importlib.import_module(f'{node.module}.{alias.name}')


def test_every_module_says_what_it_is():
  names = [
    module.name
    for module in pkgutil.walk_packages(disco_rl.__path__, 'disco_rl.')
  ]
  assert 'disco_rl.update_rules.disco' in names
  packages = {family.package for family in environments.FAMILIES.values()}
  for name in names:
    try:
      assert importlib.import_module(name).__doc__, name
    except ModuleNotFoundError as error:  # An extra that is not installed.
      assert error.name in packages, name


# Functions and methods that write files: `numpy.savez`, `Path.write_text`.
_WRITERS = (
  *('savefig', 'savez', 'savez_compressed', 'tofile'),
  *('write_bytes', 'write_text'),
)
_WRITERS_OF_MODULES = (
  *('json.dump', 'np.save', 'os.rename', 'os.replace', 'pickle.dump'),
  *('shutil.copy', 'shutil.copyfile', 'shutil.copytree', 'shutil.move'),
)


def _writes(source):
  """Yields the calls of a program that write files."""
  for node in ast.walk(ast.parse(source)):
    if not isinstance(node, ast.Call):
      continue
    name = ast.unparse(node.func)
    last = name.rpartition('.')[2]
    is_writer = last in _WRITERS or name in _WRITERS_OF_MODULES
    if is_writer or (last == 'open' and _opens_for_writing(node, name)):
      yield ast.unparse(node)


def _opens_for_writing(call, name):
  """Returns whether a call of a function or method `open` is for writing."""
  # The mode is the second argument of the function, the first of a method.
  modes = call.args[1:2] if name == 'open' else call.args[:1]
  modes = modes + [k.value for k in call.keywords if k.arg == 'mode']
  texts = [node.value for node in modes if isinstance(node, ast.Constant)]
  if name == 'open' and len(texts) < len(modes):
    return True  # Perhaps.
  return any(set('wax+') & set(str(mode)) for mode in texts)


def test_only_runs_and_the_rule_zoo_write_files():
  package = ROOT / 'disco_rl'
  writing = {'runs', 'rule_zoo'}
  found = set()
  for path in package.rglob('*.py'):
    unit = path.relative_to(package).parts[0]
    calls = list(_writes(path.read_text(encoding='utf-8')))
    assert not calls or unit in writing, (path, calls)
    found |= {unit} if calls else set()
  assert found == writing


def test_the_check_of_writing_can_fail():
  for source in (
    "open(path, 'w')",
    "path.open('ab', buffering=0)",
    "with open(path, mode='x+b') as file: pass",
    'open(path, mode)',
    'np.savez(path, **arrays)',
    "path.write_text('x')",
    'os.replace(a, b)',
  ):
    assert list(_writes(source)), source
  for source in (
    'open(path)',
    "path.open('rb')",
    'plan.open(out, resume=True)',
    "text.replace('a', 'w')",
    'checkpoint.save(path, state)',
  ):
    assert not list(_writes(source)), source


def test_long_modules_say_why_they_are_one_file():
  for path in (ROOT / 'disco_rl').rglob('*.py'):
    text = path.read_text(encoding='utf-8')
    if text.count('\n') > 400:
      docstring = ast.get_docstring(ast.parse(text)) or ''
      assert 'One file because' in ' '.join(docstring.split()), path
