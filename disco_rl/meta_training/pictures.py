"""What one looks at while η is trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from disco_rl import metrics_table
from disco_rl import plots

# Name of a picture to its panels: title to columns of the table.
PICTURES: Mapping[str, Mapping[str, Sequence[str]]] = {
  'rewards': {'rewards per meta-update': ('pos_rewards', 'neg_rewards')},
  'training': {
    'meta-loss': ('meta_loss', 'pg_loss', 'reg_loss'),
    'norm of the meta-gradient': ('meta_grad_norm',),
    'norm of the update of η': ('meta_up_norm',),
    'average reward': ('rewards',),
  },
}


def draw(name: str, rows: Sequence[metrics_table.Row]) -> Any:
  """Draws one of `PICTURES`.

  Args:
    name: which.
    rows: of `training.train`, one per meta-update.

  Returns:
    A matplotlib figure.
  """
  return plots.panels(rows, PICTURES[name])
