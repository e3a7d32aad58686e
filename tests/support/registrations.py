"""Keeps what one test file registers from all others."""

import sys

from disco_rl.environments import factories
from disco_rl.environments import registry as environments
from disco_rl.networks import nets
from disco_rl.networks import torsos
from disco_rl.runs import trackers
from disco_rl.update_rules import registry as rules

_TABLES = (
  (environments, 'ENVIRONMENTS'),
  (environments, 'FAMILIES'),
  (factories, 'IMPORTED'),
  (nets, 'NETWORKS'),
  (rules, 'SETTINGS_FNS'),
  (rules, 'UPDATE_RULES'),
  (torsos, 'TORSOS'),
  (trackers, 'TRACKERS'),
)


def registered():
  """Returns copies of all tables of registered names."""
  return [getattr(module, name).copy() for module, name in _TABLES]


def restore(tables):
  """Sets all tables, in place, to what `registered` returned.

  Examples register names when they are imported. They are removed from the
  imported modules, so that the next file that imports one registers them again.
  """
  for (module, name), before in zip(_TABLES, tables, strict=True):
    table = getattr(module, name)
    table.clear()
    (table.extend if isinstance(table, list) else table.update)(before)
  for name in [
    name for name in sys.modules if name.split('.')[0] == 'examples'
  ]:
    del sys.modules[name]
