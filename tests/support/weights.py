"""Where tests find the published weights, which are not in the repository."""

import os
import pathlib

import pytest

from disco_rl.rule_zoo import store

_SIBLING = pathlib.Path(__file__).parents[3] / 'shared' / 'weights'


def need_disco_103(monkeypatch: pytest.MonkeyPatch) -> None:
  """Makes `disco_103` loadable from this machine, or skips the test."""
  if 'DISCO_RL_WEIGHTS' not in os.environ and _SIBLING.is_dir():
    monkeypatch.setenv('DISCO_RL_WEIGHTS', str(_SIBLING))
  if store.find('disco_103') is None:
    pytest.skip(
      'the published Disco103 weights are not on this machine: run '
      'disco_rl.rule_zoo.store.fetch("disco_103") with a network, or put '
      'disco_103.npz into a folder named by DISCO_RL_WEIGHTS'
    )
