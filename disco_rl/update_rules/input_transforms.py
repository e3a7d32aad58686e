"""Sources and transforms of the meta-network's inputs.

`TRANSFORMS` maps a name to a factory of transforms (`InputTransform`).
`normalize`, which keeps statistics, must be built and called inside a Haiku
transform.
"""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import rlax

from disco_rl import types
from disco_rl import utils


class InputTransform:
  """The interface of transforms of one input of the meta-network."""

  def __call__(
    self,
    x: types.Array,
    actions: types.Array,
    policy: types.Array,
    axis: Any | None,
  ) -> jax.Array:
    """Transforms an input.

    Args:
      x: [T or T+1, B, ...].
      actions: [T, B], int, the actions taken.
      policy: [T+1, B, A], probabilities.
      axis: name of the axis (or axes) to average statistics over, or None.

    Returns:
      [T or T+1, B, ...].
    """
    raise NotImplementedError(f'{type(self).__name__} has no __call__')


def tx_factory(
  tx_call: Callable[[jax.Array], jax.Array],
) -> Callable[[], InputTransform]:
  """Makes a factory of transforms that depend on x only.

  Args:
    tx_call: a function from x to the transformed x.

  Returns:
    A subclass of `InputTransform`.
  """

  class Transform(InputTransform):
    """Applies `tx_call`."""

    def __call__(
      self,
      x: types.Array,
      actions: types.Array,
      policy: types.Array,
      axis: Any | None,
    ) -> jax.Array:
      del actions, policy, axis
      return tx_call(jnp.asarray(x))

  return Transform


def td_pair(x: jax.Array) -> jax.Array:
  """Concatenates each step with the next, [T+1, ..., C] to [T, ..., 2C]."""
  return jnp.concatenate([x[:-1], x[1:]], axis=-1)


def _sign_log(x: jax.Array) -> jax.Array:
  return jnp.sign(x) * jnp.log1p(jnp.abs(x))


class SelectByAction(InputTransform):
  """Selects the row of the action taken."""

  def __call__(
    self,
    x: types.Array,
    actions: types.Array,
    policy: types.Array,
    axis: Any | None,
  ) -> jax.Array:
    """Selects rows, [T, B, A, ...] to [T, B, ...]."""
    del policy, axis
    return utils.batch_lookup(x, actions)


class PiWeightedAvg(InputTransform):
  """Computes the policy's expectation over actions."""

  def __call__(
    self,
    x: types.Array,
    actions: types.Array,
    policy: types.Array,
    axis: Any | None,
  ) -> jax.Array:
    """Averages over actions, [T+1, B, A, ...] to [T+1, B, ...]."""
    del actions, axis
    weights = policy.reshape(policy.shape + (1,) * (x.ndim - policy.ndim))
    return jnp.sum(x * weights, axis=2)


class EmaNorm(hk.Module):
  """Normalises by moving averages of mean and second moment.

  They are debiased, and updated by every call before use: the output is
  `(x - μ) / (√(v + eps_root) + eps)` with `v = max(0, m₂ - μ²)`.

  Attributes:
    axis: axes to average over; None for all but that of channels.
    channel_index: index of the axis of channels.
    cross_replica_axis: name of the axis (or axes) to average the statistics
      over too, or None.
    cross_replica_axis_index_groups: groups of devices within it, or None.
    eps: added to the standard deviation.
    eps_root: added to the variance.
    m1_ema: moving average of the mean.
    m2_ema: moving average of the second moment.
  """

  def __init__(
    self,
    decay_rate: float,
    eps: float = 1e-6,
    eps_root: float = 1e-12,
    axis: Sequence[int] | None = None,
    cross_replica_axis: Any | None = None,
    cross_replica_axis_index_groups: Sequence[Sequence[int]] | None = None,
    data_format: str = 'channels_last',
    name: str | None = None,
  ):
    """Initialises the averages.

    Args:
      decay_rate: decay of both moving averages.
      eps: see the attribute, like the following arguments.
      eps_root: see the attribute.
      axis: see the attribute.
      cross_replica_axis: see the attribute.
      cross_replica_axis_index_groups: see the attribute.
      data_format: position of the channels, `'channels_last'` or
        `'channels_first'`.
      name: Haiku name.
    """
    super().__init__(name=name)
    if cross_replica_axis is None and cross_replica_axis_index_groups:
      raise ValueError(
        'cross_replica_axis_index_groups needs a cross_replica_axis'
      )
    self.axis = axis
    self.channel_index = hk.get_channel_index(data_format)
    self.cross_replica_axis = cross_replica_axis
    self.cross_replica_axis_index_groups = cross_replica_axis_index_groups
    self.eps = eps
    self.eps_root = eps_root
    self.m1_ema = hk.ExponentialMovingAverage(decay_rate, name='m1_ema')
    self.m2_ema = hk.ExponentialMovingAverage(decay_rate, name='m2_ema')

  def __call__(self, inputs: types.Array) -> jax.Array:
    """Updates the statistics and normalises, keeping the shape."""
    x = jnp.asarray(inputs)
    axis = self.axis
    if axis is None:
      channels = self.channel_index % x.ndim
      axis = [i for i in range(x.ndim) if i != channels]
    moments = tuple(
      jnp.mean(power, axis=tuple(axis), keepdims=True)
      for power in (x, jnp.square(x))
    )
    if self.cross_replica_axis is not None:
      moments = jax.lax.pmean(
        moments,
        self.cross_replica_axis,
        axis_index_groups=self.cross_replica_axis_index_groups,
      )
    mean, second_moment = self.m1_ema(moments[0]), self.m2_ema(moments[1])
    variance = jnp.maximum(0.0, second_moment - jnp.square(mean))
    return (x - mean) / (jnp.sqrt(variance + self.eps_root) + self.eps)


