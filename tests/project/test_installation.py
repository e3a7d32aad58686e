"""Installation hints are commands that install the right packages."""

import importlib.metadata
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from disco_rl import installation
from disco_rl.runs import plots

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text('utf-8'))['project']
EXTRAS = PROJECT['optional-dependencies']
# Texts for users; the tests below contain wrong hints on purpose.
TEXTS = sorted(
  path
  for pattern in ('*', 'docs/*', 'colabs/*', '**/*.py')
  for path in ROOT.glob(pattern)
  if path.suffix in ('.md', '.ipynb', '.py', '.cff')
  and path.relative_to(ROOT).parts[0] != 'tests'
  and not path.relative_to(ROOT).parts[0].startswith('.')
)


def _name(requirement):
  """Returns the normalised name of the package of a requirement."""
  name = re.match(r'[\w.-]*', requirement).group()
  return re.sub(r'[-_.]+', '-', name).lower()


FOREIGN = {_name(item) for items in EXTRAS.values() for item in items}


def _bad_hints(text):
  """Returns the targets of `pip install` in a text that are wrong.

  Args:
    text: of a document or a program.

  Returns:
    The targets of `pip install` that are no checkout, no repository and none of
    our optional dependencies; and extras of anything that sounds like us.
  """
  # A name for what is in our repository.
  text = re.sub(r'discovered-rl\[\w+\] @ (?=git\+(https://|\{))', '', text)
  bad = re.findall(r'disco[\w-]*\[(?:' + '|'.join(EXTRAS) + r')\]', text, re.I)
  for command in re.findall(r'pip install[ \t]+([^`\n]*)', text):
    words = re.findall(r"""[^\s'"\\]+""", command)
    # The first target may be followed by prose.
    target = next((word for word in words if not word.startswith('-')), '')
    is_place = re.match(r'\.|/|git\+(https://|\{)|\{', target)
    if not is_place and _name(target) not in FOREIGN:
      bad.append(target)
  return bad


def test_the_check_of_hints_can_fail():
  for hint in (
    "pip install 'disco_rl[gym]'",
    'pip install disco_rl',
    'pip install disco-rl',
    'pip install discovered-rl',  # Not published either.
    '%pip install "disco_rl[plots] @ git+<address of this repository>"',
    '| Gymnasium | `disco_rl[gym]` |',
  ):
    assert _bad_hints(hint), hint
  for hint in (
    "pip install -e '.[gym]'",
    "%pip install -e '..[plots]'",
    '%pip install --quiet "discovered-rl[plots] @ git+{REPOSITORY}"',
    '(`pip install flax`)',
    "pip install 'gymnasium>=1.2'",
  ):
    assert not _bad_hints(hint), hint


def test_all_hints():
  assert {'README.md', 'eval.ipynb', 'plots.py'} <= {p.name for p in TEXTS}
  for path in TEXTS:
    assert not _bad_hints(path.read_text('utf-8')), path


def test_the_name_is_not_that_of_the_unrelated_library():
  assert _name(PROJECT['name']) == installation.DISTRIBUTION != 'disco-rl'
  assert PROJECT['scripts'].keys() == {'disco-rl'}


@pytest.mark.parametrize('extra', sorted(EXTRAS))
def test_hint_in_a_checkout_names_it(extra):
  command = shlex.split(installation.install_hint(extra))
  assert command == ['pip', 'install', '-e', f'{ROOT}[{extra}]']


@pytest.mark.parametrize('extra', sorted(EXTRAS))
def test_hint_of_a_wheel_names_the_packages(extra, monkeypatch):
  monkeypatch.setattr(installation, '_is_checkout', lambda root: False)
  # As a wheel has it: with the conditions that make a requirement optional.
  requirements = PROJECT['dependencies'] + [
    f"{item}; extra == '{name}'" for name in EXTRAS for item in EXTRAS[name]
  ]
  monkeypatch.setattr(importlib.metadata, 'requires', lambda _: requirements)
  command = shlex.split(installation.install_hint(extra))
  assert command == ['pip', 'install', *EXTRAS[extra]]


def test_hint_without_any_metadata(monkeypatch):
  monkeypatch.setattr(installation, '_is_checkout', lambda root: False)
  monkeypatch.setattr(installation, 'DISTRIBUTION', 'no-such-distribution')
  assert "-e '.[gym]' (in a checkout" in installation.install_hint('gym')


def test_a_folder_of_another_project_is_no_checkout(tmp_path):
  assert not installation._is_checkout(tmp_path)
  (tmp_path / 'pyproject.toml').write_text('[project]\nname = "disco_rl"\n')
  assert not installation._is_checkout(tmp_path)
  (tmp_path / 'pyproject.toml').write_text('no toml')
  assert not installation._is_checkout(tmp_path)


def test_pip_accepts_the_hint():
  # As far as it goes without a network: the folder is that of our project.
  *_, target = shlex.split(installation.install_hint('plots'))
  pip = [sys.executable, '-m', 'pip', '--disable-pip-version-check']
  options = ['--dry-run', '--no-deps', '--no-build-isolation']
  result = subprocess.run(
    [*pip, 'install', *options, target],
    capture_output=True,
    text=True,
    check=False,
  )
  assert result.returncode == 0, result.stderr
  assert re.search('Would install discovered-rl', result.stdout, re.I)


def test_pictures_without_matplotlib_name_the_command(monkeypatch):
  monkeypatch.setitem(sys.modules, 'matplotlib', None)
  with pytest.raises(ImportError, match=r'matplotlib: pip install -e .*plots'):
    plots.learning_curves({})
