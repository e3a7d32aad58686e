"""Opens what is inspected: a trained agent, its rule, and its environment."""

from collections.abc import Mapping
import dataclasses
import os
from typing import Any

import jax
from ml_collections import config_dict
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.evaluation import agent_loop
from disco_rl.evaluation import plan as plan_lib
from disco_rl.evaluation import saved_learner
from disco_rl.evaluation import saved_run
from disco_rl.evaluation import training
from disco_rl.inspection import life as life_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import loop

# Snapshots of an agent's life.
_NUM_SNAPSHOTS = 12


@dataclasses.dataclass(frozen=True)
class Subject:
  """An agent that learned with a rule.

  Attributes:
    rule: the rule that is inspected.
    env_name: name of the environment.
    agent: the agent.
    eta: the rule's parameters η, empty for a rule without parameters.
    learner: the learner when its training ended.
    env_fn: makes the environment from a batch size and a seed.
    seed: seed of the agent.
    settings: all settings of its run.
    life: snapshots of its training, or None.
    age: iterations that the learner has learned for; None for all.
  """

  rule: rule_lib.Rule
  env_name: str
  agent: agent_lib.Agent
  eta: types.MetaParams
  learner: agent_lib.LearnerState
  env_fn: registry.EnvironmentFn
  seed: int
  settings: config_dict.ConfigDict
  life: life_lib.Life | None = None
  age: int | None = None

  @property
  def num_steps(self) -> int:
    """T+1, the steps of a trajectory that the agent learned from."""
    return int(self.settings.batching.rollout_length)

  def at(self, iteration: int) -> 'Subject':
    """Returns the agent as it was earlier in its life.

    Args:
      iteration: its age; the snapshot nearest to it is taken.

    Raises:
      ValueError: if there is no record of its life.
    """
    if self.life is None:
      raise ValueError(
        'the run has no record of its life, which disco-rl inspect writes when '
        'it trains the agent itself (--env)'
      )
    i = int(np.argmin(np.abs(self.life.iterations - iteration)))
    return dataclasses.replace(
      self, learner=self.life.learner(i), age=int(self.life.iterations[i])
    )

  @property
  def task_rng(self) -> jax.Array:
    """The key that the agent's task was drawn with."""
    return agent_loop.task_rng(jax.random.PRNGKey(self.seed))


def of_run(
  path: str | os.PathLike[str],
  rule: rule_lib.Rule | str | None = None,
  env: str | None = None,
  seed: int | None = None,
) -> Subject:
  """Opens an agent of a run of `disco-rl eval`.

  Args:
    path: path of the run's folder.
    rule: another rule to inspect on the agent's experience, with outputs of the
      same sizes; None for the one that the agent learned with.
    env: name of another environment with the same observations and actions;
      None for that of the run.
    seed: seed of the agent; None for the smallest.

  Returns:
    The agent, with its rule.

  Raises:
    ValueError: if the run has no parameters, no such seed, or if the rule or
      the environment do not fit.
  """
  run = saved_run.load_run(path)
  if isinstance(rule, str):
    rule = rule_lib.load_rule(rule)
  seed = min(run.params) if seed is None else seed
  if seed not in run.params:
    raise ValueError(f'the run has the seeds {sorted(run.params)}, not {seed}')
  saved = saved_learner.load_learner(path, run, seed)
  env_fn, env_name = run.env_fn, saved.env_name
  if env is not None and env != env_name:
    env_fn, env_name = registry.environment_fn(env), env
    check_environment(run.agent, env_fn, env)
  subject_rule = rule or run.rule
  eta = check_rule(run.agent, subject_rule)
  return Subject(
    rule=subject_rule,
    env_name=env_name,
    agent=run.agent,
    eta=eta,
    learner=saved.learner,
    env_fn=env_fn,
    seed=seed,
    settings=run.settings,
    life=life_lib.load(path, run.agent) if seed == min(run.params) else None,
  )


