"""Every compiled program can be lowered for accelerators that are not here.

Programs are lowered as an accelerator would run them: with its lanes vmapped
and its convolutions.
"""

import dataclasses
import pathlib
import re

import jax
import numpy as np
import pytest

import disco_rl
from disco_rl import agent
from disco_rl import parallel
from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import networks
from tests.support import exports
from tests.support import hosted
from tests.support import small
from tests.support import small_meta

ALL = 99  # More lanes than any of these programs has: all are vmapped.
ON_EIGHT = dict(num_devices=8, batch_size=16, num_envs=8, replay_capacity=32)
# Four groups of two devices each: sharded agents, and sharded batches.
GRID = dict(num_devices=8, num_lane_shards=4, num_envs=4, batch_size=4)
REMATERIALISED = dict(num_inner_updates=3, rematerialize_all_but=0)


@pytest.fixture(autouse=True)
def on_an_accelerator(monkeypatch):
  """Makes networks choose what they choose on an accelerator."""
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')


def test_nothing_else_asks_for_the_platform():
  """What depends on it must be lowered here in its other variant."""
  root = pathlib.Path(disco_rl.__file__).parent
  asks = re.compile(r'default_backend\(|\.platform\b(?!\.)|platform_dependent')
  found = {
    str(path.relative_to(root))
    for path in root.rglob('*.py')
    for line in path.read_text(encoding='utf-8').splitlines()
    if asks.search(line) and 'sys.platform' not in line
  }
  assert found == {
    'arithmetic.py',  # Words for the speed of a dry run.
    'cli/eval_command.py',  # Words for the devices.
    'memory.py',  # Checked on CPU only.
    'networks/convolution.py',  # `on_an_accelerator`.
    'parallel.py',  # `ALL`.
    'runs/machine.py',  # Words for a run's folder.
  }


def _check(jitted, *args, num_donated=0, num_devices=1, num_reductions=0):
  """Lowers a program, and checks what depends on its arguments.

  Args:
    jitted: the program.
    *args: its arguments.
    num_donated: number of its arrays that are donated.
    num_devices: number of devices.
    num_reductions: sums over devices in its text; None for any, but some.

  Returns:
    The program's text.
  """
  program = exports.lower(jitted, *args)
  assert program.num_devices == num_devices
  assert program.num_donated == num_donated
  assert set(program.collectives) <= {'all_reduce'}
  number = program.collectives.get('all_reduce', 0)
  assert number > 0 if num_reductions is None else number == num_reductions
  return program.text


def _learner_step(an_agent, rollout, num_devices=1):
  """Returns the program of a learner step, and specs of its arguments."""
  rng = jax.random.PRNGKey(0)
  placement = parallel.Placement(jax.devices()[:num_devices])
  whole = parallel.REPLICATED
  step = placement.compile(
    lambda eta, state, rollout, rng: an_agent.learner.update(
      eta, state, rollout, rng, backprop=False
    )[0],
    (whole, whole, parallel.ROLLOUT, whole),
    whole,
    donate=[1],
  )
  eta, _ = jax.eval_shape(an_agent.update_rule.init_params, rng)
  state = jax.eval_shape(an_agent.initial_learner_state, rng)
  return step, (eta, state, rollout, rng)


@pytest.mark.parametrize('num_devices', [1, 8])
@pytest.mark.parametrize(
  'rule', ['disco', 'actor_critic', 'policy_gradient', 'ppo']
)
def test_a_learner_step(rule, num_devices):
  an_agent = small.make_agent(
    rule, axis_name='batch' if num_devices > 1 else None
  )
  params = an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  acting = small.make_agent(rule)
  rollout = small.act(acting, params, jax.random.PRNGKey(0), 5, 8)
  step, args = _learner_step(an_agent, rollout, num_devices)
  is_sharded = num_devices > 1
  _check(
    step,
    *args,
    num_donated=len(jax.tree.leaves(args[1])),
    num_devices=num_devices,
    num_reductions=None if is_sharded else 0,
  )


