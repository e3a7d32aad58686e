"""How the meta-network sees its inputs: paths into them, and transforms.

A transform is called as `(x, actions [T, B], policy [T+1, B, A], axis_name)`,
with x of shape [T or T+1, B, ...]. `TRANSFORMS` maps a name to a factory of
transforms; the one that keeps statistics (`normalize`) must be built and called
inside a Haiku transform.
"""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import rlax

from disco_rl import types
from disco_rl import utils

# (x, actions [T, B], policy [T+1, B, A], axis_name) -> transformed x
Transform = Callable[[types.Array, types.Array, types.Array, Any], jax.Array]


def _elementwise(fn: Callable[[jax.Array], jax.Array]) -> Any:
  """Factory of a transform that needs nothing but x."""

  def transform(
    x: types.Array, actions: types.Array, policy: types.Array, axis_name: Any
  ) -> jax.Array:
    del actions, policy, axis_name
    return fn(jnp.asarray(x))

  return lambda: transform


def _td_pair(x: jax.Array) -> jax.Array:
  """Each step together with the next one, [T+1, ..., C] to [T, ..., 2C]."""
  return jnp.concatenate([x[:-1], x[1:]], axis=-1)


def _sign_log(x: jax.Array) -> jax.Array:
  return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def _select_a(
  x: types.Array, actions: types.Array, policy: types.Array, axis_name: Any
) -> jax.Array:
  """The row of the taken action, [T, B, A, ...] to [T, B, ...]."""
  del policy, axis_name
  return utils.batch_lookup(x, actions)


def _pi_weighted_avg(
  x: types.Array, actions: types.Array, policy: types.Array, axis_name: Any
) -> jax.Array:
  """The policy's expectation, [T+1, B, A, ...] to [T+1, B, ...]."""
  del actions, axis_name
  weights = policy.reshape(policy.shape + (1,) * (x.ndim - policy.ndim))
  return jnp.sum(x * weights, axis=2)


class Normalize(hk.Module):
  """Normalises each channel by its moving mean and variance.

  The statistics are over time and batch (and the named axis), and are updated
  by every call before they are used.
  """

  def __init__(
    self,
    decay: float = 0.99,
    eps: float = 1e-6,
    root_eps: float = 1e-12,
    name: str = 'normalize',
  ):
    super().__init__(name=name)
    self._decay = decay
    self._eps = eps
    self._root_eps = root_eps

  def __call__(
    self,
    x: types.Array,  # [T, B, ...]
    actions: types.Array,
    policy: types.Array,
    axis_name: Any,
  ) -> jax.Array:
    """Updates the statistics and normalises x, keeping its shape."""
    del actions, policy
    x = jnp.asarray(x)
    batch_moments = jnp.stack(
      [jnp.mean(x, axis=(0, 1)), jnp.mean(jnp.square(x), axis=(0, 1))]
    )
    if axis_name is not None:
      batch_moments = jax.lax.pmean(batch_moments, axis_name)
    moments = hk.get_state(
      'moments', batch_moments.shape, batch_moments.dtype, init=jnp.zeros
    )
    decay_product = hk.get_state('decay_product', (), init=jnp.ones)
    moments = self._decay * moments + (1 - self._decay) * batch_moments
    decay_product = decay_product * self._decay
    hk.set_state('moments', moments)
    hk.set_state('decay_product', decay_product)

    mean, second_moment = moments / (1 - decay_product)
    variance = jnp.maximum(0.0, second_moment - jnp.square(mean))
    return (x - mean) / (jnp.sqrt(variance + self._root_eps) + self._eps)


TRANSFORMS: dict[str, Callable[[], Transform]] = {
  'identity': _elementwise(lambda x: x),
  'softmax': _elementwise(jax.nn.softmax),
  'max_a': _elementwise(lambda x: jnp.max(x, axis=2)),
  'stop_grad': _elementwise(jax.lax.stop_gradient),
  'clip': _elementwise(lambda x: jnp.clip(x, -2.0, 2.0)),
  'sign': _elementwise(jnp.sign),
  'drop_last': _elementwise(lambda x: x[:-1]),
  'td_pair': _elementwise(_td_pair),
  'sign_log': _elementwise(_sign_log),
  'sign_hyp': _elementwise(rlax.signed_hyperbolic),
  'masks_to_discounts': _elementwise(lambda x: 1.0 - x),
  'select_a': lambda: _select_a,
  'pi_weighted_avg': lambda: _pi_weighted_avg,
  'normalize': Normalize,
}


def get_source(inputs: types.UpdateRuleInputs, path: str) -> jax.Array:
  """Reads one array out of the inputs.

  Args:
    inputs: what the rule was given.
    path: attributes or keys separated by `/`, e.g. `'agent_out/logits'`.

  Returns:
    The array. Quantities that are one number per step (or per action) and come
    from the rule get a trailing unit axis, so that all sources have channels.
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
) -> Transform:
  """Builds the transform called `name`.

  Args:
    name: a key of `TRANSFORMS` or of `networks`.
    networks: embedding networks that may stand in a chain of transforms too.

  Returns:
    The transform.
  """
  factories = TRANSFORMS | {k: _elementwise(v) for k, v in networks.items()}
  return utils.lookup(factories, name, 'input transform', KeyError)()


# Transforms of each step by itself, for which it does not matter whether the
# last step is dropped before or after.
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
  """An equal chain, in which a leading `drop_last` comes as late as it can.

  Chains that differ only in dropping the last step then begin alike.

  Args:
    transforms: names, in order.

  Returns:
    Names, in order.
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
  """Refuses unknown sources and transforms before anything is traced."""
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
