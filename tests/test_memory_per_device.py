"""The memory of each device, compared with that of compiled programs.

What is kept between programs is known exactly. Temporaries are estimated from
the traced program, which is a lower bound: XLA stores up to six times as much
for small networks, and up to four times for those of the published size.
"""

import jax
import pytest

from benchmarks import sizes
from disco_rl import parallel
from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry
from disco_rl.evaluation import population as population_lib
from disco_rl.meta_training import accounts
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import small
from tests.support import small_meta

STATE_ERROR = 0.01
STEP_RATIOS = (0.7, 6.0)
PUBLISHED_STEP_RATIOS = (0.7, 4.0)


def _check(found, step, traced, others, step_ratios=STEP_RATIOS):
  """Compares with the program's own numbers, which are those of one device.

  Args:
    found: bytes by part.
    step: name of the part that is inside the program.
    traced: the program.
    others: bytes of its further arguments.
    step_ratios: bounds on its temporaries, relative to their estimate.
  """
  analysis = traced.lower().compile().memory_analysis()
  state = sum(found.values()) - found[step]
  arguments = analysis.argument_size_in_bytes - others
  assert abs(arguments / state - 1) < STATE_ERROR
  low, high = step_ratios
  assert low < analysis.temp_size_in_bytes / found[step] < high


def _bytes(tree):
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


@pytest.mark.parametrize('num_devices', [1, 4])
@pytest.mark.parametrize(
  'sizes',
  [
    dict(batch_size=64, num_envs=8, rollout_length=16, replay_capacity=256),
    pytest.param(
      dict(batch_size=16, num_envs=16, rollout_length=29),
      marks=pytest.mark.slow,
    ),
  ],
  ids=['replay', 'fresh'],
)
def test_an_evaluation(sizes, num_devices):
  population, eta = small.make_population(
    num_devices=num_devices, seeds=(0, 1), **sizes
  )
  found = population.memory_per_device(eta, 2)
  spec = jax.eval_shape(population._init, population._keys(), None)
  _check(found, 'a step', population._run.trace(eta, spec, 2), _bytes(eta))


def _trainer(num_devices, num_lane_shards, **options):
  settings = small_meta.with_critic(sizes.agent_settings('small'))
  batching = batching_lib.Batching(
    batch_size=8,
    rollout_length=6,
    num_envs=4,
    replay_capacity=16,
    fresh_in_batch=True,
  )
  return trainer_lib.Trainer(
    [
      trainer_lib.Group(
        registry.environment_fn('catch', rows=5, columns=5), settings, 4
      )
    ],
    config_lib.Config(batching=batching, **options),
    placement=parallel.Placement(
      jax.devices()[:num_devices], num_lane_shards=num_lane_shards
    ),
  )


def test_sharded_agents_take_their_share():
  """θ and its optimiser are sharded over rows, replays over all devices."""
  one, grid = (
    _trainer(*shape, num_inner_updates=1, adam_per_agent=True)
    for shape in ((1, 1), (4, 2))
  )
  of_one, of_grid = (accounts.of_trainer(x).per_device for x in (one, grid))
  for name in ('parameters', 'optimisers', 'states of the rule, critics'):
    assert of_one[name] == 2 * of_grid[name] > 0
  assert of_one['replay'] == pytest.approx(4 * of_grid['replay'], rel=0.01)
  eta = _bytes(one.eta_spec)
  # Every device has η; the optimisers of η belong to the agents.
  assert of_one['the rule'] == pytest.approx(eta + 4 * 2 * eta, rel=0.01)
  assert of_grid['the rule'] == pytest.approx(eta + 2 * 2 * eta, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('shape', 'options'),
  [
    ((1, 1), dict(num_inner_updates=2)),
    ((1, 1), dict(num_inner_updates=4, rematerialize_all_but=0)),
    ((4, 4), dict(num_inner_updates=2)),
    ((4, 2), dict(num_inner_updates=2, adam_per_agent=True)),
  ],
  ids=['plain', 'rematerialised', 'agents_sharded', 'grid'],
)
def test_a_meta_update(shape, options):
  trainer = _trainer(*shape, **options)
  spec, key = trainer._update_specs()
  _check(
    accounts.of_trainer(trainer).per_device,
    'a meta-update',
    trainer._update.trace(spec, key),
    _bytes(key),
  )


@pytest.mark.slow
@pytest.mark.parametrize('num_devices', [1, 4])
def test_the_published_agent(num_devices):
  population = population_lib.Population(
    registry.environment_fn('catch'),
    sizes.agent_settings('published'),
    batching_lib.Batching(num_envs=4, replay_capacity=256),
    devices=jax.devices()[:num_devices],
  )
  eta = jax.eval_shape(
    population.agent.update_rule.init_params, jax.random.PRNGKey(0)
  )[0]
  found = population.memory_per_device(eta, 2)
  spec = jax.eval_shape(population._init, population._keys(), None)
  _check(
    found,
    'a step',
    population._run.trace(eta, spec, 2),
    _bytes(eta),
    PUBLISHED_STEP_RATIOS,
  )
