"""The wheel works without the source tree."""

import datetime
import pathlib
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv

import pytest

import disco_rl
from disco_rl.runs import trackers

ROOT = pathlib.Path(__file__).parents[2]

PROGRAM = """
import pathlib, sys
import jax
from disco_rl import agent, installation
from disco_rl.conformance import file_set
from disco_rl.environments import jittable_envs
from disco_rl.rule_zoo import store

here = pathlib.Path(agent.__file__).resolve()
assert here.is_relative_to(pathlib.Path(sys.prefix).resolve()), here
assert (here.parent / 'py.typed').is_file()
assert store.shipped_folder() == here.parent / '_weights'
assert 'disco_103' in store.known_rules()
assert all(file_set.load(name).expected for name in file_set.names())
hint = installation.install_hint('plots')
assert hint.startswith("pip install 'matplotlib>="), hint

env = jittable_envs.CatchJittableEnvironment(
  2, jittable_envs.get_config_catch()
)
an_agent = agent.Agent(
  single_observation_spec=env.single_observation_spec(),
  single_action_spec=env.single_action_spec(),
  agent_settings=agent.get_settings_actor_critic(),
  batch_axis_name=None,
)
state = an_agent.initial_learner_state(jax.random.PRNGKey(0))
_, timestep = env.reset(jax.random.PRNGKey(0))
step, _ = an_agent.actor_step(
  state.params, jax.random.PRNGKey(0), timestep, {}
)
print('actions', step.actions.shape)
"""


def _run(*command, **kwargs):
  result = subprocess.run(
    command, capture_output=True, text=True, check=False, **kwargs
  )
  assert result.returncode == 0, result.stdout + result.stderr
  return result.stdout


def test_wheel_in_a_new_environment(tmp_path):
  pip = (sys.executable, '-m', 'pip', '--disable-pip-version-check')
  wheel_args = ('wheel', '--no-deps', '--no-build-isolation')
  _run(*pip, *wheel_args, '-w', str(tmp_path), str(ROOT))
  (wheel,) = tmp_path.glob('discovered_rl-*.whl')

  home = tmp_path / 'env'
  venv.create(home, with_pip=False)
  python = home / 'bin' / 'python'
  site = _run(
    python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'
  ).strip()
  # Dependencies come from this environment, but no editable install: .pth files
  # are not read in a folder that another .pth file names.
  dependencies = sysconfig.get_path('purelib')
  pathlib.Path(site, 'dependencies.pth').write_text(f'{dependencies}\n')
  _run(*pip, '--python', str(python), 'install', '--no-deps', str(wheel))
  # With -E, PYTHONPATH does not lead to the source tree.
  out = _run(python, '-E', '-c', PROGRAM, cwd=tmp_path)
  assert 'actions (2,)' in out


def test_the_citation_is_valid():
  """Its entries are those of the format, and README cites the same paper."""
  yaml = pytest.importorskip('yaml', reason='needs PyYAML, of the extra [docs]')
  citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text('utf-8'))
  known = {
    *('abstract', 'authors', 'cff-version', 'commit', 'contact', 'doi'),
    *('date-released', 'identifiers', 'keywords', 'license', 'license-url'),
    *('message', 'preferred-citation', 'references', 'repository'),
    *('repository-artifact', 'repository-code', 'title', 'type', 'url'),
    'version',
  }
  assert {'authors', 'cff-version', 'message', 'title'} <= citation.keys()
  assert citation.keys() <= known
  assert citation['cff-version'] == '1.2.0'
  assert citation['type'] in ('software', 'dataset')
  assert citation.get('version', disco_rl.__version__) == disco_rl.__version__
  released = citation.get('date-released')
  assert released is None or isinstance(released, datetime.date)
  paper = citation['preferred-citation']
  assert {'authors', 'title', 'type'} <= paper.keys()
  assert paper['type'] == 'article' and isinstance(paper['year'], int)
  for author in (*citation['authors'], *paper['authors']):
    person = {'family-names', 'given-names', 'name-particle', 'name-suffix'}
    assert author.keys() <= {*person, 'orcid'} or author.keys() == {'name'}
  readme = ' '.join((ROOT / 'README.md').read_text('utf-8').split())
  for value in (paper['title'], paper['doi'], paper['journal'], paper['year']):
    assert str(value) in readme


def test_every_tracker_has_its_extra():
  text = (ROOT / 'pyproject.toml').read_text('utf-8')
  extras = tomllib.loads(text)['project']['optional-dependencies']
  for name, package in trackers._PACKAGES.items():
    assert [x.split('>=')[0] for x in extras[name]] == [package]


def test_lower_bounds_are_the_versions_that_are_tested():
  text = (ROOT / 'constraints' / 'oldest.txt').read_text('utf-8')
  tested = dict(re.findall(r'^([\w-]+)==(\S+)$', text, flags=re.MULTILINE))
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text('utf-8'))
  project = project['project']
  extras = project['optional-dependencies']
  used = [*project['dependencies'], *extras['atari'], *extras['plots']]
  for requirement in [*used, *extras['gymnax']]:
    name, _, bound = requirement.partition('>=')
    assert tested[name] == bound, requirement
