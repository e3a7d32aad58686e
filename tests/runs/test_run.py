"""With which settings a run can be resumed."""

import pytest

from disco_rl.runs import run


def test_settings_that_are_not_a_number_are_the_same():
  settings = dict(env=dict(f=float('nan'), g=[1.0, float('nan')]))
  run.check_same_settings(settings, dict(env=dict(settings['env'])))
  with pytest.raises(ValueError, match=r'env\.f was nan, is 1\.0'):
    run.check_same_settings(settings, dict(env=dict(settings['env'], f=1.0)))
