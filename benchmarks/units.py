"""Units of time: that of matrix products measured in the same run.

Seconds depend on the machine and on its other load; units much less, since both
slow down together.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from disco_rl import arithmetic

UNIT_GFLOP = arithmetic.UNIT_GFLOP
make_unit = arithmetic.make_unit


class Timing(NamedTuple):
  """The time of one of several measurements that were alternated."""

  seconds: float  # Median over rounds.
  unit_seconds: float  # Likewise, of a unit.
  ratio: float  # To the first measurement: median of the rounds' ratios.

  @property
  def units(self) -> float:
    """The time in units."""
    return self.seconds / self.unit_seconds


def alternate(
  measures: Mapping[str, Callable[[], float]],
  num_rounds: int,
  num_warm_up: int = 1,
) -> dict[str, Timing]:
  """Takes measurements in turns, so that other load slows all equally.

  Args:
    measures: name to a function that returns seconds.
    num_rounds: how often to take all of them.
    num_warm_up: further rounds before, which do not count.

  Returns:
    Name to its timing.
  """
  unit = make_unit()
  unit_seconds: list[float] = []
  rounds: list[list[float]] = []
  for i in range(num_warm_up + num_rounds):
    in_units = [unit() for _ in range(3)]
    seconds = [measure() for measure in measures.values()]
    if i >= num_warm_up:
      unit_seconds += in_units
      rounds.append(seconds)
  times = np.asarray(rounds)  # [rounds, measures]
  return {
    name: Timing(
      seconds=float(np.median(times[:, i])),
      unit_seconds=float(np.median(unit_seconds)),
      ratio=float(np.median(times[:, i] / times[:, 0])),
    )
    for i, name in enumerate(measures)
  }
