"""What makes the learner step fast, counted in its compiled programs."""

import functools

import jax
import numpy as np

from disco_rl import agent
from disco_rl import types
from tests.support import small

T, B, A = 28, 64, 18


@functools.cache
def _programs(num_actions):
  """Compiles the learner step of the published setting.

  Returns:
    The program of agents, and one that returns whole outputs.
  """
  spec = types.ArraySpec((8, 8, 1), np.float32)
  an_agent = agent.Agent(
    single_observation_spec={'observation': spec},
    single_action_spec=types.ActionSpec((), np.int32, 0, num_actions - 1),
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
    agent_outs=dict(logits=array((num_actions,))),
    states={},
    logits=array((num_actions,)),
  )
  eta, _ = jax.eval_shape(an_agent.update_rule.init_params, rng)
  state = jax.eval_shape(an_agent.initial_learner_state, rng)
  programs = []
  for whole in (False, True):
    step = lambda eta, state, rollout, whole=whole: an_agent.learner.update(
      eta, state, rollout, rng, False, whole_outputs=whole
    )[0]
    jitted = jax.jit(step, donate_argnums=1)
    programs.append(jitted.lower(eta, state, rollout).compile())
  return programs


def test_outputs_of_all_actions_are_never_stored():
  summary, whole = _programs(A)
  size_of_z = 4 * (T + 1) * B * A * 600
  in_use = lambda program: program.memory_analysis().temp_size_in_bytes
  # z of one network takes 80 MB, and there are two networks.
  assert in_use(summary) < 64e6
  assert in_use(whole) > 2 * size_of_z
  for program in (summary, whole):
    text = program.as_text()
    assert 'callback' not in text and 'outfeed' not in text


def test_temporaries_do_not_grow_with_actions():
  """Blocks have fewer rows if there are more actions."""
  few, _ = _programs(3)
  many, _ = _programs(A)
  ratio = (
    many.memory_analysis().temp_size_in_bytes
    / few.memory_analysis().temp_size_in_bytes
  )
  assert ratio < 1.2


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
