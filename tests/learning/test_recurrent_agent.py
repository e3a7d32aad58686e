"""Agents with memory, over the ends of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import types
from disco_rl.learning import checks
from tests.support import golden
from tests.support import small


@pytest.fixture(scope='module')
def recurrent_agent():
  config = small.settings('disco')
  with config.unlocked():
    config.net_settings.net_args.core = 'lstm'
    config.net_settings.net_args.core_kwargs = dict(size=4)
  return small.make_agent('disco', config)


@pytest.fixture(scope='module')
def experience(recurrent_agent):
  """Parameters with a strong memory, and their steps in several episodes."""
  state = recurrent_agent.initial_learner_state(jax.random.PRNGKey(0))
  params = jax.tree.map(lambda x: 3 * x, state.params)
  state = state.replace(params=params)
  return state, small.act(recurrent_agent, params, jax.random.PRNGKey(1), 12)


def _slice(rollout, start):
  return jax.tree.map(lambda x: x[start:], rollout)


@pytest.mark.parametrize('start', [0, 3, 4, 5])
def test_unroll_reproduces_acting(recurrent_agent, experience, start):
  """From any step on; step 4 is the first of an episode."""
  state, rollout = experience
  assert not rollout.discounts[4].any()
  part = _slice(rollout, start)
  outs, _ = jax.jit(recurrent_agent.unroll_net)(
    state.params, part.first_state(time_axis=0), part
  )
  golden.check_trees_close(outs, part.agent_outs, 1e-5)


def test_memory_does_not_cross_episodes(recurrent_agent, experience):
  state, rollout = experience
  unroll = jax.jit(recurrent_agent.unroll_net)
  net_state = rollout.first_state(time_axis=0)
  changed = rollout.replace(observations=rollout.observations.at[:4].add(1.0))
  outs, _ = unroll(state.params, net_state, rollout)
  changed_outs, _ = unroll(state.params, net_state, changed)
  difference = np.abs(outs['y'] - changed_outs['y']).max(axis=(1, 2))
  assert (difference[:4] > 0).all() and (difference[4:] == 0).all()


@pytest.mark.parametrize('start', [3, 4])
def test_target_network_is_reset_too(recurrent_agent, experience, start):
  """With θ⁻ = θ, the target network's outputs are those of acting."""
  state, rollout = experience
  state = state.replace(
    meta_state={**state.meta_state, 'target_params': state.params}
  )
  part = _slice(rollout, start)
  meta_params, _ = recurrent_agent.update_rule.init_params(
    jax.random.PRNGKey(0)
  )
  _, _, log = jax.jit(recurrent_agent.learner_step, static_argnums=5)(
    jax.random.PRNGKey(0),
    part,
    state,
    part.first_state(time_axis=0),
    meta_params,
    True,
  )
  golden.check_trees_close(
    dict(log['meta_out']['target_out']), dict(part.agent_outs), 1e-4
  )


def test_states_need_an_axis_of_time(recurrent_agent, experience):
  """Without one, the state of one stream would be used for all."""
  state, rollout = experience
  first = rollout.first_state(time_axis=0)
  for kept in (rollout.states, jax.tree.map(lambda x: x[:1], rollout.states)):
    checks.check_actor_rollout(rollout.replace(states=kept))
  with pytest.raises(
    ValueError, match=r'rollout.states.*of 12 steps.*got shape \(3, 4\)'
  ):
    recurrent_agent.learner_step(
      jax.random.PRNGKey(0), rollout.replace(states=first), state, first, {}, 0
    )
  checks.check_actor_rollout(rollout.replace(states={}))  # No memory.
  # With as many streams as steps, the error is raised by the network.
  one_stream = jax.tree.map(lambda x: x[0], first)
  with pytest.raises(ValueError, match=r'state of the memory.*batch of 3'):
    recurrent_agent.unroll_net(state.params, one_stream, rollout)


def test_first_state_indexes_its_axis():
  states = {'h': jnp.arange(24).reshape(2, 3, 4)}
  fields = ('observations', 'actions', 'rewards', 'discounts', 'agent_outs')
  rollout = types.ActorRollout(
    states=states, logits=None, **dict.fromkeys(fields)
  )
  for axis in range(3):
    np.testing.assert_array_equal(
      rollout.first_state(axis)['h'], jnp.take(states['h'], 0, axis=axis)
    )