class Normalize(InputTransform, hk.Module):
  """Normalises each channel by its moving mean and variance.

  The statistics are over time and batch, and over the named axis.
  """

  def __call__(
    self,
    x: types.Array,
    actions: types.Array,
    policy: types.Array,
    axis: Any | None,
  ) -> jax.Array:
    """Updates the statistics and normalises x, keeping its shape."""
    del actions, policy
    return EmaNorm(decay_rate=0.99, axis=(0, 1), cross_replica_axis=axis)(x)


TRANSFORMS: dict[str, Callable[[], InputTransform]] = {
  'identity': tx_factory(lambda x: x),
  'softmax': tx_factory(jax.nn.softmax),
  'max_a': tx_factory(lambda x: jnp.max(x, axis=2)),
  'stop_grad': tx_factory(jax.lax.stop_gradient),
  'clip': tx_factory(lambda x: jnp.clip(x, -2.0, 2.0)),
  'sign': tx_factory(jnp.sign),
  'drop_last': tx_factory(lambda x: x[:-1]),
  'td_pair': tx_factory(td_pair),
  'sign_log': tx_factory(_sign_log),
  'sign_hyp': tx_factory(rlax.signed_hyperbolic),
  'masks_to_discounts': tx_factory(lambda x: 1.0 - x),
  'select_a': SelectByAction,
  'pi_weighted_avg': PiWeightedAvg,
  'normalize': Normalize,
}


def get_source(inputs: types.UpdateRuleInputs, path: str) -> jax.Array:
  """Reads one array from the inputs.

  Args:
    inputs: the inputs of the rule.
    path: attributes or keys separated by `/`, e.g. `'agent_out/logits'`.

  Returns:
    The array. Scalars per step (or per action) that the rule computes get a
    trailing axis of size 1, so that they have channels.
  """
  value: Any = inputs
  walked: list[str] = []
  for part in path.split('/'):
    if value is None:
      raise ValueError(
        f'cannot read {path!r} of the meta-network inputs: '
        f'{"/".join(walked)!r} is None'
      )
    keys = value.keys() if hasattr(value, 'keys') else ()
    if part in keys:
      value = value[part]
    elif hasattr(value, part):
      value = getattr(value, part)
    else:
      raise KeyError(
        f'meta-network input {path!r} not found: {part!r} is not one of '
        f'{sorted(keys)}'
      )
    walked.append(part)
  if value is None:
    raise ValueError(f'meta-network input {path!r} is None')

  value = jnp.asarray(value)
  from_rule = path.startswith('extra_from_rule/')
  from_target_net = path.startswith('extra_from_rule/target_out/')
  if from_rule and (not from_target_net or path.endswith('/q')):
    value = value[..., None]
  return value


def get_transform(
  name: str, networks: dict[str, Callable[[jax.Array], jax.Array]]
) -> InputTransform:
  """Builds the transform called `name`.

  Args:
    name: a key of `TRANSFORMS` or of `networks`.
    networks: embedding networks by name, which are transforms, too.

  Returns:
    The transform.
  """
  factories = TRANSFORMS | {k: tx_factory(v) for k, v in networks.items()}
  return utils.lookup(factories, name, 'input transform', KeyError)()


# Transforms of each step by itself, which commute with dropping the last step.
_STEPWISE = frozenset(
  {
    'identity',
    'softmax',
    'stop_grad',
    'clip',
    'sign',
    'sign_log',
    'sign_hyp',
    'masks_to_discounts',
    'y_net',
    'z_net',
  }
)


def postpone_drop_last(transforms: Sequence[str]) -> tuple[str, ...]:
  """Moves a leading `drop_last` as late as possible, with the same result.

  Chains that differ only in dropping the last step then share a prefix.

  Args:
    transforms: names of transforms, in order.

  Returns:
    The names in their new order.
  """
  if not transforms or transforms[0] != 'drop_last':
    return tuple(transforms)
  rest = list(transforms[1:])
  place = 0
  while place < len(rest) and rest[place] in _STEPWISE:
    place += 1
  return (*rest[:place], 'drop_last', *rest[place:])


# The fields of `UpdateRuleInputs` that a meta-network can read.
_SOURCES = (
  'actions',
  'agent_out',
  'behaviour_agent_out',
  'extra_from_rule',
  'is_terminal',
  'rewards',
  'value_out',
)


def check_option(option: types.MetaNetInputOption) -> None:
  """Raises an error for unknown sources or transforms, before tracing."""
  known = {**TRANSFORMS, 'y_net': None, 'z_net': None}
  for config in (*option.base, *option.action_conditional):
    field = str(config.source).partition('/')[0]
    if field == 'observations':
      raise ValueError(
        f'{config.source!r} cannot be an input of the meta-network: a rule '
        'must not depend on the shape of observations, which differs from one '
        f'environment to the next. It can read {", ".join(_SOURCES)}'
      )
    utils.lookup(dict.fromkeys(_SOURCES), field, 'meta-network input', KeyError)
    names: Sequence[str] = config.transforms
    for name in names:
      utils.lookup(known, name, 'input transform', KeyError)
