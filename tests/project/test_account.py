"""The accounts of a program's time, and of its compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import account
from benchmarks import compile_account


def test_time_is_divided_among_running_operations():
  threads = [
    [('while', 0.0, 10.0), ('dot', 1.0, 5.0), ('copy.3', 5.0, 6.0)],
    [('dot.2', 2.0, 3.0), ('add_fusion', 3.0, 7.0)],
  ]
  times = account.times_of_parts(threads)
  # From 3 to 5, two operations are running, and from 5 to 6.
  assert times == {'products': 3.0, 'element-wise': 2.5, 'copies': 0.5}


@pytest.mark.parametrize(
  ('name', 'part'),
  [
    ('dot.126', 'products'),
    ('ynn_fusion.7', 'products'),
    ('copy.3', 'copies'),
    ('wrapped_slice', 'copies'),
    ('dynamic-slice_bitcast_fusion', 'copies'),
    ('broadcast_add_fusion', 'element-wise'),
    ('tanh_multiply_fusion', 'element-wise'),
    ('wrapped_exponential', 'element-wise'),
  ],
)
def test_operations_have_a_part(name, part):
  assert account.part_of(name) == part


@pytest.mark.slow
@pytest.mark.parametrize('program', ['learner_step', 'meta_updates'])
def test_the_parts_sum_to_the_whole(program, monkeypatch):
  monkeypatch.setitem(account.MEASURED_UPDATES, 'small', (1, 1, 2))
  if program == 'learner_step':
    row = account.learner_step(2, 'small', num_calls=2)
  else:
    row = account.meta_updates('small', num_calls=2)
  total = sum(row[part] for part in account.PARTS)
  assert total == pytest.approx(row['profiled_ms'])
  assert row['products'] > 0 and row['element-wise'] > 0
  assert 0 < row['limit_ms'] < row['call_ms']
  assert row['operations'] > 100


def test_the_stages_of_a_compilation_are_told_apart():
  events = [
    ('PjRtCpuClient::Compile', 0.0, 100.0),
    ('fusion', 1.0, 20.0),
    ('CpuCompiler::CompileCpuExecutable#module=x#', 22.0, 95.0),
    ('ThunkEmitter::EmitEntryComputation', 25.0, 40.0),
    ('ThunkEmitter::ConsumeKernels', 40.0, 50.0),
    ('JitCompiler::Compile', 52.0, 90.0),
  ]
  assert compile_account.stages_of_xla(events) == {
    'passes': 27.0,
    'kernels': 25.0,
    'llvm': 38.0,
    'other': 10.0,
  }
  with pytest.raises(ValueError, match='JitCompiler::Compile'):
    compile_account.stages_of_xla(events[:-1])


@pytest.mark.skipif(
  jax.__version_info__[:2] != (0, 10),
  reason='other versions of XLA name the stages of its compiler differently',
)
def test_the_stages_of_a_compilation_sum_to_the_whole():
  # Never the same, so that it is compiled, also if an earlier test in this
  # process has enabled the cache of compiled programs.
  salt = np.random.default_rng().random()
  program = jax.jit(lambda x: jnp.tanh(x @ x).sum() + salt * jnp.exp(x))
  row = compile_account.compile_account('a', program, jnp.ones((64, 64)))
  stages = [row[stage] for stage in compile_account.STAGES]
  assert sum(stages) == pytest.approx(row['total'])
  assert min(stages) >= 0 and row['llvm'] > 0
  assert 0 < row['fusions'] < row['operations']
