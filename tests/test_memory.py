"""Estimates of memory, compared with known sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl import memory

MB = 1 << 20
SPEC = jax.ShapeDtypeStruct((512, 512), jnp.float32)  # 1 MB.


def _of(function, *specs):
  return memory.of_program(jax.jit(function).trace(*specs)) / MB


def test_arrays_and_specs():
  tree = dict(a=np.zeros((512, 512), np.float32), b=SPEC, c=None, d='x')
  assert memory.of_arrays(tree) == 2 * MB
  key = jax.eval_shape(lambda: jax.random.key(0))
  assert 0 < memory.of_arrays(key) < 64


def test_products_count_and_what_is_fused_does_not():
  assert _of(lambda x: x @ x, SPEC) == 1
  assert (
    _of(lambda x: jnp.sum(jnp.tanh(x[None] + jnp.zeros((99, 1, 1)))), SPEC) == 0
  )
  # Two are alive at once, of four.
  assert _of(lambda x: ((x @ x) @ x) @ (x @ x), SPEC) in (2, 3)


def test_loops_keep_what_they_stack_and_no_more():
  stack = lambda x: jax.lax.scan(lambda c, _: (c @ x, c), x, length=50)
  assert 50 <= _of(stack, SPEC) <= 53
  carry = lambda x: jax.lax.fori_loop(0, 50, lambda _, c: c @ x, x)
  assert _of(carry, SPEC) <= 2


def test_updates_in_place_take_nothing():
  update = lambda x: jax.lax.dynamic_update_slice(
    x, jnp.zeros((1, 512)), (0, 0)
  )
  assert _of(update, SPEC) == 0


def test_gradients_keep_the_intermediate_values():
  loss = lambda x: jnp.sum(
    jax.lax.scan(lambda c, _: (jnp.tanh(c @ x), None), x, length=20)[0]
  )
  assert _of(jax.grad(loss), SPEC) > 20


def test_the_trace_is_used_by_the_first_call():
  calls = []

  def function(x):
    calls.append(1)
    return x @ x

  jitted = jax.jit(function)
  memory.of_program(jitted.trace(jax.ShapeDtypeStruct((3, 3), jnp.float32)))
  jitted(jnp.ones((3, 3)))
  assert len(calls) == 1


def test_a_refusal_says_what_it_would_take_and_what_there_is(monkeypatch):
  monkeypatch.setattr(memory, 'available', lambda: 8 * 10**9)
  advice = dict(replay='batching.replay_capacity', step='batching.batch_size')
  memory.check(dict(replay=10**9, step=7 * 10**9), advice)
  with pytest.raises(ValueError) as error:
    memory.check(dict(replay=2 * 10**9, step=7 * 10**9), advice)
  assert str(error.value) == (
    'this run needs 9.0 GB (step 7.0 GB, replay 2.0 GB), but this machine has '
    '8.0 GB free: lower batching.batch_size'
  )


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
  files = {
    '/proc/self/cgroup': '0::/a/b\n',
    '/sys/fs/cgroup/a/b/memory.max': 'max\n',
    '/sys/fs/cgroup/a/memory.max': '4000000000\n',
    '/sys/fs/cgroup/a/memory.current': '1500000000\n',
    '/sys/fs/cgroup/a/memory.stat': 'anon 5\ninactive_file 500000000\n',
    '/proc/meminfo': 'MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n',
  }
  monkeypatch.setattr(memory, '_read', lambda path: files.get(str(path), ''))
  assert memory.available() == 3 * 10**9
  files['/sys/fs/cgroup/a/memory.max'] = 'max'
  assert memory.available() == 8_000_000 * 1024
  files['/proc/self/cgroup'] = '4:cpu,memory:/x\n'
  files['/sys/fs/cgroup/memory/x/memory.limit_in_bytes'] = '1000'
  files['/sys/fs/cgroup/memory/x/memory.usage_in_bytes'] = '2000'
  assert memory.available() == 0
