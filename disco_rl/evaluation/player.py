"""Plays episodes with a trained agent.

```python
player = Player(an_agent, env_fn)
episode = player.play(params, agent_seed=0, episode_seed=3)
player.close()
```
"""

from collections.abc import Callable, Sequence
import dataclasses
import os
from typing import Any

import jax
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments import foreign
from disco_rl.environments import registry
from disco_rl.environments import rendering
from disco_rl.environments import showing
from disco_rl.evaluation import agent_loop
from disco_rl.runs import videos


@dataclasses.dataclass(frozen=True)
class Episode:
  """One episode of T steps, on the host.

  Attributes:
    observations: tree of [T, ...], before each action.
    actions: [T].
    rewards: [T], received after each action.
    is_complete: whether the episode ended, and was not cut off.
    frames: pictures of uint8, [H, W, 3], if they were asked for: before the
      first action and after every action. The last one is missing if the
      environment does not show how an episode ended.
  """

  observations: Any
  actions: np.ndarray
  rewards: np.ndarray
  is_complete: bool = True
  frames: Sequence[np.ndarray] = ()

  @property
  def total_return(self) -> float:
    """The sum of all rewards."""
    return float(self.rewards.sum())

  def save(
    self,
    path: str | os.PathLike[str],
    *,
    frames_per_second: float | None = None,
  ) -> None:
    """Writes the frames as an animation.

    Args:
      path: path of a file that ends in `.gif` or, with the extra `video`,
        `.mp4`.
      frames_per_second: speed; by default one that suits the environment.

    Raises:
      ValueError: if the file cannot be of this kind, or there are no frames.
    """
    if not self.frames:
      raise ValueError('the episode has no frames: play it with render=True')
    videos.save(path, [self.frames], frames_per_second)


class NotDrawableError(ValueError):
  """Raised if the pictures of an environment are needed, and it has none."""


class Player:
  """Plays an agent in an environment; compiles its functions once."""

  def __init__(self, agent: agent_lib.Agent, env_fn: registry.EnvironmentFn):
    """Initialises the player.

    Args:
      agent: the agent.
      env_fn: makes its environment from a batch size and a seed.
    """
    self._agent = agent
    self._env_fn = env_fn
    self._act = jax.jit(agent.actor_step)
    # An environment in JAX serves all episodes, with its compiled step.
    self._env: base.Environment | None = None
    self._step: Callable[..., Any] | None = None

  def play(
    self,
    params: types.AgentParams,
    *,
    agent_seed: int = 0,
    episode_seed: int = 0,
    greedy: bool = False,
    max_steps: int = 100_000,
    on_frame: Callable[[np.ndarray], None] | None = None,
  ) -> Episode:
    """Plays one episode.

    Args:
      params: parameters of the agent.
      agent_seed: seed with which it was trained, which decides its task.
      episode_seed: seed of the environment and of the sampled actions.
      greedy: whether to take the most likely action instead of sampling.
      max_steps: number of steps after which the episode is cut off.
      on_frame: called with every picture of the environment.

    Returns:
      The episode, without frames.

    Raises:
      NotDrawableError: if there is `on_frame`, but no picture.
    """
    env, step_env = self._environment(episode_seed)
    draw = _drawer(env, on_frame)
    try:
      env_rng, net_rng, rng = jax.random.split(
        jax.random.PRNGKey(episode_seed), 3
      )
      task_rng = agent_loop.task_rng(jax.random.PRNGKey(agent_seed))
      states, timestep = env.reset_shard(task_rng, env_rng)
      net_state = self._agent.initial_actor_state(net_rng)
      draw(env.render, states, timestep.observation, is_needed=True)
      steps: list[Any] = []
      is_last = False
      while not is_last and len(steps) < max_steps:
        rng, step_rng = jax.random.split(rng)
        acted, net_state = self._act(params, step_rng, timestep, net_state)
        actions = np.asarray(
          acted.logits.argmax(axis=-1) if greedy else acted.actions
        )
        observation, before = timestep.observation, states
        states, timestep = step_env(states, actions)
        is_last = bool(timestep.is_last[0])
        steps.append((observation, actions, timestep.reward))
        if is_last:
          draw(env.render_end, before, actions)
        else:
          draw(env.render, states, timestep.observation)
    finally:
      if not env.is_jittable:
        env.close()
    observations, taken, rewards = jax.tree.map(
      lambda *xs: np.stack([np.asarray(x)[0] for x in xs]), *steps
    )
    return Episode(observations, taken, rewards, is_complete=is_last)

  def close(self) -> None:
    """Closes the environment."""
    if self._env is not None:
      self._env.close()
      self._env = self._step = None

  def _environment(self, seed: int) -> tuple[base.Environment, Any]:
    """Returns an environment of one stream, and its function `step`."""
    if self._env is not None:
      return self._env, self._step
    env = self._env_fn(1, seed)
    if not env.is_jittable:  # It has a seed of its own for every episode.
      return env, env.step
    self._env, self._step = env, jax.jit(env.step)
    return env, self._step


def _drawer(
  env: base.Environment, on_frame: Callable[[np.ndarray], None] | None
) -> Callable[..., None]:
  """Returns a function that draws with a method of `env`, if there is a use."""

  def draw(method: Any, *args: Any, is_needed: bool = False) -> None:
    if on_frame is None:
      return
    try:
      picture = method(*args)
    except foreign.ForeignCodeError as error:
      raise NotDrawableError(str(error)) from error
    if picture is not None:
      on_frame(rendering.reduce(np.asarray(picture)))
    elif is_needed:
      name = getattr(env, 'name', type(env).__name__)
      raise NotDrawableError(
        f'{name} cannot be drawn; the environments that can are '
        f'{showing.DRAWABLE}'
      )

  return draw
