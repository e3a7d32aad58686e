"""Plays episodes with a trained agent, and shows them.

  disco-rl play runs/catch-disco_103 --out catch.gif
  disco-rl play runs/catch-disco_103 --live --greedy
  disco-rl play --rule disco_103 --env catch --params runs/old/params_0.npz

The run is one of `disco-rl eval`, finished or not. Animations show environments
whose observation is a board or an image, and those of Gymnasium that can draw
themselves (render_mode="rgb_array").
"""

import argparse
import os
import pathlib
import sys
from typing import Any

import numpy as np

from disco_rl import fields
from disco_rl.cli import errors
from disco_rl.cli import live
from disco_rl.cli import options
from disco_rl.cli import tables
from disco_rl.evaluation import player
from disco_rl.evaluation import saved_run
from disco_rl.runs import console
from disco_rl.runs import videos

# Frames that are kept in memory for a file.
_MAX_FRAMES = 2000
_MAX_EPISODES = 10_000
# Options that describe an agent, if its run is not given.
_OF_AGENT = ('rule', 'env', 'params', 'net', 'core', 'set', 'use')


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the command's options."""
  add = parser.add_argument
  add('run', nargs='?', metavar='RUN', help='folder of a run of disco-rl eval')
  add('--rule', help='without RUN: the rule that the agent was trained with')
  add('--env', help='without RUN: the environment')
  add(
    '--params',
    metavar='FILE',
    help='without RUN: parameters of the agent, params_SEED.npz of a run',
  )
  add('--net', help='without RUN: the network, if it was given in training')
  add('--core', help='without RUN: its memory, if it was given in training')
  add(
    '--set',
    action='append',
    metavar='NAME=VALUE',
    help='without RUN: a setting that was changed in training, such as '
    'env.rows=5. May be repeated',
  )
  add(
    '--use',
    action='append',
    metavar='MODULE',
    help='without RUN: module to import first. May be repeated',
  )
  add(
    '--agent',
    type=options.whole_number,
    metavar='SEED',
    help='which agent of the run plays, by its seed (default: the smallest)',
  )
  add(
    '--episodes',
    type=options.whole_number,
    default=5,
    help='number of episodes (default: 5)',
  )
  add(
    '--seed',
    type=options.whole_number,
    default=0,
    help='seed of the first episode; the next ones have SEED+1, ... (default: '
    '0)',
  )
  add(
    '--greedy',
    action='store_true',
    help='take the most likely action instead of sampling',
  )
  add(
    '--max-steps',
    type=options.whole_number,
    default=10_000,
    help='steps after which an episode is cut off (default: 10000)',
  )
  add('--out', metavar='FILE', help='animation to write, .gif or .mp4')
  add('--overwrite', action='store_true', help='replace --out if it exists')
  add(
    '--fps',
    type=options.positive_number,
    help='frames per second (default: 5 for boards, 25 for images)',
  )
  add(
    '--live',
    action='store_true',
    help='draw small boards in the terminal; in a file or pipe, one after '
    'another',
  )


def run(arguments: argparse.Namespace) -> int:
  """Runs the command; returns the exit code."""
  # Simulators that draw with SDL need neither a screen nor sound.
  for name in ('SDL_VIDEODRIVER', 'SDL_AUDIODRIVER'):
    os.environ.setdefault(name, 'dummy')
  with errors.as_usage_errors():
    _check(arguments)
    a_run = _load(arguments)
    episodes, frames, num_left = _play(a_run, arguments)
    if arguments.out:
      videos.save(arguments.out, frames, arguments.fps)
  print(_table(episodes, arguments.seed))
  cut = sum(not episode.is_complete for episode in episodes)
  if cut:
    print(f'{cut} cut off after {arguments.max_steps} steps (--max-steps)')
  if arguments.out:
    print(f'animation: {arguments.out}')
  if num_left:
    print(
      f'it has the first {_MAX_FRAMES} frames; {num_left} more are left out'
    )
  return 0


def _check(arguments: argparse.Namespace) -> None:
  """Raises a `ValueError` for options that do not go together."""
  given = [
    f'--{name}' for name in _OF_AGENT if getattr(arguments, name) is not None
  ]
  if arguments.run and given:
    raise errors.UsageError(
      f'{given[0]} is for agents without a run: leave it or {arguments.run} out'
    )
  if not arguments.run:
    missing = [f'--{x}' for x in _OF_AGENT[:3] if f'--{x}' not in given]
    if missing:
      raise errors.UsageError(
        'give the folder of a run, or --rule, --env and --params '
        f'({" and ".join(missing)} {"is" if len(missing) == 1 else "are"} '
        'missing)'
      )
  fields.check(
    fields.Field(int, low=1, high=_MAX_EPISODES),
    '--episodes',
    arguments.episodes,
  )
  fields.check(
    fields.Field(int, low=0, high=fields.MAX_SEED - arguments.episodes),
    '--seed',
    arguments.seed,
  )
  if arguments.fps and not (arguments.out or arguments.live):
    raise errors.UsageError('--fps needs --out or --live')
  if arguments.out:
    videos.check_path(arguments.out)
    if pathlib.Path(arguments.out).exists() and not arguments.overwrite:
      raise errors.UsageError(
        f'{arguments.out} exists already: replace it with --overwrite'
      )


def _load(arguments: argparse.Namespace) -> saved_run.SavedRun:
  if arguments.run:
    return saved_run.load_run(arguments.run)
  if not pathlib.Path(arguments.params).is_file():
    raise errors.UsageError(f'there is no file {arguments.params}')
  request = {name: getattr(arguments, name) for name in _OF_AGENT}
  del request['params']
  return saved_run.load_agent(
    {name: value for name, value in request.items() if value is not None},
    arguments.params,
  )


def _play(
  a_run: saved_run.SavedRun, arguments: argparse.Namespace
) -> tuple[list[player.Episode], list[list[np.ndarray]], int]:
  """Plays the episodes.

  Args:
    a_run: the agent.
    arguments: the command's arguments.

  Returns:
    The episodes, the frames that are kept of each, and how many frames are left
    out.
  """
  screen = live.Screen(sys.stdout, arguments.fps) if arguments.live else None
  episodes: list[player.Episode] = []
  frames: list[list[np.ndarray]] = []
  num_frames = 0

  def on_frame(frame: np.ndarray) -> None:
    nonlocal num_frames
    num_frames += 1
    if arguments.out and num_frames <= _MAX_FRAMES:
      frames[-1].append(frame)
    if screen is not None:
      screen.show(frame)

  for i in range(arguments.episodes):
    frames.append([])
    if screen is not None:
      screen.start()
    options_of_play: dict[str, Any] = dict(
      episode_seed=arguments.seed + i,
      greedy=arguments.greedy,
      max_steps=arguments.max_steps,
    )
    has_frames = arguments.live or arguments.out
    episode = a_run.play_to(
      on_frame if has_frames else None, arguments.agent, **options_of_play
    )
    episodes.append(episode)
    if screen is not None:
      console.say(f'return {episode.total_return:g}')
  num_left = max(num_frames - _MAX_FRAMES, 0) if arguments.out else 0
  return episodes, [own for own in frames if own], num_left


def _table(episodes: list[player.Episode], seed: int) -> str:
  """Returns a table of returns, and their mean."""
  lines = [
    (str(seed + i), str(len(episode.actions)), f'{episode.total_return:g}')
    for i, episode in enumerate(episodes)
  ]
  table = tables.format_table(('episode', 'steps', 'return'), lines)
  mean = np.mean([episode.total_return for episode in episodes])
  return f'{table}\nmean return: {mean:.3f}'
