"""Reads and changes the values that an agent predicts."""

import dataclasses

import jax
import jax.numpy as jnp
import rlax

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.config import agents
from disco_rl.inspection import targets
from disco_rl.update_rules import actor_critic
from disco_rl.update_rules import disco
from disco_rl.value_fns import value_utils


@dataclasses.dataclass(frozen=True)
class Head:
  """The output that has an agent's values, and how it encodes them.

  Attributes:
    name: `'q'` of action values, or `'v'`.
    max_abs_value: support of a distribution; None for a number.
    nonlinear: whether it predicts h(value).
  """

  name: str
  max_abs_value: float | None
  nonlinear: bool

  def decode(self, out: types.Array) -> jax.Array:
    """Converts an output to values, [..., bins or 1] to [...]."""
    return value_utils.get_values_from_net_outs(
      out, self.max_abs_value is not None, self.max_abs_value, self.nonlinear
    )

  def encode(self, values: types.Array, size: int) -> jax.Array:
    """Makes an output that has given values, [...] to [..., size]."""
    values = jnp.asarray(values)
    if self.nonlinear:
      values = jnp.asarray(rlax.signed_hyperbolic(values))
    if self.max_abs_value is None:
      return jnp.expand_dims(values, -1)
    two_hot = value_utils.scalar_to_categorical_value(
      size, values, self.max_abs_value
    )
    return jnp.log(jnp.maximum(two_hot, 1e-30))


def head_of(an_agent: agent_lib.Agent) -> Head | None:
  """Returns the output of an agent that has its values; None without one."""
  settings = an_agent.settings.update_rule
  spec = an_agent.update_rule.agent_output_spec(an_agent.single_action_spec)
  if 'q' in spec:
    return Head('q', settings.max_abs_value, True)
  if 'v' in spec:
    is_categorical = settings.get('categorical_value', False)
    return Head(
      'v',
      settings.max_abs_value if is_categorical else None,
      settings.get('nonlinear_value_transform', False),
    )
  return None


def state_values(head: Head, outs: types.AgentOuts) -> jax.Array:
  """Returns V of every step.

  Args:
    head: the output.
    outs: the agent's outputs, leaves [T+1, B, ...].

  Returns:
    [T+1, B]; of action values, their mean under the policy.
  """
  decoded = head.decode(outs[head.name])
  if head.name == 'v':
    return decoded
  return jnp.sum(jax.nn.softmax(outs['logits']) * decoded, axis=-1)


def shift(
  scene: targets.Scene, head: Head, amount: types.Array
) -> targets.Scene:
  """Adds numbers to the agent's values, and to those of the target network.

  Args:
    scene: the trajectories.
    head: the output.
    amount: [T+1, 1], what is added at every step.

  Returns:
    The changed scene. Where nothing is added, outputs are the same.
  """
  amount = jnp.asarray(amount)

  def shifted(out: types.Array) -> jax.Array:
    out = jnp.asarray(out)
    added = amount.reshape(amount.shape + (1,) * (out.ndim - 3))
    new = head.encode(head.decode(out) + added, out.shape[-1])
    return jnp.where(added[..., None] == 0, out, new)

  return targets.map_output(scene, head.name, shifted)


def as_actor_critic(
  view: targets.View, scene: targets.Scene, head: Head
) -> tuple[targets.View, targets.Scene, Head]:
  """Makes the hand-designed actor-critic see the same experience and values.

  Args:
    view: the rule of the agent, whose discount is taken.
    scene: the trajectories.
    head: the agent's values.

  Returns:
    The actor-critic, its scene, and its values.
  """
  rule = actor_critic.ActorCritic()
  hyper_params = agents.get_settings_actor_critic().hyper_params.to_dict()
  hyper_params['discount_factor'] = discount_of(view)
  values = state_values(head, scene.target_out or scene.inputs.agent_out)
  agent_out = {
    'logits': scene.inputs.agent_out['logits'],
    'v': values[..., None],
  }
  scene = targets.Scene(
    inputs=scene.inputs.replace(agent_out=agent_out),
    target_out={},
    meta_state=rule.init_meta_state(jax.random.PRNGKey(0), {}),
    params={},
  )
  critic_view = targets.View('actor_critic', rule, {}, hyper_params)
  return critic_view, scene, Head('v', None, False)


def discount_of(view: targets.View) -> float:
  """Returns γ of a rule."""
  if isinstance(view.rule, disco.DiscoUpdateRule):
    return view.rule.discount
  return float(
    view.hyper_params.get('discount_factor', value_utils.DEFAULT_DISCOUNT)
  )
