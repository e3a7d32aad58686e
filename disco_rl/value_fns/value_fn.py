"""The critic: a V network trained with V-trace."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from disco_rl import optimizers
from disco_rl import types
from disco_rl import utils
from disco_rl.networks import nets
from disco_rl.value_fns import value_utils


class ValueFunction:
  """A critic with one scalar output, which predicts h(value).

  Its advantages are part of the meta-loss when η is trained, and inputs of the
  rules with `needs_value_out`.

  Attributes:
    config: its settings.
    axis_name: axis (or axes) over which gradients and statistics are averaged,
      or None.
  """

  def __init__(self, config: types.ValueFnConfig, axis_name: Any | None):
    """Initialises the critic.

    Args:
      config: its settings.
      axis_name: axis (or axes) over which gradients and statistics are
        averaged, or None.
    """
    self.config = config
    self.axis_name = axis_name
    self._network = nets.get_network(
      config.net,
      out_spec={'value': types.ArraySpec((1,), jnp.float32)},
      module_name='value_fn',
      **{'action_spec': None, **config.net_args},
    )
    self._optimizer = optimizers.clipped_adam(
      config.learning_rate, config.max_abs_update
    )
    self._ema = utils.MovingAverage(
      jnp.zeros([]), decay=config.ema_decay, eps=config.ema_eps
    )

  def initial_state(
    self, rng: chex.PRNGKey, dummy_observation: Any
  ) -> types.ValueState:
    """Makes initial parameters, optimiser state and statistics.

    Args:
      rng: key of the parameters.
      dummy_observation: an example observation, tree of [B, ...].

    Returns:
      The state.
    """
    batch_size = jax.tree.leaves(dummy_observation)[0].shape[0]
    params, state = self._network.init(
      rng, dummy_observation, jnp.zeros(batch_size, bool)
    )
    return types.ValueState(
      params=params,
      state=state,
      opt_state=self._optimizer.init(params),
      adv_ema_state=self._ema.init_state(),
      td_ema_state=self._ema.init_state(),
    )

  def get_value_outs(
    self,
    value_state: types.ValueState,
    rollout: types.ActorRollout,
    target_logits: types.Array,
  ) -> tuple[types.ValueOuts, types.Array, Any, Any]:
    """Estimates the values of a policy on a trajectory.

    Args:
      value_state: the critic's state.
      rollout: [T+1, B, ...], the experience.
      target_logits: [T+1, B, A], the policy π that is evaluated.

    Returns:
      The values, the network's output [T+1, B, 1], and the updated advantage
      and TD averages.
    """
    return self._value_outs(
      value_state.params, value_state, rollout, target_logits
    )

  def update(
    self,
    value_state: types.ValueState,
    rollout: types.ActorRollout,
    target_logits: types.Array,
  ) -> tuple[types.ValueState, types.ValueOuts, types.LogDict]:
    """Takes one gradient step towards the V-trace targets.

    Args:
      value_state: the critic's state.
      rollout: [T+1, B, ...], the experience.
      target_logits: [T+1, B, A], the policy π that is evaluated.

    Returns:
      The new state, the values before the step, and a log.
    """

    def loss_fn(params: types.AgentParams) -> tuple[jax.Array, Any]:
      value_outs, net_out, adv_ema_state, td_ema_state = self._value_outs(
        params, value_state, rollout, target_logits
      )
      # The normalised error is a step in the network's own space, so the loss
      # applies no transform.
      loss = value_utils.value_loss_from_td(
        net_out[:-1],
        jax.lax.stop_gradient(value_outs.normalized_td),
        nonlinear_transform=False,
        categorical_value=False,
      )
      loss = self.config.outer_value_cost * jnp.mean(loss)
      return loss, (value_outs, adv_ema_state, td_ema_state)

    (loss, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(
      value_state.params
    )
    value_outs, adv_ema_state, td_ema_state = aux
    if self.axis_name is not None:
      grads = jax.lax.pmean(grads, self.axis_name)
    updates, opt_state = self._optimizer.update(
      grads, value_state.opt_state, value_state.params
    )
    new_state = types.ValueState(
      params=optax.apply_updates(value_state.params, updates),
      state=value_state.state,
      opt_state=opt_state,
      adv_ema_state=adv_ema_state,
      td_ema_state=td_ema_state,
    )
    log = dict(
      value_loss=loss,
      value_td=value_outs.td,
      value_normalized_td=value_outs.normalized_td,
    )
    return new_state, value_outs, log

  def _value_outs(
    self,
    params: types.AgentParams,
    value_state: types.ValueState,
    rollout: types.ActorRollout,
    target_logits: types.Array,
  ) -> tuple[types.ValueOuts, types.Array, Any, Any]:
    outs, _ = self._network.unroll(
      params,
      value_state.state,
      rollout.observations,
      rollout.is_last,
    )
    value_outs, adv_ema_state, td_ema_state = value_utils.get_value_outs(
      value_net_out=outs['value'],
      q_net_out=None,
      target_value_net_out=None,
      target_q_net_out=None,
      rollout=rollout,
      pi_logits=target_logits,
      discount=self.config.discount_factor,
      lambda_=self.config.td_lambda,
      nonlinear_transform=True,
      adv_ema_state=value_state.adv_ema_state,
      adv_ema_fn=self._ema,
      td_ema_state=value_state.td_ema_state,
      td_ema_fn=self._ema,
      axis_name=self.axis_name,
    )
    return value_outs, outs['value'], adv_ema_state, td_ema_state
