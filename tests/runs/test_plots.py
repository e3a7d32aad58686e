"""Pictures without a display."""

import os
import subprocess
import sys


def test_an_unknown_backend_of_matplotlib_does_no_harm(tmp_path):
  script = (
    'from disco_rl.runs import plots\n'
    'assert plots.is_available()\n'
    'rows = [dict(iteration=i, seed=0, average_return=i) for i in range(3)]\n'
    "plots.learning_curves({'x': rows}).savefig('x.png')\n"
  )
  result = subprocess.run(
    [sys.executable, '-c', script],
    env={**os.environ, 'MPLBACKEND': 'nonsense', 'PYTHONPATH': os.getcwd()},
    cwd=tmp_path,
    capture_output=True,
    text=True,
  )
  assert result.returncode == 0, result.stderr
  assert (tmp_path / 'x.png').exists()
