"""Settings in layers: how values are parsed, and their origins."""

import dataclasses

import pytest

from disco_rl.config import layers as layers_lib


@dataclasses.dataclass(frozen=True)
class Record:
  """A record among the settings."""

  inner: int = 1


def _make():
  return layers_lib.Layers(
    dict(
      steps=10,
      agent=dict(learning_rate=0.1, net=dict(dense=(64, 32), record=Record())),
      meta=dict(learning_rate=0.1),
      env=dict(rows=5, mode=None, kwargs={}),
    )
  )


def _read(text, default):
  layers = layers_lib.Layers(dict(x=default))
  layers.apply_texts('--set', [f'x={text}'])
  return layers['x']


@pytest.mark.parametrize(
  ('text', 'like', 'value'),
  [
    ('3', 0.5, 3.0),
    ('1e3', 7, 1000),
    ('true', False, True),
    ('0', True, False),
    ('512,256', (64,), (512, 256)),
    ('(512)', (64,), (512,)),
    ('relu', 'tanh', 'relu'),
    ('relu', ('tanh',), ('relu',)),
    ('a, b', ('tanh',), ('a', 'b')),
    ('None', None, None),
    ('32', None, 32),
  ],
)
def test_values_are_read_as_what_they_replace(text, like, value):
  parsed = _read(text, like)
  assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
  ('text', 'like'),
  [
    ('1.5', 7),
    ('x', 0.5),
    ('yes', True),
    ('a,b', (1, 2)),
    ('1.5, 2', (1, 2)),
    ('none', 7),
  ],
)
def test_values_of_another_kind_are_refused(text, like):
  with pytest.raises(
    ValueError, match=f'x must be .*{text.capitalize()}|{text}'
  ):
    _read(text, like)


def test_origins_say_where_each_value_came_from():
  layers = _make()
  layers.mark('rule mine', dict(net=dict(dense=0)), 'agent')
  layers.apply('preset small', {'agent.learning_rate': 1, 'env.rows': 7})
  layers.apply_texts('--set', ['env.rows = 9', 'env.kwargs={"a": 1}'])
  assert layers.origins == {
    'agent.net.dense': 'rule mine',
    'agent.learning_rate': 'preset small',
    'env.rows': '--set',
    'env.kwargs': '--set',
  }
  assert layers['agent.net.dense'] == (64, 32)  # Only marked.
  assert layers['agent.learning_rate'] == 1.0
  assert layers['env.rows'] == 9 and layers['env.kwargs'].a == 1


def test_what_is_refused_changes_nothing():
  layers = _make()
  for change in ('steps=0', 'steps=x', 'stepz=1'):
    with pytest.raises(ValueError):
      layers.apply_texts('--set', [change])
  assert layers['steps'] == 10 and not layers.origins


@pytest.mark.parametrize(
  ('assignment', 'message'),
  [
    ('steps', "--set must be name=value, got 'steps'"),
    ('=3', "--set must be name=value, got '=3'"),
    ('agent=1', 'agent is a group of settings and cannot be set as a whole: l'),
    ('agent.net.record=1', 'agent.net.record is a group of settings and canno'),
    ('steps.x=1', "steps has no settings below it, got 'steps.x': it is "),
    ('env.kwargs=3', "env.kwargs must be a group of settings like {'a': 1}, g"),
    ("env.kwargs={'a.b': 2}", "env.kwargs has a name with a dot in it, 'a.b'"),
    ('env.kwargs={1: 2}', "env.kwargs must be a group of settings like {'a':"),
    ('agent.lr=1', "unknown setting 'lr' of agent; known: learning_rate, net"),
    ('stepz=1', "unknown setting 'stepz' (did you mean steps?); known: agent"),
    (
      'learning_rate=1',
      "unknown setting 'learning_rate' (did you mean agent.learning_rate or "
      'meta.learning_rate?)',
    ),
    ('agent.net.dens=1', '(did you mean agent.net.dense?)'),
  ],
)
def test_mistakes_are_explained(assignment, message):
  with pytest.raises(ValueError) as error:
    _make().apply_texts('--set', [assignment])
  assert message in str(error.value)


def test_names_may_have_dots_in_them():
  layers = layers_lib.Layers(dict(env={}))
  layers.settings.env = layers_lib.config_dict.ConfigDict(
    {'gym:a.b': dict(rows=1), 'gym:a.b.c': dict(rows=1)}, allow_dotted_keys=True
  )
  layers.apply_texts('--set', ['env.gym:a.b.c.rows=3'])
  assert layers.settings.env['gym:a.b.c'].rows == 3
  assert layers.settings.env['gym:a.b'].rows == 1
  assert layers.origins == {'env.gym:a.b.c.rows': '--set'}


def test_defaults_are_checked_too():
  with pytest.raises(ValueError, match='steps must be a whole number of at le'):
    layers_lib.Layers(dict(steps=0)).check()
  _make().check()
