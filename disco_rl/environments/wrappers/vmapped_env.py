"""Batches of environments that other packages have written in JAX.

An adapter describes one stream (`Stream`); `VmappedEnvironment` maps it over a
batch and starts the next episode where one ends, in one of two ways:

- In every step, each stream is reset, and the result is used where an episode
  ends. This is what most packages do themselves.
- Resets are computed only where episodes end, a few streams at a time, in a
  loop that usually has no iteration. The result is the same, and if a reset
  takes much longer than a step, it is many times faster.
"""

from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import fields
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import rendering

# The setting of environments that have one, `resets_at_once`.
RESETS_AT_ONCE = fields.Field(int, low=0, limit=fields.MAX_SIZE)


class Step(NamedTuple):
  """The result of one step of one stream."""

  state: Any
  observation: Any  # Tree of arrays.
  reward: jax.Array  # [].
  is_last: jax.Array  # [], bool, whether the episode ends.


class Stream(Protocol):
  """One stream of an environment, as pure functions of an explicit state.

  Two methods are optional. `legal_actions(observation)` returns the actions
  that are legal, [A], bool; without it, all always are. `last_observation(rng,
  state, action)` returns that of the step that ends an episode, if the stream
  resets itself; it is used for pictures only.

  Attributes:
    name: its name, for messages.
    num_actions: A.
    resets_itself: whether `step` starts the next episode.
  """

  name: str
  num_actions: int
  resets_itself: bool

  def reset(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    """Starts an episode; returns its state and observation."""

  def step(self, rng: chex.PRNGKey, state: Any, action: types.Array) -> Step:
    """Advances the stream by one action in 0..A-1, []."""


class StreamState(NamedTuple):
  """The state of every stream, leaves [B, ...]."""

  rng: chex.PRNGKey
  state: Any


class VmappedEnvironment(base.Environment):
  """B vmapped streams, which reset automatically.

  Streams differ only by their random key. Each step splits it into the next key
  and that of the step, and the latter into the keys of `Stream.step` and of the
  reset; a stream that resets itself gets it as it is.
  """

  is_jittable = True

  def __init__(self, stream: Stream, batch_size: int, resets_at_once: int = 0):
    """Wraps a stream.

    Args:
      stream: the stream.
      batch_size: B.
      resets_at_once: how many streams are reset at a time, after the steps in
        which an episode ends; 0 to reset all of them in every step.
    """
    super().__init__(batch_size)
    self._stream = stream
    self.has_action_mask = hasattr(stream, 'legal_actions')
    self._resets_at_once = min(resets_at_once, batch_size)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns `{'observation': spec}`; timesteps have the bare observation."""
    _, timestep = jax.eval_shape(self._reset_stream, jax.random.PRNGKey(0))
    return {'observation': timestep.observation}

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..A-1."""
    num_actions = self._stream.num_actions
    return types.ActionSpec((), np.int32, 0, num_actions - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey
  ) -> tuple[StreamState, types.EnvironmentTimestep]:
    """Resets every stream; `rng_key` is split into one key per stream."""
    keys = jax.random.split(rng_key, self.batch_size)
    return jax.vmap(self._reset_stream)(keys)

  def step(
    self, states: StreamState, actions: types.Array
  ) -> tuple[StreamState, types.EnvironmentTimestep]:
    """Advances every stream, starting a new episode where one ends."""
    rng, step_rng = _split(states.rng)
    if self._stream.resets_itself:
      step = jax.vmap(self._step_stream)(step_rng, states.state, actions)
    else:
      step_rng, reset_rng = _split(step_rng)
      step = jax.vmap(self._step_stream)(step_rng, states.state, actions)
      state, observation = self._reset_ended(step, reset_rng)
      step = step._replace(state=state, observation=observation)
    masks = jax.vmap(self._mask)(step.observation)
    return StreamState(rng, step.state), _timestep(*step[1:], masks)

  def render_end(self, states: StreamState, actions: types.Array) -> Any:
    """Draws the state in which an episode of the first stream ended."""
    rng, state = jax.tree.map(lambda x: x[0], states)
    _, step_rng = jax.random.split(rng)
    action = jnp.asarray(actions)[0]
    if hasattr(self._stream, 'last_observation'):
      return rendering.picture(
        self._stream.last_observation(step_rng, state, action)
      )
    if self._stream.resets_itself:
      return None
    step_rng, _ = jax.random.split(step_rng)
    return rendering.picture(
      self._stream.step(step_rng, state, action).observation
    )

  def _reset_stream(
    self, rng: chex.PRNGKey
  ) -> tuple[StreamState, types.EnvironmentTimestep]:
    rng, reset_rng = jax.random.split(rng)
    state, observation = self._begin(reset_rng)
    timestep = _timestep(
      observation, jnp.zeros([]), jnp.zeros([], bool), self._mask(observation)
    )
    return StreamState(rng, state), timestep

  def _mask(self, observation: Any) -> jax.Array | None:
    if not self.has_action_mask:
      return None
    return self._stream.legal_actions(observation)  # type: ignore[attr-defined]

  def _begin(self, rng: chex.PRNGKey) -> tuple[Any, Any]:
    return _without_weak_types(self._stream.reset(rng))

  def _step_stream(
    self, rng: chex.PRNGKey, state: Any, action: types.Array
  ) -> Step:
    return _without_weak_types(self._stream.step(rng, state, action))

  def _reset_ended(self, step: Step, rng: chex.PRNGKey) -> tuple[Any, Any]:
    """Resets the streams whose episode ended.

    Args:
      step: of all streams.
      rng: [B, 2], keys of resets.

    Returns:
      States and observations of all streams.
    """
    current, is_last = (step.state, step.observation), step.is_last
    if not self._resets_at_once:
      return _where(is_last, jax.vmap(self._begin)(rng), current)

    def is_pending(carry: tuple[Any, jax.Array]) -> jax.Array:
      return jnp.any(carry[1])

    def reset_some(carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
      trees, pending = carry
      # The first few that are pending; then others, which stay as they are.
      chosen = jnp.argsort(~pending)[: self._resets_at_once]
      new = jax.vmap(self._begin)(rng[chosen])
      old = jax.tree.map(lambda x: x[chosen], trees)
      new = _where(pending[chosen], new, old)
      trees = jax.tree.map(lambda x, y: x.at[chosen].set(y), trees, new)
      return trees, pending.at[chosen].set(False)

    trees, _ = jax.lax.while_loop(is_pending, reset_some, (current, is_last))
    return trees


def check_discrete(name: str, is_discrete: bool, actions: Any) -> None:
  """Raises an error for an environment whose actions are not discrete.

  Args:
    name: its name.
    is_discrete: whether they are discrete.
    actions: their space or spec, whose type is named in the message.
  """
  if not is_discrete:
    raise foreign.InvalidEnvironmentError(
      f'{name} has actions {type(actions).__name__}: only discrete actions are '
      'supported'
    )


def one_hot_layers(layers: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
  """Encodes grids of numbers as grids of one-hot vectors.

  Args:
    layers: [H, W, L], whole numbers.
    sizes: of length L, how many different numbers a layer has.

  Returns:
    [H, W, sum(sizes)], booleans, all of them false for numbers out of range.
  """
  hots = [
    jax.nn.one_hot(layers[..., i], size, dtype=bool)
    for i, size in enumerate(sizes)
  ]
  return jnp.concatenate(hots, axis=-1)


def _timestep(
  observation: Any,
  reward: jax.Array,
  is_last: jax.Array,
  action_mask: jax.Array | None,
) -> types.EnvironmentTimestep:
  return types.EnvironmentTimestep(
    observation=observation,
    step_type=types.mid_or_last(is_last),
    reward=reward.astype(jnp.float32),
    action_mask=action_mask,
  )


def _split(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Splits [B, 2] keys into two each."""
  split = jax.vmap(jax.random.split)(keys)  # [B, 2, 2]
  return split[:, 0], split[:, 1]


def _where(condition: jax.Array, new: Any, old: Any) -> Any:
  """Selects rows of two trees of [N, ...] by a condition, [N]."""
  select = lambda x, y: jnp.where(
    condition.reshape(condition.shape + (1,) * (x.ndim - 1)), x, y
  )
  return jax.tree.map(select, new, old)


def _without_weak_types(tree: Any) -> Any:
  """Gives every leaf a definite dtype.

  Otherwise programs would be compiled again for the second step, whose state
  has other types than that of a reset.
  """

  def convert(x: Any) -> jax.Array:
    x = jnp.asarray(x)
    is_key = jnp.issubdtype(x.dtype, jax.dtypes.extended)
    return x if is_key else jnp.asarray(x, x.dtype)

  return jax.tree.map(convert, tree)