@pytest.mark.parametrize('precision', ['float32', 'bfloat16'])
def test_convolutions_and_half_precision(precision):
  settings = small.settings('disco')
  networks.choose(settings, 'conv', core='lstm')
  settings.net_settings.net_args.update(channels=(4, 4), precision=precision)
  settings.net_settings.net_args.core_kwargs.size = 6
  an_agent = small.make_agent('disco', settings)
  params = an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  rollout = small.act(an_agent, params, jax.random.PRNGKey(0), 5)
  step, args = _learner_step(an_agent, rollout)
  text = _check(step, *args, num_donated=len(jax.tree.leaves(args[1])))
  dtype = 'bf16' if precision == 'bfloat16' else 'f32'
  found = re.findall(r'stablehlo\.convolution.*-> tensor<[\dx]*(\w+)>', text)
  assert found and set(found) == {dtype}


def test_acting():
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  env = small.environment()
  state = an_agent.initial_learner_state(rng)
  env_state, timestep = jax.jit(env.reset)(rng)
  actor_state = an_agent.initial_actor_state(rng, 3)

  def act(params, env_state, timestep, actor_state):
    def step(carry, key):
      env_state, timestep, actor_state = carry
      out, actor_state = an_agent.actor_step(params, key, timestep, actor_state)
      env_state, timestep = env.step(env_state, out.actions)
      return (env_state, timestep, actor_state), out

    keys = jax.random.split(rng, 4)
    return jax.lax.scan(step, (env_state, timestep, actor_state), keys)

  _check(jax.jit(act), state.params, env_state, timestep, actor_state)


@pytest.mark.parametrize(
  ('rule', 'sizes'),
  [
    ('actor_critic', {}),
    ('disco', ON_EIGHT),
    pytest.param('disco', {}, marks=pytest.mark.slow),
    pytest.param('policy_gradient', ON_EIGHT, marks=pytest.mark.slow),
  ],
)
def test_the_iterations_of_an_evaluation(rule, sizes):
  """Acting, storing, sampling and learning, for a chunk of iterations."""
  population, eta = small.make_population(
    rule, seeds=(0, 1), lanes_at_once=ALL, **sizes
  )
  keys = population._keys()
  spec = jax.eval_shape(population._init, keys, None)
  is_sharded = bool(sizes)
  expected = dict(
    num_devices=len(population.placement.devices),
    num_reductions=None if is_sharded else 0,
  )
  _check(
    population._run,
    eta,
    spec,
    2,
    num_donated=len(jax.tree.leaves(spec)),
    **expected,
  )
  _check(
    population._init,
    keys,
    None,
    **{**expected, 'num_reductions': 0},
  )


@pytest.mark.slow
@pytest.mark.parametrize('sizes', [{}, ON_EIGHT], ids=['plain', 'sharded'])
def test_the_learner_of_an_evaluation_on_the_host(sizes):
  population, eta = small.make_population(
    'disco', 'catch_numpy', seeds=(0, 1), lanes_at_once=ALL, **sizes
  )
  keys = population._keys()
  stacked, _ = population._reset(keys)
  spec = jax.eval_shape(population._init, keys, stacked)
  rollouts, traced = population._lanes.trace(eta, spec, 1)
  del traced
  state = spec._replace(actor=None)
  _check(
    population._learn,
    eta,
    state,
    rollouts,
    spec.rng,
    num_donated=len(jax.tree.leaves(state)),
    num_devices=len(population.placement.devices),
    num_reductions=None if sizes else 0,
  )
  population.close()


def _num_summed(trainer):
  """Counts the arrays that are summed over agents in a meta-update."""
  _, log, _ = trainer._trace()[-1].traced.out_info
  # Instead of two norms and the number of non-finite agents, the sums have the
  # meta-gradient and the numbers of agents that are finite and that are over.
  return len(log)


@pytest.mark.parametrize(
  ('settings', 'where'),
  [
    ({**GRID, **REMATERIALISED}, 'batches'),
    pytest.param({}, 'nowhere', marks=pytest.mark.slow),
    pytest.param(REMATERIALISED, 'nowhere', marks=pytest.mark.slow),
    pytest.param(
      dict(num_devices=8, num_lane_shards=8), 'agents', marks=pytest.mark.slow
    ),
    pytest.param(
      dict(num_devices=8, num_envs=8, batch_size=8),
      'batches',
      marks=pytest.mark.slow,
    ),
  ],
  ids=['grid', 'plain', 'rematerialised', 'agents_sharded', 'batch_sharded'],
)
def test_a_meta_update(settings, where):
  """Sharded agents meet once, when their contributions are summed."""
  trainer = small_meta.make_trainer(
    small_meta.make_group(8), lanes_at_once=ALL, **settings
  )
  spec, key = trainer._update_specs()
  numbers = dict(batches=None, nowhere=0, agents=_num_summed(trainer))
  _check(
    trainer._update,
    spec,
    key,
    # All but `num_over`, which only the host reads.
    num_donated=len(jax.tree.leaves(spec)) - 1,
    num_devices=settings.get('num_devices', 1),
    num_reductions=numbers[where],
  )


