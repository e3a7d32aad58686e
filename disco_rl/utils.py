"""Helper functions that are shared by the whole library.

One file because most of them are published under this module's name.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
import difflib
import inspect
from typing import Any, TypeVar

import chex
import distrax
from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types

_Entry = TypeVar('_Entry')


def lookup(
  table: Mapping[str, _Entry],
  name: str | None,
  kind: str,
  error: type[Exception] = ValueError,
) -> _Entry:
  """Returns `table[name]`, or raises an error that lists the known names.

  Args:
    table: name to entry.
    name: the name to look up.
    kind: what the table holds, for the message, e.g. `'network'`.
    error: the exception class to raise for unknown names.

  Returns:
    The entry.
  """
  if not isinstance(name, str) or name not in table:
    near = did_you_mean(name, table) if isinstance(name, str) else ''
    raise error(
      f'unknown {kind} {fields.shorten(name)}{near}; known: '
      f'{", ".join(sorted(table))}'
    )
  return table[name]


def did_you_mean(name: str | None, known: Iterable[str]) -> str:
  """Makes the end of an error message that suggests the closest known name.

  Args:
    name: the unknown name.
    known: the known names.

  Returns:
    E.g. `' (did you mean catch?)'`; an empty string if no name is close.
  """
  nearest = difflib.get_close_matches((name or '')[:200], list(known), n=1)
  return f' (did you mean {nearest[0]}?)' if nearest else ''


def check_name(name: str, kind: str, taken: Container[str]) -> None:
  """Raises a `ValueError` for a name that cannot be registered.

  Args:
    name: the name.
    kind: what is registered, for the message, e.g. `'rule'`.
    taken: names that cannot be replaced.
  """
  is_text = isinstance(name, str) and name and name.isprintable()
  if not is_text or name in taken or ':' in name:
    article = 'an' if kind[0] in 'aeiou' else 'a'
    raise ValueError(
      f'{article} {kind} cannot be registered as {fields.shorten(name)}: the '
      'name is used by the library, or is not a string, or is empty, or '
      "contains a ':' or a character that cannot be printed"
    )


def default_arguments(build: Callable[..., Any]) -> dict[str, Any]:
  """Returns the default arguments of a function or class, by name."""
  return {
    name: parameter.default
    for name, parameter in inspect.signature(build).parameters.items()
    if parameter.default is not inspect.Parameter.empty
  }


# ------------------------------------------------------------------- devices


def shard_across_devices(
  data: chex.ArrayTree, devices: Sequence[jax.Device]
) -> chex.ArrayTree:
  """Splits axis 0 into one shard per device.

  Args:
    data: tree of [N, ...], with N divisible by the number D of devices.
    devices: the devices.

  Returns:
    Tree of [D, N / D, ...], with row i on `devices[i]`.
  """
  devices = list(devices)
  num = len(devices)
  if not num:
    raise ValueError('shard_across_devices needs at least one device')
  mesh = jax.sharding.Mesh(np.asarray(devices), ('shard',))
  sharding = jax.sharding.NamedSharding(
    mesh, jax.sharding.PartitionSpec('shard')
  )

  def shard(x: types.Array) -> jax.Array:
    if not np.ndim(x) or x.shape[0] % num:
      raise ValueError(
        f'cannot split axis 0 of an array of shape {np.shape(x)} '
        f'into {num} equal shards'
      )
    split = x.reshape((num, x.shape[0] // num) + x.shape[1:])
    return jax.device_put(split, sharding)

  return jax.tree.map(shard, data)


def gather_from_devices(data: chex.ArrayTree) -> chex.ArrayTree:
  """Undoes `shard_across_devices`.

  Args:
    data: tree of [D, n, ...], or of [D] with one number per device.

  Returns:
    Tree of [D * n, ...] on the host; leaves of shape [D] stay [D].
  """

  def gather(x: types.Array) -> np.ndarray:
    x = np.asarray(jax.device_get(x))
    if x.ndim < 2:
      return x
    return x.reshape((x.shape[0] * x.shape[1],) + x.shape[2:])

  return jax.tree.map(gather, data)


# --------------------------------------------------------------------- trees


def batch_lookup(
  table: types.Array, index: types.Array, num_dims: int = 2
) -> jax.Array:
  """Selects one row per element of the leading dimensions.

  Args:
    table: [..., N, *rest], with `num_dims` leading dimensions.
    index: [...], int, the row to take for each element; not used if there is
      only one row.
    num_dims: how many leading dimensions `index` covers.

  Returns:
    [..., *rest].
  """
  table, index = jnp.asarray(table), jnp.asarray(index)
  if table.ndim <= num_dims or index.shape != table.shape[:num_dims]:
    raise ValueError(
      f'batch_lookup: index of shape {index.shape} does not match the leading '
      f'{num_dims} dimensions of a table of shape {table.shape}'
    )
  if table.shape[num_dims] == 1:
    return table.squeeze(num_dims)
  return _lookup(table, index)


@jax.custom_jvp
def _lookup(table: jax.Array, index: jax.Array) -> jax.Array:
  expanded = index.reshape(index.shape + (1,) * (table.ndim - index.ndim))
  taken = jnp.take_along_axis(table, expanded, axis=index.ndim)
  return taken.squeeze(index.ndim)


@_lookup.defjvp
def _lookup_jvp(
  primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, Any]
) -> tuple[jax.Array, jax.Array]:
  """Selects tangents by a mask, whose transpose needs no scatter."""
  (table, index), (tangent, _) = primals, tangents
  num_dims, size = index.ndim, table.shape[index.ndim]
  index = jnp.where(index < 0, index + size, index)
  is_taken = index[..., None] == jnp.arange(size)
  is_taken = jnp.expand_dims(is_taken, tuple(range(num_dims + 1, table.ndim)))
  # Not a product: rows that are not taken may be infinite.
  taken = jnp.sum(jnp.where(is_taken, tangent, 0), axis=num_dims)
  return _lookup(table, index), taken


def tree_stack(
  elems: Sequence[chex.ArrayTree], axis: int = 0
) -> chex.ArrayTree:
  """Stacks trees of one structure leaf by leaf, along a new `axis`."""
  return jax.tree.map(lambda *xs: jnp.stack(xs, axis=axis), *elems)


def copy_tree(tree: Any) -> Any:
  """Copies every array of a tree, since donated buffers must not be shared.

  Args:
    tree: a tree of arrays; other leaves are kept as they are.

  Returns:
    The tree with copies on the device.
  """
  copy = lambda x: jnp.array(x, copy=True) if isinstance(x, types.Array) else x
  return jax.tree.map(copy, tree)


def cast_to_single_precision(
  tree_like: chex.ArrayTree, cast_ints: bool = True, host_data: bool = False
) -> chex.ArrayTree:
  """Casts 64-bit leaves to 32 bits; other dtypes are unchanged.

  Args:
    tree_like: tree of arrays.
    cast_ints: whether to cast int64 (and uint64) too.
    host_data: whether to return NumPy arrays instead of device arrays.

  Returns:
    The tree, with the same structure and shapes.
  """
  narrower: dict[np.dtype, Any] = {np.dtype(np.float64): np.float32}
  if cast_ints:
    narrower[np.dtype(np.int64)] = np.int32
    narrower[np.dtype(np.uint64)] = np.uint32
  convert = np.asarray if host_data else jnp.asarray

  def cast(x: Any) -> types.Array:
    dtype = np.dtype(getattr(x, 'dtype', None) or np.asarray(x).dtype)
    return convert(x, narrower.get(dtype, dtype))

  return jax.tree.map(cast, tree_like)


# --------------------------------------------------------------------- specs


def broadcast_specs(
  specs: types.SpecsTree, n: int, replace: bool = False
) -> types.SpecsTree:
  """Gives every spec a leading dimension of size `n`.

  Args:
    specs: tree of `ArraySpec` or dm_env specs.
    n: the size of the leading dimension.
    replace: whether to replace the leading dimension instead of adding one.

  Returns:
    Tree of specs of the same kinds.
  """

  def broadcast(spec: Any) -> Any:
    shape = (n,) + tuple(spec.shape[1:] if replace else spec.shape)
    if isinstance(spec, dm_env_specs.BoundedArray):
      # Not `spec.replace`: a DiscreteArray is always a scalar.
      return dm_env_specs.BoundedArray(
        shape, spec.dtype, spec.minimum, spec.maximum, spec.name
      )
    if isinstance(spec, dm_env_specs.Array):
      return spec.replace(shape=shape)
    return types.ArraySpec(shape, spec.dtype)

  return jax.tree.map(broadcast, specs)


def zeros_like_spec(
  spec: types.SpecsTree, prepend_shape: Sequence[int] = ()
) -> chex.ArrayTree:
  """Makes zeros for every spec of a tree, with extra leading dimensions."""
  return jax.tree.map(
    lambda s: jnp.zeros(tuple(prepend_shape) + tuple(s.shape), s.dtype), spec
  )


def _num_actions(spec: types.ActionSpec, expected_rank: int) -> int:
  """Returns the number of actions of a spec, which must be discrete int32."""
  accepted = 'only discrete int32 actions 0..n-1 are supported'
  if not isinstance(spec, types.ActionSpec):
    raise ValueError(f'{accepted}: got {spec!r}, not a dm_env BoundedArray')
  if len(spec.shape) != expected_rank:
    kind = 'a batch of scalars' if expected_rank else 'a scalar (shape ())'
    raise ValueError(
      f'{accepted}: an action must be {kind}, got shape {spec.shape}'
    )
  if spec.dtype != np.int32:
    raise ValueError(f'{accepted}: got dtype {spec.dtype}')
  if np.any(spec.minimum != 0):
    raise ValueError(f'{accepted}: got minimum {spec.minimum}')
  num_actions = int(np.max(spec.maximum)) + 1
  if num_actions < 1:
    raise ValueError(f'{accepted}: got maximum {spec.maximum}')
  return num_actions


def get_num_actions_from_spec(spec: types.ActionSpec) -> int:
  """Returns the number A of actions of a scalar, discrete, int32 spec."""
  return _num_actions(spec, expected_rank=0)


def get_logits_specs(
  spec: types.ActionSpec, with_batch_dim: bool = False
) -> types.ArraySpec:
  """Makes the spec of the policy logits for an action spec.

  Args:
    spec: a scalar discrete action spec or, with `with_batch_dim`, one of
      shape [B].
    with_batch_dim: whether `spec` is batched.

  Returns:
    A float32 spec of shape [A], or [B, A].
  """
  num_actions = _num_actions(spec, expected_rank=int(with_batch_dim))
  return types.ArraySpec(tuple(spec.shape) + (num_actions,), np.float32)


# -------------------------------------------------------------------- losses


def differentiable_policy_gradient_loss(
  logits_t: types.Array,
  a_t: types.Array,
  adv_t: types.Array,
  backprop: bool,
) -> jax.Array:
  """Computes the policy-gradient loss of each step, `-log π(aₜ) · advₜ`.

  Args:
    logits_t: [..., A], the policy π.
    a_t: [...], int, the actions taken.
    adv_t: [...], the advantages.
    backprop: whether gradients also pass through the advantages.

  Returns:
    [...], the loss of each step.
  """
  if not backprop:
    adv_t = jax.lax.stop_gradient(adv_t)
  return -distrax.Softmax(logits_t).log_prob(a_t) * adv_t


# ----------------------------------------------------------- moving averages


class MovingAverage:
  """Exponential moving mean and variance of whole arrays, one pair per leaf.

  With decay d, `mᵢ ← d·mᵢ + (1 - d)·mean(xⁱ)` for i = 1, 2. Both moments start
  at zero and are debiased by `1 - dⁿ` when they are used.
  """

  def __init__(
    self,
    example_tree: chex.ArrayTree,
    decay: float = 0.999,
    eps: float = 1e-6,
  ):
    """Initialises the average.

    Args:
      example_tree: any tree of the structure that will be averaged.
      decay: d, in [0, 1).
      eps: added to the standard deviation when normalising.
    """
    self._treedef: Any = jax.tree.structure(example_tree)
    self._decay = decay
    self._eps = eps

  def init_state(self) -> types.EmaState:
    """Makes the initial state: zero moments, decay product one."""

    # A tree for each moment: shared buffers could not both be donated.
    def zeros() -> chex.ArrayTree:
      leaves = range(self._treedef.num_leaves)
      return self._treedef.unflatten(
        [jnp.zeros([], jnp.float32) for _ in leaves]
      )

    return types.EmaState(
      moment1=zeros(),
      moment2=zeros(),
      decay_product=jnp.ones([], jnp.float32),
    )

  def update_state(
    self,
    tree_like: chex.ArrayTree,
    state: types.EmaState,
    pmean_axis_name: Any | None,
  ) -> types.EmaState:
    """Updates the moments with one more tree.

    Args:
      tree_like: tree of arrays of any shape.
      state: the state before.
      pmean_axis_name: axis (or axes) over which the means are also averaged,
        or None.

    Returns:
      The new state.
    """

    def average(moment: jax.Array, x: types.Array, power: int) -> jax.Array:
      mean = jnp.mean(jnp.asarray(x) ** power)
      if pmean_axis_name is not None:
        mean = jax.lax.pmean(mean, pmean_axis_name)
      return self._decay * moment + (1 - self._decay) * mean

    def averages(moment: chex.ArrayTree, power: int) -> chex.ArrayTree:
      return jax.tree.map(lambda m, x: average(m, x, power), moment, tree_like)

    return types.EmaState(
      moment1=averages(state.moment1, 1),
      moment2=averages(state.moment2, 2),
      decay_product=state.decay_product * self._decay,
    )

  def normalize(
    self,
    value: chex.ArrayTree,
    state: types.EmaState,
    subtract_mean: bool = True,
    root_eps: float = 1e-12,
  ) -> chex.ArrayTree:
    """Divides by the debiased standard deviation.

    Args:
      value: tree of arrays.
      state: a state that was updated at least once.
      subtract_mean: whether to subtract the debiased mean first.
      root_eps: added to the variance under the root.

    Returns:
      Tree of `(x - μ) / (√(v + root_eps) + eps)`.
    """
    debias = 1 / (1 - state.decay_product)

    def normalize_leaf(
      x: jax.Array, moment1: jax.Array, moment2: jax.Array
    ) -> jax.Array:
      mean = moment1 * debias
      variance = jnp.maximum(0.0, moment2 * debias - mean**2)
      centered = x - mean if subtract_mean else x
      return centered / (jnp.sqrt(variance + root_eps) + self._eps)

    return jax.tree.map(normalize_leaf, value, state.moment1, state.moment2)
