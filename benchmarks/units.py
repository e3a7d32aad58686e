"""The unit of time of all benchmarks, and their output.

The speed of a machine varies, so times are given relative to the time of matrix
products measured in the same run.
"""

from collections.abc import Callable, Sequence
import json
import platform
import time
from typing import Any

import jax
import jax.numpy as jnp

from disco_rl.runs import files

UNIT_GFLOP = 24.3
_PRODUCT_SIZE = 2048


def make_unit() -> Callable[[], float]:
  """Makes a function that measures one unit, in seconds.

  A unit is the time of 24.3 GFLOP in 2048 x 2048 float32 products, about the
  arithmetic of a straightforward learner step on Catch.
  """
  x = jnp.ones((_PRODUCT_SIZE, _PRODUCT_SIZE))
  product = jax.jit(lambda a, b: a @ b)
  product(x, x).block_until_ready()
  scale = UNIT_GFLOP * 1e9 / (2 * _PRODUCT_SIZE**3)

  def measure() -> float:
    start = time.perf_counter()
    product(x, x).block_until_ready()
    return scale * (time.perf_counter() - start)

  return measure


def _format(value: Any) -> str:
  return f'{value:.4g}' if isinstance(value, float) else str(value)


def report(results: Sequence[dict[str, Any]], json_path: str | None) -> None:
  """Prints results as a table, and writes them as JSON if a path is given."""
  print(f'jax {jax.__version__}, {platform.machine()}, {jax.devices()}')
  columns = list(results[0])
  print(' | '.join(columns))
  for row in results:
    print(' | '.join(_format(row[column]) for column in columns))
  if json_path:
    with files.atomic_writer(json_path) as file:
      file.write(json.dumps(list(results), indent=2).encode())
