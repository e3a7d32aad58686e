"""Loads the folder of a run of `disco-rl eval`.

```python
run = disco_rl.load_run('runs/catch-disco_103')
print(run.rows[-1]['average_return'], run.settings.agent.learning_rate)
print(run.play().total_return)
```
"""

from collections.abc import Callable, Sequence
import dataclasses
import os
from typing import Any, NamedTuple

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl.config import arguments
from disco_rl.config import checks
from disco_rl.environments import base
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import plan as plan_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import metrics
from disco_rl.runs import run_folder
from disco_rl.runs import states


class Episode(NamedTuple):
  """One episode of T steps, on the host."""

  observations: Any  # Tree of [T, ...], before each action.
  actions: np.ndarray  # [T]
  rewards: np.ndarray  # [T], received after each action.

  @property
  def total_return(self) -> float:
    """The sum of all rewards."""
    return float(self.rewards.sum())


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
    env_name: its name.
  """

  agent: agent_lib.Agent
  params: dict[int, types.AgentParams]
  settings: config_dict.ConfigDict
  rows: list[metrics.Row]
  rule: rule_lib.Rule
  env_fn: registry.EnvironmentFn
  env_name: str = ''

  def play(
    self,
    seed: int | None = None,
    *,
    episode_seed: int = 0,
    greedy: bool = False,
    max_steps: int = 100_000,
  ) -> Episode:
    """Plays one episode with a trained agent.

    Args:
      seed: seed of the agent; the smallest by default.
      episode_seed: seed of the environment and of the sampled actions.
      greedy: whether to take the most likely action instead of sampling.
      max_steps: number of steps after which the episode is cut off.

    Returns:
      The episode.

    Raises:
      ValueError: if the run has no such seed, or an argument is not valid.
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
    env = self.env_fn(1, episode_seed)
    try:
      return _play(
        self.agent,
        self.params[seed],
        env,
        agent_loop.task_rng(jax.random.PRNGKey(seed)),
        episode_seed,
        greedy,
        max_steps,
      )
    finally:
      env.close()


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
  settings, env_name = plan.settings, plan.request['env']
  env_settings = dict(settings.env)
  if checks.has_workers(env_name):
    env_settings['num_workers'] = 0  # For the one stream of an episode.
  env_fn = registry.environment_fn(env_name, **env_settings)
  env = env_fn(1, 0)
  try:
    an_agent = agent_lib.Agent.for_environment(env, settings.agent)
  finally:
    env.close()
  return SavedRun(
    agent=an_agent,
    params=_load_params(folder, an_agent, settings.seeds),
    settings=settings.lock(),
    rows=metrics.read_csv(folder.metrics_path),
    rule=plan.rule,
    env_fn=env_fn,
    env_name=env_name,
  )


def load_learner(
  path: str | os.PathLike[str], run: SavedRun, seed: int
) -> agent_lib.LearnerState:
  """Loads the learner of one agent, with the rule's state, from a checkpoint.

  Args:
    path: path of the run's folder.
    run: the run, from `load_run`.
    seed: seed of the agent, one of `run.params`.

  Returns:
    The learner of the last checkpoint.

  Raises:
    RunFolderError: if the folder has no checkpoint of one process.
  """
  folder = run_folder.RunFolder.view(path)
  found = states.find(folder.state_path)
  if found is None or found.is_dir():
    raise run_folder.RunFolderError(
      f'{folder.path} holds no checkpoint of one process '
      f"({folder.state_path.name}), which has the state of the agent's rule"
    )
  like = jax.eval_shape(
    lambda: run.agent.initial_learner_state(jax.random.PRNGKey(0))
  )
  seeds = list(run.settings.seeds)
  learners = checkpoint.load(found, _stacked(like, len(seeds)), part='learner')
  k = seeds.index(seed)
  return jax.tree.map(lambda x: x[k], learners)


def _stacked(like: Any, number: int) -> Any:
  """Adds an axis of seeds to specs."""
  return jax.tree.map(
    lambda x: types.ArraySpec((number, *x.shape), x.dtype), like
  )


def _load_params(
  folder: run_folder.RunFolder,
  an_agent: agent_lib.Agent,
  seeds: Sequence[int],
) -> dict[int, types.AgentParams]:
  """Loads the parameters of every seed, from their files or the checkpoint."""
  like = jax.eval_shape(
    lambda: an_agent.initial_learner_state(jax.random.PRNGKey(0)).params
  )
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
  params = checkpoint.load(
    found, _stacked(like, len(seeds)), part='learner/params'
  )
  return {
    seed: jax.tree.map(lambda x, k=k: x[k], params)
    for k, seed in enumerate(seeds)
  }


def _play(
  agent: agent_lib.Agent,
  params: types.AgentParams,
  env: base.Environment,
  task_rng: jax.Array,
  seed: int,
  greedy: bool,
  max_steps: int,
) -> Episode:
  env_rng, net_rng, rng = jax.random.split(jax.random.PRNGKey(seed), 3)
  step_env: Callable[..., Any] = env.step
  if env.is_jittable:
    step_env = jax.jit(step_env)
  step_agent = jax.jit(agent.actor_step)
  env_state, timestep = env.reset_shard(task_rng, env_rng)
  net_state = agent.initial_actor_state(net_rng)
  steps: list[Any] = []
  is_last = False
  while not is_last and len(steps) < max_steps:
    rng, step_rng = jax.random.split(rng)
    acted, net_state = step_agent(params, step_rng, timestep, net_state)
    actions = np.asarray(
      acted.logits.argmax(axis=-1) if greedy else acted.actions
    )
    observation = timestep.observation
    env_state, timestep = step_env(env_state, actions)
    is_last = timestep.is_last[0]
    steps.append((observation, actions, timestep.reward))
  observations, taken, rewards = jax.tree.map(
    lambda *xs: np.stack([np.asarray(x)[0] for x in xs]), *steps
  )
  return Episode(observations, taken, rewards)
