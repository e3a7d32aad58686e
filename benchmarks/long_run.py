"""Measures the memory of a long run, and the cost of its checkpoints.

The run has a folder, like those of `disco-rl eval`. Memory is that of the
process after every tenth of the run. The cost of checkpoints is the time in the
hooks that save and draw, relative to the rest, without the first chunk, which
is compiled.

  python -m benchmarks.long_run --env catch --env catch_numpy --steps 20000
"""

import argparse
from collections.abc import Sequence
import pathlib
import tempfile
import time
from typing import Any

from benchmarks import table
from disco_rl.evaluation import plan as plan_lib


class _Timed:
  """Measures the time of the calls of a hook."""

  def __init__(self, hook: Any):
    self._hook = hook
    self.seconds = 0.0

  def start(self, done: int, state: Any) -> None:
    self._hook.start(done, state)

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    begin = time.perf_counter()
    self._hook.advanced(done, state, is_last)
    self.seconds += time.perf_counter() - begin

  def close(self) -> None:
    self._hook.close()


class _Watch:
  """A hook that records time and memory after every chunk."""

  def __init__(self) -> None:
    self.times: list[float] = []
    self.megabytes: list[float] = []

  def start(self, done: int, state: Any) -> None:
    """Does nothing."""

  def advanced(self, done: int, state: Any, is_last: bool) -> None:
    del done, state, is_last
    self.times.append(time.perf_counter())
    self.megabytes.append(resident_megabytes())

  def close(self) -> None:
    """Does nothing."""


def resident_megabytes() -> float:
  """Returns the resident memory of this process."""
  for line in pathlib.Path('/proc/self/status').read_text().splitlines():
    if line.startswith('VmRSS:'):
      return int(line.split()[1]) / 1e3
  raise RuntimeError('/proc/self/status has no line VmRSS')


def benchmark(
  env: str, rule: str, steps: int, settings: Sequence[str] = ()
) -> dict[str, Any]:
  """Measures an evaluation with a folder.

  Args:
    env: name of the environment.
    rule: name of the rule.
    steps: number of iterations.
    settings: changes to settings, each `path=value`.

  Returns:
    Memory after each tenth of the run, iterations per second, the time of
    checkpoints and pictures relative to the rest, and the size of a checkpoint.
  """
  request = dict(env=env, rule=rule, steps=steps, set=list(settings))
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / 'run'
    with plan_lib.Plan(request).start(out, show_progress=False) as run:
      timed, watch = [_Timed(hook) for hook in run.hooks], _Watch()
      run.hooks = [*timed, watch]
      run.execute()
    size = (out / 'state.npz').stat().st_size
  total = watch.times[-1] - watch.times[0]
  saving = sum(hook.seconds for hook in timed)
  tenths = [
    watch.megabytes[len(watch.megabytes) * i // 10 - 1] for i in range(1, 11)
  ]
  return dict(
    env=env,
    rule=rule,
    steps=steps,
    iterations_per_second=steps / total,
    checkpoint_mb=size / 1e6,
    checkpoint_percent=100 * saving / (total - saving),
    resident_mb=[round(x) for x in tenths],
  )


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--env', action='append')
  parser.add_argument('--rule', default='actor_critic')
  parser.add_argument('--steps', type=int, default=20_000)
  parser.add_argument('--set', action='append', default=[])
  parser.add_argument('--json')
  arguments = parser.parse_args()
  results = [
    benchmark(env, arguments.rule, arguments.steps, arguments.set)
    for env in arguments.env or ['catch', 'catch_numpy']
  ]
  table.report(results, arguments.json)


if __name__ == '__main__':
  main()
