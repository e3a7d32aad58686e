"""Errors in code of users and other packages: one sentence, file and line."""

import pathlib
import re
import signal
import traceback

import jax
from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import agent
from disco_rl.environments import catch
from disco_rl.environments import factories
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments.wrappers import guarded_env
from disco_rl.networks import nets
from disco_rl.runs import interrupts
from disco_rl.update_rules import registry as rules
from tests.support import broken
from tests.support import small

HERE = re.escape(str(pathlib.Path(broken.__file__)))


def _line_of(text):
  """Returns the first line of `broken.py` that contains a text."""
  lines = pathlib.Path(broken.__file__).read_text().splitlines()
  return next(i for i, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def module(tmp_path, monkeypatch):
  """Writes a module that can be imported."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(factories, 'IMPORTED', [])

  def write(name, source):
    (tmp_path / f'{name}.py').write_text(source)
    return tmp_path / f'{name}.py'

  return write


@pytest.mark.parametrize(
  ('source', 'message', 'line'),
  [
    ('import sys\nsys.exit(4)', 'SystemExit: 4', 2),
    ('\nraise GeneratorExit("bye")', 'GeneratorExit: bye', 2),
    ('x = 1\n\ny = (', r"SyntaxError: '\(' was never closed", 3),
    ('undefined', "NameError: name 'undefined' is not defined", 1),
    ('import no_such', "ModuleNotFoundError: No module named 'no_such'", 1),
    ('raise ValueError("a\\n  b")', 'ValueError: a b', 1),
    ('import numpy as np\nnp.zeros(-1)', 'ValueError: negative', 2),
    ('def f():\n  raise KeyError\nf()', 'KeyError', 2),
    (r'raise OSError("\x1b[31mred\x07")', r'OSError: \?\[31mred\?', 1),
    (
      f'raise RuntimeError("{"long" * 500}")',
      r'RuntimeError: \w{300}\.\.\.',
      1,
    ),
  ],
)
def test_errors_on_import_are_one_line(module, source, message, line):
  name = f'broken_{abs(hash(source))}'
  path = module(name, source)
  with pytest.raises(foreign.ForeignCodeError) as caught:
    factories.import_modules([name])
  text = str(caught.value)
  assert re.match(f'cannot import {name}: {message}', text), text
  assert text.endswith(f'({path}, line {line})') and '\n' not in text
  assert caught.value.is_user_facing and caught.value.__cause__ is not None
  assert name not in factories.IMPORTED


def test_names_that_are_no_modules_are_refused(module):
  for name in ('no_such.module', '', '.', 'a b', '../x', 'x.', 3):
    with pytest.raises(ValueError, match=r'cannot import .*modul'):
      factories.import_modules([name])
  assert factories.find('no_such:function') is None
  assert factories.find(':function') is None
  module('has_no_function', 'f = 3')
  assert factories.find('has_no_function:f') is None
  module('raises', 'raise OSError("disk")')
  with pytest.raises(
    foreign.ForeignCodeError, match='cannot import raises: OS'
  ):
    registry.get_environment('dm:raises:f', 1)


def test_interrupts_are_not_converted():
  with pytest.raises(KeyboardInterrupt), foreign.boundary('x'):
    raise KeyboardInterrupt
  env = registry.environment_fn(
    'gym:tests.support.broken:BrokenGym', kwargs=dict(trouble='interrupt')
  )(1, 0)
  states, _ = env.reset(None)
  with pytest.raises(KeyboardInterrupt):
    env.step(states, np.zeros(1, np.int32))


@pytest.mark.parametrize('trouble', ['interrupt', 'exit'])
def test_what_ends_a_program_is_an_error_in_a_run(trouble):
  """Nobody pressed Ctrl-C: the handlers of a run never raise."""
  env = registry.environment_fn(
    'gym:tests.support.broken:BrokenGym', kwargs=dict(trouble=trouble)
  )(1, 0)
  states, _ = env.reset(jax.random.PRNGKey(0))
  kind = dict(interrupt='KeyboardInterrupt', exit='SystemExit')[trouble]
  with interrupts.of_run(is_saved=True):
    with pytest.raises(
      foreign.ForeignCodeError, match=f'failed in step 1: {kind}.*broken.py'
    ):
      env.step(states, np.zeros(1, np.int32))


def test_a_second_ctrl_c_is_not_an_error_of_an_environment(monkeypatch):
  monkeypatch.setattr(interrupts, '_SECONDS_BETWEEN_TWO', -1.0)
  with pytest.raises(KeyboardInterrupt), interrupts.of_run(is_saved=True):
    with foreign.boundary('x'):
      signal.raise_signal(signal.SIGINT)
      signal.raise_signal(signal.SIGINT)
      pytest.fail('the second Ctrl-C did not raise')


def test_exits_of_a_signal_handler_are_not_errors_of_an_environment():
  def leave(number, frame):
    raise SystemExit(7)

  before = signal.signal(signal.SIGUSR1, leave)
  try:
    with pytest.raises(SystemExit), foreign.boundary('x'):
      signal.raise_signal(signal.SIGUSR1)
  finally:
    signal.signal(signal.SIGUSR1, before)


def test_errors_of_this_library_pass_where_they_are_for_users():
  build = lambda: catch.CatchEnvironment(2, dict(rows=1, columns=1))
  with pytest.raises(ValueError, match=r'^a batch of environments needs a ran'):
    guarded_env.make(build, 2, 'mine')
  with (
    pytest.raises(foreign.ForeignCodeError, match=r'^x: ValueError: mine'),
    foreign.boundary('x', passes=ValueError),
  ):
    raise ValueError('mine')  # This file is foreign code.


def test_the_cause_and_its_place_are_kept():
  class UnprintableError(Exception):
    def __str__(self):
      raise RuntimeError

  for error in (UnprintableError(), StopIteration(3)):
    with pytest.raises(foreign.ForeignCodeError) as caught:
      with foreign.boundary('x'):
        raise error
    assert caught.value.__cause__ is error
    assert str(caught.value).startswith(f'x: {type(error).__name__}')
    text = ''.join(traceback.format_exception(caught.value))
    assert 'raise error' in text


# Fault of one stream, the message, and the line of `broken.py` that it names.
GYM = {
  'construct': (
    'cannot make gym:.*: KeyError: .as asked for.',
    "KeyError('as asked for')",
  ),
  'space': ('has observations Text', None),
  'huge': (r'shape \(1000000000000000,\); .* at most 1 GiB', None),
  'actions': ('has 1 action to choose from; at least 2', None),
  'huge_actions': ('has 1099511627776 actions; at most', None),
  'reset': ('failed in reset: RuntimeError: as asked for', 'RuntimeError'),
  'reset_none': ('reset returned NoneType; Gymnasium needs observation', None),
  'step': ('failed in step 2: RuntimeError: as asked for', None),
  'exit': ('failed in step 2: SystemExit: 3', 'raise SystemExit'),
  'four': ('step returned 4 values; Gymnasium needs observation, rew', None),
  'shape': (r'BrokenGym/count has an .* shape \(3,\), but .*\(2,\)', None),
  'dtype': (r'BrokenGym/count has an observation of <U1', None),
  'keys': (r"with \['other'\], but its space has \['count'\]", None),
  'reward': ('step returned NoneType as reward; one number', None),
  'rewards': (r'an array of the shape \(2,\) as reward; one number', None),
  'nan_reward': ('returned nan in the reward of stream 0', None),
  'nan': (r"returned inf in the observation\['count'\] of stream 0", None),
}


def _play(name, **kwargs):
  env = registry.environment_fn(name, **kwargs)(2, 0)
  try:
    states, _ = env.reset(None)
    for _ in range(3):
      states, _ = env.step(states, np.zeros(2, np.int32))
  finally:
    env.close()


@pytest.mark.parametrize('trouble', GYM)
def test_a_gym_environment_that_fails(trouble):
  message, line = GYM[trouble]
  with pytest.raises(foreign.ForeignCodeError) as caught:
    _play(
      'gym:tests.support.broken:BrokenGym',
      kwargs=dict(trouble=trouble, at=2),
    )
  text = str(caught.value)
  assert re.search(message, text), text
  if line is not None:
    assert re.search(rf'\({HERE}, line {_line_of(line)}\)$', text), text


@pytest.mark.parametrize(
  ('trouble', 'message'),
  [
    ('construct', f'cannot make dm:.*KeyError.*{HERE}, line'),
    ('space', r"BrokenDm: observation spec\['text'\] has the dtype object"),
    ('actions', 'only discrete int32 actions'),
    ('none', 'BrokenDm: reset returned NoneType; a dm_env.TimeStep'),
    ('step', f'failed in step 2: RuntimeError: as asked for .{HERE}, line'),
    ('shape', r"observation\['count'\] of float32 and the shape \(2, 3\), but"),
    ('rewards', r'type ndarray and the shape \(2,\); one number'),
    ('nan', r"returned inf in the observation\['count'\] of stream 0"),
  ],
)
def test_a_dm_env_that_fails(trouble, message):
  with pytest.raises(foreign.ForeignCodeError, match=message):
    _play(
      'dm:tests.support.broken:BrokenDm', kwargs=dict(trouble=trouble, at=2)
    )


def test_factories_of_something_else(module):
  module('makes_nothing', 'f = lambda: None\ndef g(): return dict\nh = print')
  for name, wanted in (
    ('gym:makes_nothing:f', 'a Gymnasium environment .*got NoneType'),
    ('gym:makes_nothing:g', 'a Gymnasium environment .*got type'),
    ('dm:makes_nothing:f', 'a dm_env environment .*got NoneType'),
    ('dm:makes_nothing:h', 'a dm_env environment .*got NoneType'),
  ):
    with pytest.raises(foreign.InvalidEnvironmentError, match=wanted):
      registry.get_environment(name, 1)
  for kwargs in (dict(no_such=1), dict(trouble='construct')):
    with pytest.raises(foreign.ForeignCodeError, match='cannot make gym:'):
      registry.get_environment(
        'gym:tests.support.broken:BrokenGym', 1, kwargs=kwargs
      )


def test_a_suggested_function_is_one(module):
  module('has_makers', 'maker = 5\ndef make(): pass')
  for family in ('gym', 'dm'):
    with pytest.raises(ValueError, match=r'no function maker .*mean make\?'):
      registry.get_environment(f'{family}:has_makers:maker', 1)


def test_modules_in_a_folder_that_was_removed(tmp_path, monkeypatch):
  (tmp_path / 'gone').mkdir()
  monkeypatch.chdir(tmp_path / 'gone')
  (tmp_path / 'gone').rmdir()
  factories.import_modules(['json'])
  with pytest.raises(ValueError, match='there is no module no_such_module'):
    factories.import_modules(['no_such_module'])


DUCK = """
import gymnasium, numpy as np

class Duck:  # Not a gymnasium.Env.
  observation_space = gymnasium.spaces.Box(-1, 1, (2,))
  action_space = gymnasium.spaces.Discrete(3)
  spec = 'mine'

  def reset(self, seed=None):
    return np.zeros(2, np.float32), {}

  def step(self, action):
    return np.zeros(2, np.float32), 'high', False, False, {}
"""


def test_environments_of_another_class_than_that_of_gymnasium(module):
  module('ducks', DUCK)
  env = registry.get_environment('gym:ducks:Duck', 1)
  states, _ = env.reset(None)
  with pytest.raises(
    foreign.InvalidEnvironmentError, match=r'^Duck: step returned str as rewar'
  ):
    env.step(states, np.zeros(1, np.int32))


def _with_batch_size(batch_size):
  env = broken.BrokenBatch(2)
  env.batch_size = batch_size
  return env


@pytest.mark.parametrize(
  ('made', 'message'),
  [
    (None, 'made an object of the type NoneType, which is not an environment'),
    (broken.BrokenBatch, 'made the class BrokenBatch, which is not an'),
    (broken.BrokenGym(), 'made an object of the type BrokenGym'),
    (broken.BrokenBatch(3), 'made 3 streams instead of 2'),
    (_with_batch_size(np.ones(2)), r'made .*batch_size array\(.*whole number'),
  ],
)
def test_what_a_function_makes_is_checked(monkeypatch, made, message):
  monkeypatch.setattr(registry, 'ENVIRONMENTS', {})
  registry.register_environment('mine', lambda batch_size, settings: made)
  with pytest.raises(foreign.InvalidEnvironmentError, match=f'mine {message}'):
    registry.get_environment('mine', 2)
  with pytest.raises(foreign.InvalidEnvironmentError, match=message):
    registry.as_environment_fn(lambda batch_size, seed: made)(2, 0)


def test_settings_of_an_environment_of_ones_own(monkeypatch):
  monkeypatch.setattr(registry, 'ENVIRONMENTS', {})
  own = config_dict.ConfigDict(dict(trouble='', at=1))
  registry.register_environment('mine', broken.BrokenJax, lambda: own)
  registry.get_environment('mine', 1, at=7)
  assert own.at == 1  # It is not changed for the next call.
  registry.register_environment('mine', broken.BrokenJax, lambda: None)
  with pytest.raises(ValueError, match='get_config returned NoneType'):
    registry.default_settings('mine')
  for config in ({1: 2}, dict(group={1: 2}), config_dict.ConfigDict({1: 2})):
    registry.register_environment('mine', dict, lambda config=config: config)
    with pytest.raises(ValueError, match='of mine must have strings as their'):
      registry.default_settings('mine')
  registry.register_environment('mine', broken.BrokenJax, lambda: 1 / 0)
  with pytest.raises(
    foreign.ForeignCodeError, match='settings of mine: ZeroDivisionError'
  ):
    registry.default_settings('mine')


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (dict(result=3), 'step 1 returned int; a pair of states and a timestep'),
    (dict(result=(0, None)), 'step 1 returned None as its timestep'),
    (
      dict(timestep=dict(reward=np.zeros(3))),
      r'a reward of .*shape \(2,\) are',
    ),
    (dict(timestep=dict(reward=np.asarray(['a', 'b']))), 'a reward of <U1'),
    (dict(timestep=dict(step_type=np.ones(2))), 'a step_type of float64'),
    (
      dict(timestep=dict(step_type=np.full(2, 7))),
      r'step_type of \[7, 7\]; only .0, 1, 2.',
    ),
    (
      dict(timestep=dict(observation=np.zeros((2, 2), np.uint8))),
      r'the observation of uint8 .*, but its spec has float32',
    ),
    (
      dict(timestep=dict(observation=(np.zeros(2), np.zeros(2)))),
      'an observation of 2 arrays, but its spec has 1',
    ),
  ],
)
def test_timesteps_are_checked(changes, message):
  make = lambda batch_size, seed: broken.BrokenBatch(batch_size, **changes)
  env = registry.as_environment_fn(make)(2, 0)
  states, _ = env.reset(None)
  with pytest.raises(foreign.InvalidEnvironmentError, match=message):
    env.step(states, np.zeros(2, np.int32))


def test_64_bits_are_accepted():
  timestep = dict(
    observation=np.ones((2, 2), np.float64),
    reward=np.ones(2, np.int64),
    step_type=np.ones(2, np.int64),
  )
  make = lambda batch_size, seed: broken.BrokenBatch(batch_size, timestep)
  env = registry.as_environment_fn(make)(2, 0)
  _, timestep = env.step(env.reset(None)[0], np.zeros(2, np.int32))
  assert timestep.reward.dtype == np.float32 and timestep.reward.tolist() == [
    1,
    1,
  ]
  assert timestep.step_type.dtype == np.int32


@pytest.mark.parametrize(
  ('trouble', 'message'),
  [
    ('reset', f'mine failed .*RuntimeError: as asked for .{HERE}, line'),
    ('branch', f'mine failed in step: Tracer.*{HERE}, line'),
    ('dtype', r"step\['clock'\] is of float32 .*initial_state it is of int32"),
    ('structure', r'BrokenJax.step consists of .*more.*, but .*initial_state'),
    ('rewards', r'step returned a reward of float32 and the shape \(2, 3\)'),
    ('num_actions', 'BrokenJax.num_actions must be a whole number, got 2.5'),
    ('complex_reward', 'BrokenJax.reward returned complex64; real numbers'),
  ],
)
def test_an_environment_in_jax_that_fails(monkeypatch, trouble, message):
  monkeypatch.setattr(registry, 'ENVIRONMENTS', {})
  settings = config_dict.ConfigDict(dict(trouble=trouble))
  registry.register_environment('mine', broken.BrokenJax, lambda: settings)
  with pytest.raises(foreign.ForeignCodeError, match=message):
    env = registry.environment_fn('mine')(2, 0)
    states, _ = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
    jax.eval_shape(env.step, states, np.zeros(2, np.int32))


def test_rules_and_networks_that_cannot_be_made():
  env = small.environment()
  settings = small.settings('actor_critic')

  def fail(**kwargs):
    raise KeyError('as asked for')

  rules.register_rule('mine', fail)
  with settings.unlocked():
    settings.update_rule_name = 'mine'
  match = f'cannot make the rule mine: KeyError: .*{re.escape(__file__)}, line'
  with pytest.raises(foreign.ForeignCodeError, match=match):
    agent.Agent.for_environment(env, settings)
  nets.NETWORKS['mine'] = fail
  settings = small.settings('actor_critic')
  settings.net_settings.name = 'mine'
  with pytest.raises(
    foreign.ForeignCodeError, match='the network mine: KeyErr'
  ):
    agent.Agent.for_environment(env, settings)
