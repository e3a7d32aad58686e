"""Batches of stateful environments on the host."""

from collections.abc import Callable, Sequence
from typing import Any

import chex
import dm_env
import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import streams
from disco_rl.environments.wrappers import single_stream_env

UnusedEnvState = base.UnusedEnvState


class StreamBatch(base.Environment):
  """Steps B streams on the host sequentially.

  The streams store their state internally, so `states` is empty.
  """

  def __init__(self, streams: Sequence[Any]):
    """Initialises the batch.

    Args:
      streams: B streams with the methods of
        `single_stream_env.SingleStreamEnv`.
    """
    super().__init__(len(streams))
    self._streams = list(streams)

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the specs of one stream's observation."""
    return self._streams[0].single_observation_spec()

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of one stream's action."""
    return self._streams[0].single_action_spec()

  def reset(
    self, rng_key: chex.PRNGKey | None
  ) -> tuple[UnusedEnvState, types.EnvironmentTimestep]:
    """Starts a new episode in every stream; `rng_key` is not used."""
    timesteps = [stream.reset(rng_key)[1] for stream in self._streams]
    return UnusedEnvState(), _stack(timesteps)

  def step(
    self, state: Any, actions: types.Array
  ) -> tuple[UnusedEnvState, types.EnvironmentTimestep]:
    """Advances every stream by its action of `actions` [B]."""
    actions = base.check_actions(actions, self.batch_size)
    timesteps = [
      stream.step(state, action)[1]
      for stream, action in zip(self._streams, actions, strict=True)
    ]
    return UnusedEnvState(), _stack(timesteps)

  def render(self, states: Any, observation: Any) -> Any:
    """Draws the first stream, by its method `render_stream` if it has one."""
    render = getattr(self._streams[0], 'render_stream', None)
    drawn = None if render is None else render()
    return super().render(states, observation) if drawn is None else drawn

  def render_end(self, states: Any, actions: types.Array) -> Any:
    """Draws the end of the first stream's last episode, if it is known."""
    del states, actions
    render = getattr(self._streams[0], 'render_end_of_stream', None)
    return None if render is None else render()

  def snapshot(self) -> Any:
    """Returns one snapshot per stream; None if a stream has none."""
    snapshots = [stream.snapshot() for stream in self._streams]
    return None if any(s is None for s in snapshots) else snapshots

  def restore(self, snapshot: Any) -> UnusedEnvState:
    """Restores every stream from a snapshot."""
    for stream, part in zip(self._streams, snapshot, strict=True):
      stream.restore(part)
    return UnusedEnvState()

  def close(self) -> None:
    """Closes every stream."""
    for stream in self._streams:
      stream.close()


class BatchedSingleStreamEnvironment(StreamBatch):
  """A batch of dm_env environments of one class.

  `reset` cannot reseed them: the seeds come from the settings.
  """

  def __init__(
    self,
    env_class: Callable[..., dm_env.Environment],
    batch_size: int,
    env_settings: Any,
  ):
    """Builds the streams.

    Args:
      env_class: a class that takes the settings as one object, or each as a
        keyword argument; called once per stream.
      batch_size: B, the number of streams.
      env_settings: a mapping with a `random_seed`, from which a different
        `random_seed` is drawn for each stream.

    Raises:
      ValueError: if the batch is empty, or there is no `random_seed`.
    """
    base.check_batch_size(batch_size)
    if 'random_seed' not in env_settings:
      raise ValueError(
        'a batch of environments needs a random_seed in env_settings, got '
        f'{sorted(env_settings)}'
      )
    share = streams.own(batch_size)
    seeds = jax.random.randint(
      jax.random.PRNGKey(env_settings['random_seed']),
      (share.total,),
      0,
      np.iinfo(np.int32).max,
    )
    own_settings = [
      config_dict.ConfigDict({**env_settings, 'random_seed': int(seed)})
      for seed in share.select(seeds)
    ]
    super().__init__(
      [
        single_stream_env.SingleStreamEnv(base.from_settings(env_class, own))
        for own in own_settings
      ]
    )


def _stack(
  timesteps: list[types.EnvironmentTimestep],
) -> types.EnvironmentTimestep:
  """Stacks B timesteps into one with leaves [B, ...], on the host."""
  try:
    return jax.tree.map(lambda *xs: np.stack(xs), *timesteps)
  except ValueError:
    shapes = [jax.tree.map(np.shape, x.observation) for x in timesteps]
    other = next((i for i, x in enumerate(shapes) if x != shapes[0]), None)
    if other is None:
      raise
    raise foreign.InvalidEnvironmentError(
      f'the observations of stream {other} have the shapes {shapes[other]}, '
      f'but those of stream 0 {shapes[0]}; all must match the spec'
    ) from None
