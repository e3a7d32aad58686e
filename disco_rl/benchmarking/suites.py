"""Suites of benchmark tasks: environments with fixed networks and budgets.

All rules have the same network, environment steps, replay and number of updates
in a task. The tasks of `small` and `minatar` are held out: rules are not
discovered or selected on them.
"""

from collections.abc import Mapping
import dataclasses
import importlib.resources
from typing import Any

from disco_rl import schema
from disco_rl import utils
from disco_rl.config import batching as batching_lib
from disco_rl.config import budgets
from disco_rl.runs import plain_settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
  """An environment with all that is the same for every rule.

  Attributes:
    name: its name in the suite.
    env: name of the environment, see `environments.registry`.
    demands: what it demands of a rule.
    steps: the budget in iterations, each with one learner step.
    batching: sizes of rollouts, batches and replay.
    env_settings: changes to the environment's default settings.
    net: name of the network; None for the one suggested for the environment.
    core: name of its memory; None for none.
    net_args: arguments of the networks of agent and critic.
    settings: further settings, by path.
  """

  name: str
  env: str
  demands: str
  steps: int
  batching: batching_lib.Batching
  env_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  net: str | None = None
  core: str | None = None
  net_args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def env_steps(self) -> int:
    """The budget in environment steps of one agent."""
    return self.steps * self.batching.env_steps

  def to_plain(self) -> dict[str, Any]:
    """Returns all that scores depend on, as JSON types."""
    plain = plain_settings.to_plain(dataclasses.asdict(self))
    del plain['demands']
    return plain


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suite:
  """A set of tasks.

  Attributes:
    name: its name.
    tasks: the tasks.
    removed: names of tasks that were removed, to the reason.
  """

  name: str
  tasks: tuple[Task, ...]
  removed: Mapping[str, str] = dataclasses.field(default_factory=dict)


# As in docs/results.md: 464 thousand environment steps in 1000 iterations.
_SIZES = batching_lib.Batching(
  batch_size=32, rollout_length=29, num_envs=16, replay_capacity=256
)
_COSINE = {'agent.optimizer.schedule': 'cosine'}
_MLP = dict(dense=(128, 128))


def _gymnax(name: str, demands: str, env: str, **more: Any) -> Task:
  return Task(
    **{
      **dict(
        name=name,
        demands=demands,
        env=f'gymnax:{env}',
        steps=1000,
        batching=_SIZES,
        settings=_COSINE,
      ),
      **more,
    }
  )


_MINATAR = {
  name: _gymnax(name, 'images, stochastic dynamics', f'{env}-MinAtar')
  for name, env in dict(
    asterix='Asterix',
    breakout='Breakout',
    freeway='Freeway',
    space_invaders='SpaceInvaders',
  ).items()
}

SUITES: Mapping[str, Suite] = {
  'small': Suite(
    name='small',
    tasks=(
      Task(
        name='catch',
        demands='much replay: each trajectory is used 32 times',
        env='catch',
        steps=1000,
        # The published setting.
        batching=batching_lib.Batching(),
        net_args=dict(dense=(512, 512)),
      ),
      _gymnax('cartpole', 'balance', 'CartPole-v1', net_args=_MLP),
      _gymnax('acrobot', 'delayed rewards', 'Acrobot-v1', net_args=_MLP),
      _gymnax(
        'mountain_car',
        'exploration with momentum',
        'MountainCar-v0',
        net_args=_MLP,
        # Twice the force and more time: a random policy never reaches the
        # goal of the original, and reaches this one in 4% of episodes.
        env_settings=dict(params=dict(force=0.002, max_steps_in_episode=500)),
      ),
      *_MINATAR.values(),
      _gymnax('deep_sea', 'exploration', 'DeepSea-bsuite', net_args=_MLP),
      _gymnax(
        'memory',
        'memory over ten steps',
        'MemoryChain-bsuite',
        net_args=_MLP,
        core='lstm',
        env_settings=dict(params=dict(memory_length=10)),
      ),
    ),
  ),
  'minatar': Suite(name='minatar', tasks=tuple(_MINATAR.values())),
  # For tests, and to try the command out.
  'tiny': Suite(
    name='tiny',
    tasks=tuple(
      Task(
        name=f'catch_{rows}x3',
        demands='nothing much',
        env='catch',
        steps=12,
        batching=batching_lib.Batching(
          batch_size=8, rollout_length=6, num_envs=4, replay_capacity=16
        ),
        env_settings=dict(rows=rows, columns=3),
        net_args=dict(dense=(8,)),
        settings=dict(chunk_size=4, checkpoint_every=4),
      )
      for rows in (3, 4)
    ),
  ),
}


def get_suite(suite: Any) -> Suite:
  """Finds a suite by name.

  Args:
    suite: a key of `SUITES`, or a suite.

  Returns:
    The suite.

  Raises:
    ValueError: if there is no such suite.
  """
  if isinstance(suite, Suite):
    return suite
  return utils.lookup(dict(SUITES), suite, 'suite')


def with_budget(suite: Suite, env_steps: Any) -> Suite:
  """Changes the budget of all tasks.

  Args:
    suite: the suite.
    env_steps: environment steps of one agent, rounded up to whole iterations;
      None for no change.

  Returns:
    The suite with this budget.

  Raises:
    ValueError: if nothing would be learned in a task, or if it is too large.
  """
  if env_steps is None:
    return suite
  checked = schema.check_as('num_env_steps', 'env_steps', env_steps)
  tasks = []
  for task in suite.tasks:
    steps = budgets.steps_of(checked, task.batching.env_steps)
    batching_lib.check_steps(steps, task.batching, f'{task.name}: steps')
    tasks.append(dataclasses.replace(task, steps=steps))
  return dataclasses.replace(suite, tasks=tuple(tasks))


def data_file(suite: str, what: str) -> Any:
  """Returns the file of a suite that is shipped with the library.

  Args:
    suite: name of the suite.
    what: `'anchors'` or `'tuned'`.

  Returns:
    Its path, which may not exist.
  """
  folder = importlib.resources.files('disco_rl.benchmarking') / 'data'
  return folder / f'{suite}_{what}.json'
