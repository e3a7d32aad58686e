"""The schema: the type and range of every setting, and error messages."""

import dataclasses

from ml_collections import config_dict
import numpy as np
import pytest

from disco_rl import schema
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as meta_lib
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.rule_zoo import rule as rule_lib


@pytest.mark.parametrize(
  ('path', 'value', 'message'),
  [
    (
      'batching.batch_size',
      0,
      'batching.batch_size must be a whole number of at least 1, got 0',
    ),
    (
      'agent.learning_rate',
      '3e-4x',
      "agent.learning_rate must be a number above 0, got '3e-4x'",
    ),
    (
      'agent.value_fn.td_lambda',
      1.5,
      'agent.value_fn.td_lambda must be a number between 0 and 1, got 1.5',
    ),
    (
      'agent.update_rule.moving_average_decay',
      1,
      'agent.update_rule.moving_average_decay must be a number of at least 0 '
      'and below 1, got 1',
    ),
    (
      'agent.optimizer.schedule',
      'cosin',
      "agent.optimizer.schedule must be one of constant, cosine, got 'cosin'",
    ),
    (
      'agent.value_fn.net_args.dense',
      (9, 0),
      'agent.value_fn.net_args.dense must be a list of items, each a whole '
      'number of at least 1, got (9, 0)',
    ),
    (
      'lanes_at_once',
      'half',
      "lanes_at_once must be a whole number of at least 1, or none, got 'half'",
    ),
    (
      'batching.fresh_in_batch',
      'yes',
      "batching.fresh_in_batch must be true or false, got 'yes'",
    ),
    ('steps', None, 'steps must be a whole number of at least 1, got None'),
    ('steps', True, 'steps must be a whole number of at least 1, got True'),
    (
      'meta.max_grad_norm',
      float('inf'),
      'meta.max_grad_norm must be a number above 0, or none, got inf',
    ),
    (
      'agent.learning_rate',
      1e-46,
      'agent.learning_rate must be a number above 1e-37 and of at most 1e+38, '
      'got 1e-46',
    ),
    (
      'eval.env',
      {'catch': 5},
      'eval.env must be given by --eval-env (in Python: eval_envs), or none, '
      "got {'catch': 5}",
    ),
    (
      'seed',
      2**31,
      'seed must be a whole number between 0 and 2147483647, got 2147483648',
    ),
  ],
)
def test_refusals_name_the_setting_and_what_it_may_be(path, value, message):
  with pytest.raises(ValueError) as error:
    schema.check(path, value, default=0)
  assert str(error.value) == message


def test_long_values_are_cut_in_refusals():
  with pytest.raises(ValueError) as error:
    schema.check('steps', 'x' * 1000)
  assert len(str(error.value)) < 160 and str(error.value).endswith('...')


@pytest.mark.parametrize(
  ('path', 'value', 'accepted'),
  [
    ('batching.batch_size', 1e3, 1000),
    ('batching.batch_size', np.int64(8), 8),
    ('agent.learning_rate', 1, 1.0),
    ('agent.value_fn.net_args.dense', [9, 8], (9, 8)),
    ('meta.max_grad_norm', None, None),
  ],
)
def test_values_become_what_the_setting_is(path, value, accepted):
  checked = schema.check(path, value, default=0)
  assert checked == accepted and type(checked) is type(accepted)


def test_the_longest_path_decides():
  """The clip of η may be None, that of an agent may not."""
  assert schema.check('meta.max_abs_update', None) is None
  with pytest.raises(ValueError, match=r'agent\.max_abs_update must be'):
    schema.check('agent.max_abs_update', None)


def test_settings_of_an_environment_keep_the_type_of_their_default():
  """Whatever their names: other packages choose them."""
  assert schema.check('env.batch_size', -1, default=3) == -1
  assert schema.check('eval.env.maze.seed', 'x', default='y') == 'x'
  assert schema.check('env.limit', float('inf'), default=float('inf')) > 1e38
  assert schema.check('env.limit', 1.5, default=float('inf')) == 1.5
  assert schema.check('env.anything', 'x', default=None) == 'x'
  assert schema.check('env.names', ['a'], default=('b', 'c')) == ('a',)
  for value, default, wanted in [
    ('x', 3, 'a whole number'),
    ('x', 0.5, 'a number'),
    (1, True, 'true or false'),
    (float('inf'), 0.5, 'a number'),
    ((1, 'x'), (2, 3), 'a list of items, each a whole number'),
  ]:
    with pytest.raises(ValueError, match=f'env.x must be {wanted}, got'):
      schema.check('env.x', value, default=default)


@pytest.mark.parametrize(
  ('config', 'group'),
  [(batching_lib.Batching(), 'batching'), (meta_lib.Config(), 'meta')],
)
def test_every_size_of_a_run_has_an_entry(config, group):
  free = ('batching', 'weights')  # Groups of their own.
  for field in dataclasses.fields(config):
    if field.name not in free:
      assert schema.find(f'{group}.{field.name}') is not None, field.name


def _leaves(tree, above=''):
  for name, value in tree.items():
    if isinstance(value, config_dict.ConfigDict):
      yield from _leaves(value, f'{above}{name}.')
    elif not name.endswith('input_option'):  # A record.
      yield f'{above}{name}', value


@pytest.mark.parametrize('net', ['mlp', 'residual', 'atari'])
@pytest.mark.parametrize('rule', ['catch_small', 'actor_critic'])
def test_every_setting_of_the_commands_has_an_entry(rule, net):
  request = dict(env='catch_numpy', net=net, core='lstm')
  layers = resolve.evaluation(
    {**resolve.EVALUATION, **request}, rule_lib.load_rule(rule)
  )
  meta = resolve.meta_training(
    {**resolve.META_TRAINING, 'net': net, 'eval_env': ['catch']}
    | dict(eval_every=1),
    None,
  )
  declared = registry.settings_fields('catch_numpy')
  for path, _ in (*_leaves(layers.settings), *_leaves(meta.settings)):
    name = path.rpartition('.')[2]
    is_env = path.startswith(('env.', 'eval.env.'))
    field = declared.get(name) if is_env else schema.find(path)
    assert field is not None, path
    # Every whole number has an upper bound.
    bounds = (field.high, field.limit)
    assert field.kind is not int or any(x is not None for x in bounds), path


def test_settings_of_a_built_in_rule_are_never_another_ones():
  """Not even in agent settings that are passed as an object."""
  path = 'agent.hyper_params.discount_factor'
  assert schema.check(path, 5.0, default=5.0) == 5.0  # Perhaps a custom rule's.
  with pytest.raises(ValueError, match='discount_factor must be a number betw'):
    schema.check(path, 5.0, default=5.0, custom=())


def test_custom_networks_and_rules_may_use_names_of_the_schema_otherwise():
  path = 'agent.net_settings.net_args.channels'
  assert schema.check(path, 64, default=32) == 64
  with pytest.raises(ValueError, match='channels must be a whole number'):
    schema.check(path, 'x', default=32)
  assert schema.check('agent.update_rule.num_bins', 1, default=1) == 1
  # Settings of the library are checked.
  with pytest.raises(ValueError, match='channels must be a list'):
    schema.check(path, (0,), default=(16,))
  with pytest.raises(ValueError, match='learning_rate must be a number above'):
    schema.check('agent.learning_rate', -1.0, default=-1.0)


def test_numbers_are_converted():
  sizes = batching_lib.Batching(batch_size=64.0, num_envs=np.int64(2))
  assert type(sizes.batch_size) is int and type(sizes.num_envs) is int
