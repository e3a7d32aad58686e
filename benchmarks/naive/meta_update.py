"""The plain meta-update: `jax.grad` of the meta-loss through plain steps."""

from collections.abc import Callable
from typing import Any

import distrax
import jax
import jax.numpy as jnp
import optax

from benchmarks.naive import step as step_lib
from disco_rl import types
from disco_rl import utils
from disco_rl.learning import learner_step
from disco_rl.value_fns import value_fn

MetaGradient = tuple[types.MetaParams, learner_step.LearnerState]


def make_meta_gradient(
  agent_settings: Any, num_actions: int
) -> Callable[..., MetaGradient]:
  """Makes the meta-gradient of one agent, without acting.

  Args:
    agent_settings: see `step.make_step`, with a critic.
    num_actions: A.

  Returns:
    A function `(eta, state, train_rollouts [N, L, B, ...], valid_rollout [2L,
    B, ...]) -> (gradient in η, new state)`.
  """
  step = step_lib.make_step(agent_settings, num_actions, backprop=True)
  unroll = step_lib.make_network(agent_settings, num_actions)
  critic = value_fn.ValueFunction(
    types.ValueFnConfig(**agent_settings.value_fn), axis_name=None
  )

  def meta_loss(
    eta: types.MetaParams,
    state: learner_step.LearnerState,
    train_rollouts: types.ActorRollout,
    valid_rollout: types.ActorRollout,
  ) -> tuple[jax.Array, learner_step.LearnerState]:
    def inner_update(
      state: learner_step.LearnerState, rollout: types.ActorRollout
    ) -> tuple[learner_step.LearnerState, jax.Array]:
      logits = unroll(state.params, rollout.observations)['logits']
      assert state.critic is not None
      critic_state, _, _ = critic.update(
        state.critic, rollout, jax.lax.stop_gradient(logits)
      )
      state, log = step(eta, rollout, state)
      state = state.replace(critic=critic_state)
      return state, _target_terms(log['meta_out'])

    state, terms = jax.lax.scan(inner_update, state, train_rollouts)
    outs = unroll(state.params, valid_rollout.observations)
    assert state.critic is not None
    values, *_ = critic.get_value_outs(
      state.critic, valid_rollout, jax.lax.stop_gradient(outs['logits'])
    )
    loss = _validation_terms(outs, valid_rollout, values.normalized_adv)
    return loss + jnp.mean(terms), state

  return jax.grad(meta_loss, has_aux=True)


def make_update(
  agent_settings: Any, num_actions: int, learning_rate: float = 5e-4
) -> tuple[Callable[[types.MetaParams], Any], Callable[..., Any]]:
  """Makes a meta-update of several agents, one after the other.

  Args:
    agent_settings: see `make_meta_gradient`.
    num_actions: A.
    learning_rate: step size of η.

  Returns:
    A function from η to the optimiser's state, and a function `(states,
    train_rollouts, valid_rollouts) -> states` of `(eta, opt_state,
    learner_states)`; leaves of agents and rollouts have a leading axis [K].
  """
  meta_gradient = make_meta_gradient(agent_settings, num_actions)
  optimizer = optax.adam(learning_rate)

  def update(states: Any, train_rollouts: Any, valid_rollouts: Any) -> Any:
    eta, opt_state, learners = states
    grads, learners = jax.lax.map(
      lambda own: meta_gradient(eta, *own),
      (learners, train_rollouts, valid_rollouts),
    )
    grads = jax.tree.map(lambda x: jnp.mean(x, axis=0), grads)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(eta, updates), opt_state, learners

  return optimizer.init, update


def _target_terms(meta_out: Any) -> jax.Array:
  """Computes the terms of the meta-loss on the targets of one update."""
  means = sum(jnp.mean(meta_out[name]) ** 2 for name in ('pi', 'y', 'z'))
  target_logits = jax.lax.stop_gradient(meta_out['target_out']['logits'][:-1])
  kl = distrax.Softmax(target_logits).kl_divergence(
    distrax.Softmax(meta_out['pi'])
  )
  return 0.001 * means + 0.01 * jnp.mean(kl)


def _validation_terms(
  outs: Any, rollout: types.ActorRollout, normalized_adv: types.Array
) -> jax.Array:
  """Computes the terms of the meta-loss on the validation trajectory."""
  actions = rollout.actions[:-1]
  policy = distrax.Softmax(outs['logits'][:-1])
  adv = jax.lax.stop_gradient(normalized_adv)
  z_a = utils.batch_lookup(outs['z'][:-1], actions)
  entropy = lambda logits: jnp.mean(distrax.Softmax(logits).entropy())
  return (
    -jnp.mean(policy.log_prob(actions) * adv)
    - 0.01 * jnp.mean(policy.entropy())
    - 0.001 * (entropy(outs['y']) + entropy(z_a))
  )
