"""Counts the arithmetic of programs, and measures the speed of this machine.

```python
flop = arithmetic.of_program(jax.jit(function).trace(*args))
seconds = flop / arithmetic.measure_speed()
```

XLA's own count (`cost_analysis`) takes the body of a loop once, however often
it runs. Here matrix products and convolutions of the traced program are
counted, loops as often as they run; exponentials, sums and the like are not.
"""

from collections.abc import Callable
import math
import time
from typing import Any

import jax
from jax.interpreters import partial_eval
import jax.numpy as jnp

from disco_rl import memory

UNIT_GFLOP = 24.3
PRODUCT_SIZE = 2048


def make_unit() -> Callable[[], float]:
  """Makes a function that measures one unit, in seconds.

  A unit is the time of 24.3 GFLOP in 2048 x 2048 float32 products, about the
  arithmetic of a straightforward learner step on Catch.
  """
  x = jnp.ones((PRODUCT_SIZE, PRODUCT_SIZE))
  product = jax.jit(lambda a, b: a @ b)
  product(x, x).block_until_ready()
  scale = UNIT_GFLOP * 1e9 / (2 * PRODUCT_SIZE**3)

  def measure() -> float:
    start = time.perf_counter()
    product(x, x).block_until_ready()
    return scale * (time.perf_counter() - start)

  return measure


def measure_speed(num_measurements: int = 5) -> float:
  """Measures how fast the first device multiplies matrices, in FLOP/s.

  Args:
    num_measurements: how many units to measure; the fastest counts, since
      other load only slows them down.
  """
  unit = make_unit()
  return 1e9 * UNIT_GFLOP / min(unit() for _ in range(num_measurements))


def is_accelerated() -> bool:
  """Returns whether every device of JAX has arithmetic of its own."""
  return jax.default_backend() != 'cpu'


def of_program(traced: Any) -> float:
  """Counts the operations of a traced program that its results depend on.

  Args:
    traced: from the method `trace` of a `jax.jit` function.

  Returns:
    FLOP of its matrix products and convolutions, over all devices.
  """
  jaxpr = traced.jaxpr.jaxpr
  used, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
  return _flop(used)


def _flop(jaxpr: Any) -> float:
  """Counts the operations of the products of a jaxpr."""
  total = 0.0
  for eqn in jaxpr.eqns:
    name = eqn.primitive.name
    inner = [_flop(own) for own in memory.jaxprs_of(eqn)]
    if name == 'dot_general':
      left = eqn.invars[0].aval.shape
      ((contracted, _), _) = eqn.params['dimension_numbers']
      terms = math.prod(left[i] for i in contracted)
      total += 2.0 * terms * math.prod(eqn.outvars[0].aval.shape)
    elif name == 'conv_general_dilated':
      # The kernel has [outputs, inputs / groups, ...] in some order.
      kernel = eqn.invars[1].aval.shape
      outputs = kernel[eqn.params['dimension_numbers'].rhs_spec[0]]
      terms = math.prod(kernel) // outputs
      total += 2.0 * terms * math.prod(eqn.outvars[0].aval.shape)
    elif name == 'scan':
      total += eqn.params['length'] * sum(inner)
    elif name == 'shard_map':
      total += eqn.params['mesh'].size * sum(inner)
    elif name == 'cond':
      total += max(inner)
    else:
      total += sum(inner)
  return total
