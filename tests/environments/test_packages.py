"""Packages of environments that are missing, too old or broken."""

import importlib.metadata
import pathlib
import re
import tomllib

import jax
import pytest

from disco_rl.environments import foreign
from disco_rl.environments import packages
from disco_rl.environments import registry

ROOT = pathlib.Path(__file__).parents[2]


def _make_package(folder, version, text=''):
  """Makes an importable package with metadata."""
  (folder / 'oldgames.py').write_text(text)
  info = folder / f'oldgames-{version}.dist-info'
  info.mkdir()
  (info / 'METADATA').write_text(
    f'Metadata-Version: 2.1\nName: oldgames\nVersion: {version}\n'
  )


@pytest.fixture
def make_family(tmp_path, monkeypatch):
  """Registers a family whose adapter imports a package that a test makes."""
  monkeypatch.syspath_prepend(tmp_path)
  adapter = 'import oldgames\nget_config = lambda name: {}\nget_fields = dict\n'
  (tmp_path / 'oldgames_env.py').write_text(adapter)

  def make(version, text='', **settings):
    _make_package(tmp_path, version, text)
    registry.FAMILIES['oldgames'] = registry.Family(
      'oldgames_env', 'oldgames:<id>', 'oldgames', 'gym', **settings
    )

  yield make
  for name in ('oldgames', 'oldgames_env'):
    __import__('sys').modules.pop(name, None)


@pytest.mark.parametrize(
  ('installed', 'minimum', 'is_enough'),
  [
    ('1.0.1', '1.0.1', True),
    ('1.0', '1.0.0', True),
    ('1.10.0', '1.9', True),
    ('2', '1.9.9', True),
    ('1.0.1rc1', '1.0.1', True),
    ('0.0.9', '1.0.1', False),
    ('1.9.9', '1.10', False),
    ('0.1', None, True),
  ],
)
def test_versions(make_family, installed, minimum, is_enough):
  make_family(installed, 'raise RuntimeError("imported")', minimum=minimum)
  # It is not imported before its version is known to be enough.
  if is_enough:
    with pytest.raises(foreign.ForeignCodeError, match='imported'):
      registry.default_settings('oldgames:x')
    return
  message = rf'oldgames:x needs oldgames {minimum} or newer, but {installed} is'
  with pytest.raises(ValueError, match=f'{message} installed: pip install -e'):
    registry.default_settings('oldgames:x')


@pytest.mark.parametrize(
  'text',
  ['import nowhere_to_be_found', 'import jax\njax.no_such_name', 'x = = 1'],
)
def test_packages_that_break_when_they_are_imported(make_family, text):
  make_family('3.1', text, minimum='3')
  message = r'^cannot import oldgames 3.1 for oldgames:x: \w+Error: '
  with pytest.raises(foreign.ForeignCodeError, match=message) as caught:
    registry.default_settings('oldgames:x')
  assert '\n' not in str(caught.value)


def test_a_package_that_declares_jax_too_new(monkeypatch):
  package = packages.Package('nowhere', 'gymnax', '1.0.1', '0.12', ('flax',))
  monkeypatch.setattr(jax, '__version__', '0.11.9')
  with pytest.raises(ValueError, match=r"pip install -e '.*\[gymnax\]'$"):
    packages.check('x', package)
  for newer in ('0.12.0', '0.12.0.1', '1.0'):
    monkeypatch.setattr(jax, '__version__', newer)
    with pytest.raises(ValueError, match='not installed') as caught:
      packages.check('x', package)
    assert re.search(
      r"pip install flax && pip install --no-deps 'nowhere>=1.0.1' \(it "
      rf'declares JAX below 0.12, .* replace JAX {newer}\)$',
      str(caught.value),
    )


def test_a_package_in_a_folder_has_no_version(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(tmp_path)
  (tmp_path / 'versionless.py').write_text('')
  with pytest.raises(importlib.metadata.PackageNotFoundError):
    importlib.metadata.version('versionless')
  package = packages.Package('versionless', 'gym', '2.0')
  assert packages.check('x', package) == 'versionless'


def test_minimum_versions_are_those_of_the_extras():
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text('utf-8'))
  extras = project['project']['optional-dependencies']
  for name, family in registry.FAMILIES.items():
    if family.package is None or family.minimum is None:
      continue
    distribution = family.package.replace('_', '-')
    requirements = {f'{distribution}{x}{family.minimum}' for x in ('>=', '==')}
    assert requirements & {*extras[family.extra]}, name