@pytest.mark.slow
@pytest.mark.parametrize('settings', [{}, GRID], ids=['plain', 'grid'])
def test_starting_and_resetting_agents(settings):
  trainer = small_meta.make_trainer(
    small_meta.make_group(8), lanes_at_once=ALL, **settings
  )
  spec, key = trainer._update_specs()
  expected = dict(num_devices=settings.get('num_devices', 1))
  _check(trainer._init, key, trainer.eta_spec, **expected)
  program = exports.lower(trainer._reset, spec, key)
  assert not program.collectives
  # `num_over` is set, and of lifetimes only those that are kept are read.
  assert program.num_donated >= len(jax.tree.leaves(spec.groups))


@pytest.mark.parametrize(
  'settings',
  [
    {},
    pytest.param({**GRID, **REMATERIALISED}, marks=pytest.mark.slow),
  ],
  ids=['plain', 'grid'],
)
def test_the_stages_of_a_meta_update_with_agents_on_the_host(settings):
  on_host = hosted.environment_fn(rows=5, columns=4)
  group = dataclasses.replace(small_meta.make_group(4), env_fn=on_host)
  trainer = small_meta.make_trainer(group, lanes_at_once=ALL, **settings)
  spec, key = trainer._update_specs()
  keys = jax.ShapeDtypeStruct((4, *key.shape), key.dtype)
  (own,) = spec.groups
  rollouts = trainer.hosts.groups[0].rollouts_spec(own.agents.learner.params)
  (contribute,) = trainer._update._contribute
  expected = dict(num_devices=settings.get('num_devices', 1))
  _check(
    contribute,
    spec.eta,
    own,
    keys,
    keys,
    rollouts,
    num_donated=len(jax.tree.leaves(own)),
    num_reductions=None if settings else 0,
    **expected,
  )
  totals = [jax.eval_shape(contribute, spec.eta, own, keys, keys, rollouts)[1]]
  rest = spec._replace(groups=())
  # Every device computes the new η.
  _check(
    trainer._update._apply,
    rest,
    totals,
    num_donated=len(jax.tree.leaves(rest)) - 1,
    **expected,
  )
  trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize('num_devices', [1, 8])
@pytest.mark.parametrize('kind', ['mlp', 'atari'])
def test_a_learner_step_of_the_published_size(kind, num_devices):
  """600 predictions, 601 bins and 18 actions; batch 96 of 29 steps."""
  shape, dtype = ((8, 8, 1), np.float32)
  settings = agents.get_settings_disco()
  if kind == 'atari':
    shape, dtype = (84, 84, 4), np.uint8
    networks.choose(settings, 'atari')
  an_agent = agent.Agent(
    single_observation_spec=types.ArraySpec(shape, dtype),
    single_action_spec=types.ActionSpec((), np.int32, 0, 17),
    agent_settings=settings,
    batch_axis_name='batch' if num_devices > 1 else None,
  )
  array = lambda shape, dtype=np.float32: types.ArraySpec(
    (29, 96, *shape), dtype
  )
  rollout = types.ActorRollout(
    observations=array(shape, dtype),
    actions=array((), np.int32),
    rewards=array(()),
    discounts=array((), bool),
    agent_outs=dict(logits=array((18,))),
    states={},
    logits=array((18,)),
  )
  step, args = _learner_step(an_agent, rollout, num_devices)
  text = _check(
    step,
    *args,
    num_donated=len(jax.tree.leaves(args[1])),
    num_devices=num_devices,
    num_reductions=0 if num_devices == 1 else None,
  )
  assert ('stablehlo.convolution' in text) == (kind == 'atari')