def train(
  env: str,
  rule: rule_lib.Rule | str,
  *,
  num_iterations: int = 1000,
  seed: int = 0,
  settings: Mapping[str, Any] | None = None,
  request: Mapping[str, Any] | None = None,
  out: str | os.PathLike[str] | None = None,
  overwrite: bool = False,
  show_progress: bool = False,
) -> Subject | None:
  """Trains an agent with a rule, and records its life.

  Args:
    env: name of the environment.
    rule: the rule, or an argument of `load_rule`.
    num_iterations: number of iterations.
    seed: seed of the agent.
    settings: changes to other settings, path to value.
    request: further entries of the request, see `resolve.EVALUATION`.
    out: folder of the run, which can be opened again by `of_run`; None to write
      nothing.
    overwrite: whether to remove a run that the folder already holds.
    show_progress: whether to show a progress bar.

  Returns:
    The agent; None if the run was interrupted in a command, after it was saved.
  """
  if not isinstance(rule, rule_lib.Rule):
    rule = rule_lib.load_rule(rule)
  request = dict(
    rule=rule.name,
    env=env,
    steps=num_iterations,
    seed=seed,
    settings=dict(settings or {}),
    **(request or {}),
  )
  plan = plan_lib.Plan(request, rule)
  every = max(1, -(-int(plan.settings.steps) // _NUM_SNAPSHOTS))
  recorder = life_lib.Recorder(every)
  with plan.start(out, overwrite=overwrite, show_progress=show_progress) as run:
    run.hooks = [*run.hooks, recorder.hook]
    outcome = run.execute()
    if outcome.error is not None:
      raise outcome.error
    if outcome.reason is loop.Reason.INTERRUPTED:
      return None
    life = recorder.life()
    if run.folder is not None:
      plan_lib.save_final_params(run, outcome.state)
      life_lib.save(run.folder.path, life)
    trainable: Any = run.trainable
    an_agent = trainable.population.agent
    # The numbers of a device mesh are not needed any more.
    learner = jax.tree.map(lambda x: np.asarray(x[0]), outcome.state.learner)
  env_fn = registry.environment_fn(env, **plan.settings.env)
  return Subject(
    rule=rule,
    env_name=env,
    agent=_unsharded(an_agent, env_fn, plan.settings),
    eta=check_rule(an_agent, rule),
    learner=learner,
    env_fn=env_fn,
    seed=seed,
    settings=plan.settings,
    life=life,
  )


def check_rule(
  an_agent: agent_lib.Agent, rule: rule_lib.Rule
) -> types.MetaParams:
  """Checks that a rule computes targets for the outputs of an agent.

  Args:
    an_agent: the agent.
    rule: the rule.

  Returns:
    Its parameters η, empty for a rule without parameters.

  Raises:
    ValueError: if it is of another kind or another size.
  """
  kind = an_agent.settings.update_rule_name
  if rule.kind != kind:
    raise ValueError(
      f'the rule {rule.name} is of the kind {rule.kind}, but the agent learned '
      f'with one of the kind {kind}: leave out the rule, or give a run of it'
    )
  return training.check_rule_params(
    an_agent.update_rule, rule.eta, f'the parameters of {rule.name}'
  )


def check_environment(
  an_agent: agent_lib.Agent, env_fn: registry.EnvironmentFn, name: str
) -> None:
  """Raises a `ValueError` if an agent cannot act in an environment.

  Args:
    an_agent: the agent.
    env_fn: makes the environment.
    name: its name, for the message.
  """
  env = env_fn(1, 0)
  try:
    specs = env.single_observation_spec(), env.single_action_spec()
  finally:
    env.close()
  own = an_agent.single_observation_spec, an_agent.single_action_spec
  shapes, own_shapes = (
    jax.tree.map(lambda x: x.shape, observation)
    for observation, _ in (specs, own)
  )
  if shapes != own_shapes:
    raise ValueError(
      f'the observations of {name} have the shape {shapes}, but the agent was '
      f'trained on {own_shapes}'
    )
  number, own_number = (spec.maximum + 1 for _, spec in (specs, own))
  if number != own_number:
    raise ValueError(
      f'{name} has {number} actions, but the agent was trained with '
      f'{own_number}'
    )


def _unsharded(
  an_agent: agent_lib.Agent,
  env_fn: registry.EnvironmentFn,
  settings: config_dict.ConfigDict,
) -> agent_lib.Agent:
  """Makes the same agent without an axis of devices."""
  env = env_fn(1, 0)
  try:
    return agent_lib.Agent.for_environment(env, settings.agent)
  finally:
    env.close()
