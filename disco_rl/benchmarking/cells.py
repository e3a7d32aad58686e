"""Cells: a rule in a task, with all seeds in one program; a run of `eval`."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from disco_rl.benchmarking import suites
from disco_rl.config import agents
from disco_rl.evaluation import plan as plan_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import run as run_lib
from disco_rl.runs import run_files


@dataclasses.dataclass(frozen=True)
class Cell:
  """A rule in a task.

  Attributes:
    name: its name, which no other cell of the same folder has.
    rule: the rule.
    task: the task.
    seeds: the seeds.
    steps: iterations, which may differ from those of the task.
    settings: settings of this cell, by path; besides those of the task.
  """

  name: str
  rule: rule_lib.Rule
  task: suites.Task
  seeds: tuple[int, ...]
  steps: int
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def file_name(self) -> str:
    """The name of the folder of its run."""
    return run_files.as_file_name(self.name)

  def plan(self, seeds: Sequence[int] | None = None) -> plan_lib.Plan:
    """Makes the plan of its run.

    Args:
      seeds: some of its seeds; None for all.

    Returns:
      The plan, with resolved settings.

    Raises:
      ValueError: if a setting is not valid.
    """
    task = self.task
    settings = {
      **run_lib.flatten(task.env_settings, 'env'),
      **run_lib.flatten(dataclasses.asdict(task.batching), 'batching'),
      **self._network_settings(),
      **task.settings,
      **self.settings,
    }
    request = dict(
      rule=self.rule.name,
      env=task.env,
      steps=self.steps,
      seeds=list(self.seeds if seeds is None else seeds),
      # Results must not depend on how many there are.
      devices=1,
      net=task.net,
      core=task.core,
      settings=settings,
    )
    return plan_lib.Plan(request, self.rule)

  def _network_settings(self) -> dict[str, Any]:
    """Returns the network of the task, for the agent and its critic."""
    settings = {}
    for name, value in self.task.net_args.items():
      settings[f'agent.net_settings.net_args.{name}'] = value
      if agents.for_rule(self.rule).get('value_fn') is not None:
        settings[f'agent.value_fn.net_args.{name}'] = value
    return settings


def check_names(cells: Sequence[Cell]) -> None:
  """Raises a `ValueError` if two cells would have the same folder.

  Args:
    cells: the cells.
  """
  known: dict[str, str] = {}
  for cell in cells:
    other = known.setdefault(cell.file_name, cell.name)
    if other != cell.name or sum(x.name == cell.name for x in cells) > 1:
      raise ValueError(
        f'{other} and {cell.name} would have the same folder: give each rule '
        'once, and rules different names'
      )
