"""The collective operations of compiled programs are counted."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks import collectives
from disco_rl import parallel

X = jax.ShapeDtypeStruct((1000,), jnp.float32)
Y = jax.ShapeDtypeStruct((7, 3), jnp.float32)


def _compile(function, num_devices=4):
  placement = parallel.Placement(
    jax.devices()[:num_devices], num_lane_shards=min(2, num_devices)
  )
  whole = parallel.REPLICATED
  jitted = placement.compile(function, (whole, whole), whole)
  return jitted.lower(X, Y).compile()


def test_operations_are_counted_as_often_as_they_run():
  def function(x, y):
    body = lambda c, _: (c + jax.lax.pmean(c * 2, 'batch'), None)
    x, _ = jax.lax.scan(body, x, None, length=5)
    gathered = jax.lax.all_gather(y, 'lanes')
    summed = jax.lax.psum((jnp.sum(x), y), 'lanes')
    return x, gathered.sum(0) + summed[1], summed[0]

  traffic = collectives.count(_compile(function))
  # One array may be reduced per operation, or several together.
  assert 5 + 1 + 1 <= traffic.num_calls <= 5 + 1 + 2
  assert traffic.num_bytes == 5 * 4 * 1000 + 4 * 21 + 4 * (1 + 21)


def test_sums_of_a_traced_program_are_counted_by_axis():
  def function(x, y):
    body = lambda c, _: (c + jax.lax.pmean(c * 2, 'batch'), None)
    x, _ = jax.lax.scan(body, x, None, length=5)
    return x, jax.lax.cond(
      x[0] > 0, lambda: jax.lax.psum(y, 'lanes'), lambda: y
    )

  placement = parallel.Placement(jax.devices()[:4], num_lane_shards=2)
  whole = parallel.REPLICATED
  traced = placement.compile(function, (whole, whole), whole).trace(X, Y)
  assert collectives.count_in_trace(traced, 'batch') == (5, 5 * 4000)
  assert collectives.count_in_trace(traced, 'lanes') == (1, 4 * 21)


def test_the_larger_branch_counts():
  def function(x, y):
    return jax.lax.cond(
      x[0] > 0,
      lambda: (jax.lax.psum(x, 'lanes'), y),
      lambda: (x, jax.lax.psum(y, 'lanes')),
    )

  assert collectives.count(_compile(function)) == (1, 4000)


def test_programs_of_one_device_have_none():
  program = _compile(lambda x, y: (x, jnp.exp(y)), num_devices=1)
  assert collectives.count(program) == (0, 0)


def test_asynchronous_operations_count_once():
  text = """HloModule m

ENTRY %main (p: bf16[2,3]) -> bf16[2,3] {
  %p = bf16[2,3]{1,0} parameter(0)
  %s = bf16[2,3]{1,0} all-reduce-start(%p), replica_groups={}, to_apply=%add
  ROOT %d = bf16[2,3]{1,0} all-reduce-done(%s)
}
"""
  assert collectives.count_in_text(text) == (1, 12)
  with pytest.raises(ValueError, match='not the text of a compiled program'):
    collectives.count_in_text('module @jit_f {}')
