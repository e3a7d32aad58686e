"""Loads the folder of a run of `disco-rl eval`.

```python
run = disco_rl.load_run('runs/catch-disco_103')
print(run.rows[-1]['average_return'], run.settings.agent.learning_rate)
print(run.play().total_return)
run.play(render=True).save('episode.gif')
```
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import os
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl.config import arguments
from disco_rl.config import checks
from disco_rl.environments import registry
from disco_rl.environments import showing
from disco_rl.evaluation import plan as plan_lib
from disco_rl.evaluation import player
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from disco_rl.runs import states


@dataclasses.dataclass(frozen=True)
class SavedRun:
  """A run of `disco-rl eval`, loaded from its folder.

  Attributes:
    agent: the agent, the same for all seeds.
    params: seed to parameters θ, the final ones or, for an unfinished run,
      those of the last checkpoint.
    settings: all settings of the run.
    rows: the table of metrics.
    rule: the rule; its `eta` is None if it has no parameters.
    env_fn: makes the run's environment from a batch size and a seed.
    drawable_env_fn: makes it in such a way that it can be drawn; None if
      `env_fn` does.
  """

  agent: agent_lib.Agent
  params: dict[int, types.AgentParams]
  settings: config_dict.ConfigDict
  rows: list[metrics.Row]
  rule: rule_lib.Rule
  env_fn: registry.EnvironmentFn
  drawable_env_fn: registry.EnvironmentFn | None = None

  def play(
    self,
    seed: int | None = None,
    *,
    episode_seed: int = 0,
    greedy: bool = False,
    max_steps: int = 100_000,
    render: bool = False,
  ) -> player.Episode:
    """Plays one episode with a trained agent.

    Args:
      seed: seed of the agent; the smallest by default.
      episode_seed: seed of the environment and of the sampled actions.
      greedy: whether to take the most likely action instead of sampling.
      max_steps: number of steps after which the episode is cut off.
      render: whether the episode has frames, which `Episode.save` writes.

    Returns:
      The episode.

    Raises:
      ValueError: if the run has no such seed, an argument is not valid, or the
        environment cannot be drawn.
    """
    arguments.check_flag('render', render)
    frames: list[np.ndarray] = []
    episode = self.play_to(
      frames.append if render else None,
      seed,
      episode_seed=episode_seed,
      greedy=greedy,
      max_steps=max_steps,
    )
    return dataclasses.replace(episode, frames=tuple(frames))

  def play_to(
    self,
    on_frame: Callable[[np.ndarray], None] | None,
    seed: int | None = None,
    *,
    episode_seed: int = 0,
    greedy: bool = False,
    max_steps: int = 100_000,
  ) -> player.Episode:
    """Plays one episode, and passes on every picture at once.

    Args:
      on_frame: called with every picture, uint8 [H, W, 3]; None for none.
      seed: see `play`, as all others.
      episode_seed: see `play`.
      greedy: see `play`.
      max_steps: see `play`.

    Returns:
      The episode, without frames.
    """
    seed = min(self.params) if seed is None else seed
    seed = fields.check(fields.SEED, 'seed', seed)
    episode_seed = fields.check(fields.SEED, 'episode_seed', episode_seed)
    max_steps = schema.check_as('max_steps', 'steps', max_steps)
    arguments.check_flag('greedy', greedy)
    if seed not in self.params:
      raise ValueError(
        f'the run has the seeds {sorted(self.params)}, not {seed}'
      )
    a_player = self._player if on_frame is None else self._drawing_player
    return a_player.play(
      self.params[seed],
      agent_seed=seed,
      episode_seed=episode_seed,
      greedy=greedy,
      max_steps=max_steps,
      on_frame=on_frame,
    )

  @functools.cached_property
  def _player(self) -> player.Player:
    return player.Player(self.agent, self.env_fn)

  @functools.cached_property
  def _drawing_player(self) -> player.Player:
    return player.Player(self.agent, self.drawable_env_fn or self.env_fn)


def load_run(path: str | os.PathLike[str]) -> SavedRun:
  """Loads a run of `disco-rl eval`.

  Args:
    path: path of its folder. The run may be unfinished; nothing is written.

  Returns:
    Its agent, parameters, settings and rows.

  Raises:
    RunFolderError: if it is the folder of another command, or has no parameters
      yet.
  """
  fields.check_path('the folder of a run', path)
  folder = run_folder.RunFolder.view(path)
  command = folder.config.get('command')
  if command != plan_lib.Plan.command:
    raise run_folder.RunFolderError(
      f'{folder.path} is a run of disco-rl {command}, which has no trained '
      f'agent; its rule is disco_rl.load_rule({str(folder.path)!r})'
    )
  plan = plan_lib.plan_of_folder(folder)
  return _saved_run(
    plan,
    metrics.read_csv(folder.metrics_path),
    lambda an_agent: _load_params(folder, an_agent, plan.settings.seeds),
  )


def load_agent(
  request: Mapping[str, Any], params: str | os.PathLike[str]
) -> SavedRun:
  """Loads an agent from a file of parameters, without the folder of its run.

  Args:
    request: what the agent was trained with: its `rule`, its `env` and, if they
      are not the default, network and settings; see `resolve.EVALUATION`.
    params: path of `params_SEED.npz`.

  Returns:
    A run with the agent, its parameters, and no rows.

  Raises:
    ValueError: if the request is not valid.
    UnreadableFileError: if the file does not have such parameters.
  """
  fields.check_path('the file of parameters', params)
  plan = plan_lib.Plan(request)
  seed = plan.settings.seeds[0]
  return _saved_run(
    plan, [], lambda an_agent: {seed: checkpoint.load(params, _like(an_agent))}
  )


def _saved_run(
  plan: plan_lib.Plan,
  rows: list[metrics.Row],
  load: Callable[[agent_lib.Agent], dict[int, types.AgentParams]],
) -> SavedRun:
  """Makes a run from its plan, rows, and a function that loads parameters."""
  settings, env_name = plan.settings, plan.request['env']
  env_settings = dict(settings.env)
  if checks.has_workers(env_name):
    env_settings['num_workers'] = 0  # For the one stream of an episode.
  env_fn = registry.environment_fn(env_name, **env_settings)
  drawable = showing.drawable_settings(env_name, env_settings)
  drawable_env_fn = None
  if drawable != env_settings:
    drawable_env_fn = registry.environment_fn(env_name, **drawable)
  env = env_fn(1, 0)
  try:
    an_agent = agent_lib.Agent.for_environment(env, settings.agent)
  finally:
    env.close()
  return SavedRun(
    agent=an_agent,
    params=load(an_agent),
    settings=settings.lock(),
    rows=rows,
    rule=plan.rule,
    env_fn=env_fn,
    drawable_env_fn=drawable_env_fn,
  )


def _like(an_agent: agent_lib.Agent) -> types.AgentParams:
  """Returns the shapes of an agent's parameters."""
  return jax.eval_shape(
    lambda: an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  )


def _load_params(
  folder: run_folder.RunFolder,
  an_agent: agent_lib.Agent,
  seeds: Sequence[int],
) -> dict[int, types.AgentParams]:
  """Loads the parameters of every seed, from their files or the checkpoint."""
  like = _like(an_agent)
  finals = {seed: folder.params_path(seed) for seed in seeds}
  if all(path.exists() for path in finals.values()):
    return {seed: checkpoint.load(path, like) for seed, path in finals.items()}
  found = states.find(folder.state_path)
  if found is not None and found.is_dir():
    raise run_folder.RunFolderError(
      f'{folder.path} is unfinished, and its checkpoint is one of several '
      'processes: resume it first'
    )
  if found is None:
    raise run_folder.RunFolderError(
      f'{folder.path} holds neither final parameters nor a checkpoint yet'
    )
  stacked = jax.tree.map(
    lambda x: types.ArraySpec((len(seeds), *x.shape), x.dtype), like
  )
  params = checkpoint.load(found, stacked, part='learner/params')
  return {
    seed: jax.tree.map(lambda x, k=k: x[k], params)
    for k, seed in enumerate(seeds)
  }
