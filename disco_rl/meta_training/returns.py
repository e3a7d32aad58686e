"""Averages the returns of agents' episodes, by group and by family of tasks.

Columns of a row, with the name of a group, which is that of its environment:

- `return/NAME`: average return of the episodes that ended in a meta-update, and
  `episodes/NAME`, their number;
- `last_return/NAME`, `last_episodes/NAME`: the same for agents whose lifetime
  ended with this meta-update, if lifetimes are limited;
- `family_return/NAME/FAMILY`, `last_family_return/NAME/FAMILY` and so on: the
  same for agents with a task of a family, if the environment has families.
  These returns are divided by the scale of the task's rewards.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from disco_rl.meta_training import meta_gradient

# What the columns with returns begin with.
RETURN, LAST = 'return', 'last_return'
FAMILY, LAST_FAMILY = 'family_return', 'last_family_return'


class Source(NamedTuple):
  """A group of agents.

  Attributes:
    name: name of the group.
    families: the families of its environment, perhaps none.
  """

  name: str
  families: Sequence[str] = ()


def names(sources: Sequence[Source], lifetimes: Sequence[int]) -> list[str]:
  """Returns the names of the averages of `averages`.

  Args:
    sources: the groups.
    lifetimes: of the agents; empty for no limit.
  """
  entries = (*meta_gradient.EPISODE_LOG, *meta_gradient.TASK_LOG, 'is_last')
  log = {name: np.ones(1) for name in entries}
  return list(averages(sources, [log] * len(sources), lifetimes))


def averages(
  sources: Sequence[Source],
  logs: Sequence[Mapping[str, np.ndarray]],
  lifetimes: Sequence[int],
) -> dict[str, float]:
  """Averages the returns of episodes, see the top of this file.

  Args:
    sources: the groups.
    logs: `meta_gradient.EPISODE_LOG`, `TASK_LOG` and `is_last` of the agents of
      each group, [n].
    lifetimes: of the agents; empty for no limit.

  Returns:
    Name of a column to its value; averages are NaN without episodes.
  """
  row: dict[str, float] = {}
  for source, log in zip(sources, logs, strict=True):
    whens = {'': np.ones(log['is_last'].shape, bool)}
    if lifetimes:
      whens['last_'] = log['is_last'] > 0
    for when, is_meant in whens.items():
      for column, is_own, scale in _parts(source, log):
        chosen = is_meant & is_own
        episodes = float(np.sum(log['num_episodes'], where=chosen))
        total = float(np.sum(log['total_return'] / scale, where=chosen))
        kind, name = column
        row[f'{when}{kind}episodes/{name}'] = episodes
        average = total / episodes if episodes else np.nan
        row[f'{when}{kind}return/{name}'] = average
  return row


def _parts(
  source: Source, log: Mapping[str, np.ndarray]
) -> Iterator[tuple[tuple[str, str], np.ndarray, np.ndarray | float]]:
  """Yields the name, the agents and their scales of a group and its families.

  Args:
    source: the group.
    log: see `averages`.

  Yields:
    Prefix and name of the columns; whether each agent is meant, [n]; and what
    returns are divided by.
  """
  family = log['family']
  yield ('', source.name), np.ones(family.shape, bool), 1.0
  for i, name in enumerate(source.families):
    column = ('family_', f'{source.name}/{name}')
    yield column, family == i, log['reward_scale']
