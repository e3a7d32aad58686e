"""The settings behind the numbers in docs/results.md, by name.

`disco-rl eval --preset minatar --env gymnax:Breakout-MinAtar --rule disco_103
--num-seeds 3` makes the runs of a row of its tables.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """The settings of the runs of a table.

  Attributes:
    env: the environment that is used if none is given.
    steps: the number of iterations that is used if none is given.
    settings: path of a setting to its value.
    learning_rates: kind of a rule to its learning rate, if it is in the table;
      rules of other kinds keep theirs.
  """

  env: str
  steps: int = 1000
  settings: Mapping[str, Any]
  learning_rates: Mapping[str, float] = dataclasses.field(default_factory=dict)

  def values(self, kind: str) -> dict[str, Any]:
    """Returns the settings.

    Args:
      kind: the kind of the rule.

    Returns:
      Path of a setting to its value.
    """
    found = dict(self.settings)
    if kind in self.learning_rates:
      found['agent.learning_rate'] = self.learning_rates[kind]
    return found


def _sizes(
  batch_size: int, num_envs: int, replay_capacity: int
) -> dict[str, Any]:
  return {
    'batching.batch_size': batch_size,
    'batching.rollout_length': 29,
    'batching.num_envs': num_envs,
    'batching.replay_capacity': replay_capacity,
  }


# 464 thousand environment steps in 1000 iterations; each trajectory is used
# twice.
_SHORT = {**_sizes(32, 16, 256), 'agent.optimizer.schedule': 'cosine'}

MEASURED: Mapping[str, Measured] = {
  # The published setting, which is the default, too.
  'catch': Measured(
    env='catch',
    settings=_sizes(64, 2, 1024),
    learning_rates=dict(disco=1e-2, actor_critic=1e-2, policy_gradient=1e-3),
  ),
  'cartpole': Measured(
    env='gym:CartPole-v1',
    settings=_SHORT,
    learning_rates=dict(disco=3e-3, actor_critic=3e-3),
  ),
  'minatar': Measured(
    env='gymnax:Breakout-MinAtar',
    settings=_SHORT,
    learning_rates=dict(disco=1e-2, actor_critic=3e-3),
  ),
  # For two cores: three seconds per iteration, so its learning rates were not
  # tuned.
  'atari-small': Measured(env='atari:Pong', settings=_sizes(8, 2, 64)),
}
