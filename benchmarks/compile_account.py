"""Accounts for the time of a compilation: where does every second go?

Seconds of the thread that compiles, by stage; others help with two of them:

  tracing   Python runs the program once, with abstract arrays
  lowering  JAX writes it as StableHLO
  passes    XLA's passes over the whole program, fusion among them
  kernels   each fused operation becomes a program of LLVM, on all cores
  llvm      LLVM optimises these and makes machine code, on all cores
  other     what XLA's profile does not name

  python -m benchmarks.compile_account --actions 3 --meta-updates published
"""

import argparse
from collections.abc import Iterable
import time
from typing import Any

import jax

from benchmarks import account
from benchmarks import learner_programs
from benchmarks import meta_update
from benchmarks import profiles
from benchmarks import sizes
from benchmarks import table

STAGES = ('tracing', 'lowering', 'passes', 'kernels', 'llvm', 'other')

# The events of XLA's CPU compiler that cover a stage, as jax 0.10 names them.
_WHOLE = 'PjRtCpuClient::Compile'
_CODE = 'CpuCompiler::CompileCpuExecutable'
_KERNELS = (
  'ThunkEmitter::EmitEntryComputation',
  'ThunkEmitter::ConsumeKernels',
)
_LLVM = 'JitCompiler::Compile'


def stages_of_xla(
  events: Iterable[tuple[str, float, float]],
) -> dict[str, float]:
  """Divides the time of XLA's compiler among its stages.

  Args:
    events: those of the thread that compiles: their name, start and end.

  Returns:
    Time by stage, in the unit of the events.

  Raises:
    ValueError: if the profile lacks a stage; other versions name them
      differently.
  """
  totals: dict[str, float] = {}
  for name, start, end in events:
    key = name.partition('#')[0]  # Details follow.
    totals[key] = totals.get(key, 0.0) + end - start
  missing = {_WHOLE, _CODE, *_KERNELS, _LLVM} - totals.keys()
  if missing:
    raise ValueError(
      f'the profile of the compiler lacks {sorted(missing)}; its stages are '
      'those of jax 0.10 on CPU'
    )
  kernels = sum(totals[key] for key in _KERNELS)
  return {
    'passes': totals[_WHOLE] - totals[_CODE],
    'kernels': kernels,
    'llvm': totals[_LLVM],
    'other': totals[_CODE] - kernels - totals[_LLVM],
  }


def compile_account(name: str, jitted: Any, *inputs: Any) -> dict[str, Any]:
  """Compiles a program and profiles that.

  Args:
    name: what it computes.
    jitted: its method `trace` traces it for the inputs.
    *inputs: its inputs.

  Returns:
    Seconds by stage, their total, and the numbers of operations that JAX gave
    to XLA, of those after XLA's passes, and of fused ones among them.
  """
  begin = time.perf_counter()
  traced = jitted.trace(*inputs)
  tracing = time.perf_counter() - begin
  begin = time.perf_counter()
  lowered = traced.lower()
  lowering = time.perf_counter() - begin
  num_given = lowered.as_text().count(' = ')

  def compile_program() -> tuple[Any, float]:
    start = time.perf_counter()
    compiled = lowered.compile()
    return compiled, time.perf_counter() - start

  (compiled, seconds), threads = profiles.record(
    compile_program, 'tf_PjRtCompiler'
  )
  events = [event for thread in threads for event in thread]
  stages = {k: 1e-9 * x for k, x in stages_of_xla(events).items()}
  stages['other'] += seconds - sum(stages.values())
  hlo = compiled.as_text()
  return {
    'program': name,
    'total': tracing + lowering + seconds,
    'tracing': tracing,
    'lowering': lowering,
    **stages,
    'operations given': num_given,
    'operations': hlo.count(' = '),
    'fusions': hlo.count(' fusion('),
  }


def learner_step(num_actions: int, size: str) -> dict[str, Any]:
  """Accounts for the compilation of an agent's learner step.

  Args:
    num_actions: A.
    size: one of `sizes.NAMES`.

  Returns:
    See `compile_account`.
  """
  problem = learner_programs.Problem(
    sizes.agent_settings(size), num_actions, num_steps=29, batch_size=64
  )
  step = jax.jit(learner_programs.WAYS['summary'](problem))
  state = problem.agent.initial_learner_state(problem.rng)
  name = f'learner step, {num_actions} actions'
  return compile_account(name, step, problem.eta, problem.rollout, state)


def meta_updates(size: str) -> dict[str, Any]:
  """Accounts for the compilation of a meta-update.

  Args:
    size: one of `sizes.NAMES`.

  Returns:
    See `compile_account`.
  """
  num_agents, num_updates, num_envs = account.MEASURED_UPDATES[size]
  trainer, *inputs = meta_update.trainer(
    meta_update.agent_settings(size),
    num_agents,
    meta_update.config(num_updates, num_envs, num_steps=16),
  )
  name = f'{size} meta-update, N = {num_updates}'
  return compile_account(name, trainer, *inputs)


def main() -> None:
  """Prints a table; with `--json`, also writes it to a file."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--actions', type=int, nargs='*', default=[3])
  parser.add_argument('--size', choices=sizes.NAMES, default='published')
  parser.add_argument(
    '--meta-updates', nargs='*', choices=sizes.NAMES, default=['published']
  )
  parser.add_argument('--json', help='file to write the results to')
  arguments = parser.parse_args()
  if min(arguments.actions, default=1) < 1:
    parser.error('--actions must be at least 1')
  if not arguments.actions and not arguments.meta_updates:
    parser.error('nothing to do without --actions and --meta-updates')
  rows = [learner_step(number, arguments.size) for number in arguments.actions]
  rows += [meta_updates(size) for size in arguments.meta_updates]
  table.report(rows, arguments.json)


if __name__ == '__main__':
  main()
