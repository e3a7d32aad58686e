"""What makes the learner step fast, counted in its compiled programs."""

import jax
import numpy as np

from disco_rl import agent
from disco_rl import types
from tests.support import small

T, B, A = 28, 64, 18


def _programs():
  """Compiles the learner step of the published setting with 18 actions.

  Returns:
    The program of agents, and one that returns whole outputs.
  """
  spec = types.ArraySpec((8, 8, 1), np.float32)
  an_agent = agent.Agent(
    single_observation_spec={'observation': spec},
    single_action_spec=types.ActionSpec((), np.int32, 0, A - 1),
    agent_settings=agent.get_settings_disco(),
    batch_axis_name=None,
  )
  rng = jax.random.PRNGKey(0)
  array = lambda shape, dtype=np.float32: types.ArraySpec(
    (T + 1, B, *shape), dtype
  )
  rollout = types.ActorRollout(
    observations=array((8, 8, 1)),
    actions=array((), np.int32),
    rewards=array(()),
    discounts=array((), bool),
    agent_outs=dict(logits=array((A,))),
    states={},
    logits=array((A,)),
  )
  eta, _ = jax.eval_shape(an_agent.update_rule.init_params, rng)
  state = jax.eval_shape(an_agent.initial_learner_state, rng)
  for whole in (False, True):
    step = lambda eta, state, rollout, whole=whole: an_agent.learner.update(
      eta, state, rollout, rng, False, whole_outputs=whole
    )[0]
    yield jax.jit(step, donate_argnums=1).lower(eta, state, rollout).compile()


def test_outputs_of_all_actions_are_never_stored():
  summary, whole = _programs()
  size_of_z = 4 * (T + 1) * B * A * 600
  in_use = lambda program: program.memory_analysis().temp_size_in_bytes
  assert in_use(summary) < size_of_z  # Of one network; there are two.
  assert in_use(whole) > 2 * size_of_z


def test_no_second_compilation():
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  state = an_agent.initial_learner_state(rng)
  rollout = small.act(an_agent, state.params, rng, 5)
  step = jax.jit(an_agent.learner.update)
  for _ in range(3):
    state, _ = step(eta, state, rollout, rng)
  assert step._cache_size() == 1
