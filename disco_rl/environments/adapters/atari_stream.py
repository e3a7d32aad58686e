"""One Atari game as a stream whose state can be saved.

It returns the same observations, rewards and ends of episodes as the emulator's
own batches (`atari_threads.py`) with the same seed. Those cannot be saved.
"""

from typing import Any

import ale_py
import chex
import dm_env
from ml_collections import config_dict
import numpy as np

from disco_rl import types
from disco_rl.environments import base
from disco_rl.environments.adapters import area_images

# The actions of the emulator, by number.
NUM_ACTIONS = 18
_NOOP, _FIRE = 0, 1
# In a game without a button (Skiing), which has nine actions: none and eight
# directions. Actions with the button do what they do without.
WITHOUT_BUTTON = np.asarray([0, 0, *range(1, 9), *range(1, 9)])
# Random numbers of the emulator's generator have 32 bits.
_RANGE = 2**32
_DRAWS_AT_ONCE = 512
# Saved states are padded to a multiple of this, in bytes.
_PAGE = 4096


class AtariStream:
  """One emulator, with the standard preprocessing."""

  def __init__(self, rom: Any, seed: int, settings: config_dict.ConfigDict):
    """Starts the emulator.

    Args:
      rom: path of the game's file.
      seed: seed of the whole stream.
      settings: see `atari_env.get_config`.
    """
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    self._settings = settings
    self._emulator: Any = ale_py.ALEInterface()
    self._emulator.setInt('random_seed', seed)
    # Actions are repeated here, since the emulator's own last action is not
    # part of its saved state.
    self._emulator.setFloat('repeat_action_probability', 0.0)
    self._emulator.loadROM(rom)
    actions = self._emulator.getMinimalActionSet()
    if settings.full_action_space:
      actions = self._emulator.getLegalActionSet()
    self._actions = [action.value for action in actions]
    if settings.full_action_space and len(self._actions) < NUM_ACTIONS:
      self._actions = [self._actions[i] for i in WITHOUT_BUTTON]
    self._presses_fire = settings.fire_on_reset and _FIRE in self._actions
    self._sticky = float(np.float32(settings.sticky_actions))
    self._noop_draws = _Draws(seed)
    self._sticky_draws = _Draws(seed)
    height, width = self._emulator.getScreenDims()
    self._screens = np.zeros((2, height, width), np.uint8)
    size = settings.size
    self._resize = area_images.Resizer((height, width), (size, size))
    self._frames = np.zeros((size, size, settings.frame_stack), np.uint8)
    self._held = _NOOP  # The action that is repeated.
    self._num_frames = 0  # Since the episode began.
    self._lives = 0

  def single_observation_spec(self) -> types.SpecsTree:
    """Returns the spec of an image, uint8 [size, size, frames], newest last."""
    return types.ArraySpec(self._frames.shape, np.dtype(np.uint8))

  def single_action_spec(self) -> types.ActionSpec:
    """Returns the spec of actions 0..n-1."""
    return types.ActionSpec((), np.int32, 0, len(self._actions) - 1, 'action')

  def reset(
    self, rng_key: chex.PRNGKey | None = None
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Starts an episode; `rng_key` is not used."""
    del rng_key
    self._start_episode()
    return self._timestep(dm_env.StepType.FIRST, 0)

  def step(
    self, state: Any, action: Any
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    """Takes an action, and starts the next episode if this one ends."""
    del state
    settings, emulator = self._settings, self._emulator
    own_action, reward = self._actions[action], 0
    for frames_left in range(settings.frame_skip, 0, -1):
      reward += self._act(own_action)
      self._num_frames += 1
      is_over = emulator.game_over()
      is_life_lost = 0 < emulator.lives() < self._lives
      is_over_time = self._num_frames >= settings.max_frames
      if is_over or is_over_time:
        break
      if frames_left <= 2:  # The observation is the maximum of both.
        emulator.getScreenGrayscale(self._screens[frames_left - 1])
    self._lives = emulator.lives()
    ends_life = settings.life_is_episode and is_life_lost
    if is_over or is_over_time:
      self._start_episode()
    else:
      self._add_frame()
    if settings.clip_rewards:
      reward = min(max(reward, -1), 1)
    is_last = is_over or is_over_time or ends_life
    step_type = dm_env.StepType.LAST if is_last else dm_env.StepType.MID
    return self._timestep(step_type, reward)

  def snapshot(self) -> dict[str, Any]:
    """Returns the state of the emulator, the random numbers and the frames."""
    # Without the emulator's random numbers, which are not used: their saved
    # form differs in length.
    system = self._emulator.cloneState(include_rng=False).serialize()
    padded = np.zeros(-(-(len(system) + 1) // _PAGE) * _PAGE, np.uint8)
    padded[: len(system)] = np.frombuffer(system, np.uint8)
    numbers = [len(system), self._held, self._num_frames, self._lives]
    return dict(
      system=padded,
      numbers=np.asarray(numbers, np.int64),
      frames=self._frames.copy(),
      noop_draws=self._noop_draws.snapshot(),
      sticky_draws=self._sticky_draws.snapshot(),
    )

  def restore(self, snapshot: dict[str, Any]) -> None:
    """Restores a snapshot."""
    length, *numbers = (int(x) for x in snapshot['numbers'])
    self._held, self._num_frames, self._lives = numbers
    system = np.asarray(snapshot['system'], np.uint8)[:length].tobytes()
    # The switches of the console are not part of the state, and a new emulator
    # still presses `reset`, which games such as Qbert read. Acting releases it.
    self._emulator.reset_game()
    self._emulator.act(_NOOP)
    self._emulator.restoreState(ale_py.ALEState(system))
    self._frames = np.array(snapshot['frames'], np.uint8)
    self._noop_draws.restore(snapshot['noop_draws'])
    self._sticky_draws.restore(snapshot['sticky_draws'])

  def close(self) -> None:
    """Frees the emulator."""
    self._emulator = None

  def _act(self, action: int) -> int:
    """Plays one frame; returns its reward."""
    if self._sticky:
      draw = self._sticky_draws.next()
      self._sticky_draws.next()  # That of the second player.
      action = action if draw / _RANGE >= self._sticky else self._held
      self._held = action
    return self._emulator.act(action)

  def _start_episode(self) -> None:
    emulator = self._emulator
    self._restart_game()
    num_noops = self._noop_draws.below(max(self._settings.max_noops, 1))
    if self._presses_fire:
      self._act(_FIRE)
      num_noops -= 1
    for _ in range(num_noops):
      self._act(_NOOP)
      if emulator.game_over():
        self._restart_game()
    emulator.getScreenGrayscale(self._screens[0])
    self._screens[1] = 0
    self._frames = np.zeros_like(self._frames)
    self._add_frame()
    self._num_frames = 0
    self._lives = emulator.lives()

  def _restart_game(self) -> None:
    self._emulator.reset_game()
    self._held = _NOOP

  def _add_frame(self) -> None:
    """Appends the maximum of both screens to the stacked frames."""
    first, second = self._screens
    np.maximum(first, second, out=first)
    frames = np.empty_like(self._frames)
    frames[..., :-1] = self._frames[..., 1:]
    frames[..., -1] = self._resize(self._screens[0])
    self._frames = frames

  def _timestep(
    self, step_type: dm_env.StepType, reward: int
  ) -> tuple[base.UnusedEnvState, types.EnvironmentTimestep]:
    return base.UnusedEnvState(), types.EnvironmentTimestep(
      observation=self._frames,
      step_type=np.asarray(step_type, np.int32),
      reward=np.asarray(reward, np.float32),
    )


class _Draws:
  """Random numbers of 32 bits from a Mersenne twister, as the emulator's."""

  def __init__(self, seed: int):
    self._generator = np.random.RandomState(seed)._bit_generator
    self._draw_more()

  def next(self) -> int:
    """Draws an integer below 2**32."""
    if self._place == _DRAWS_AT_ONCE:
      self._draw_more()
    self._place += 1
    return self._numbers[self._place - 1]

  def below(self, limit: int) -> int:
    """Draws an integer below `limit` without bias.

    By Lemire's method (https://arxiv.org/abs/1805.10941), as the C++ library of
    the emulator.

    Args:
      limit: an exclusive bound, at least 1.
    """
    while True:
      quotient, rest = divmod(self.next() * limit, _RANGE)
      if rest >= (_RANGE - limit) % limit:
        return quotient

  def snapshot(self) -> dict[str, np.ndarray]:
    """Returns the state of the generator, and the place in its numbers."""
    state = self._before['state']
    numbers = [state['pos'], self._place]
    return dict(
      key=np.array(state['key'], np.uint32),
      numbers=np.asarray(numbers, np.int64),
    )

  def restore(self, snapshot: dict[str, Any]) -> None:
    """Restores a snapshot."""
    position, place = (int(x) for x in snapshot['numbers'])
    key = np.asarray(snapshot['key'], np.uint32)
    state: Any = dict(
      bit_generator='MT19937', state=dict(key=key, pos=position)
    )
    self._generator.state = state
    self._draw_more()
    self._place = place

  def _draw_more(self) -> None:
    self._before: Any = self._generator.state
    self._numbers = self._generator.random_raw(_DRAWS_AT_ONCE).tolist()
    self._place = 0
