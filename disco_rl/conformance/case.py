"""A case: inputs, what is computed from them, and how known mistakes look."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import compat
from disco_rl.conformance import samples

# By name, `/` nests: `agent_out/logits`.
Arrays = dict[str, Any]
Compute = Callable[[Arrays], Arrays]


@dataclasses.dataclass(frozen=True)
class Mistake:
  """A known mistake.

  Attributes:
    sentence: what is wrong, after 'looks like'.
    compute: what an implementation with it computes, at least those outputs
      that are different.
  """

  sentence: str
  compute: Compute


@dataclasses.dataclass(frozen=True)
class Case:
  """One case of the file set.

  Attributes:
    name: name of its folder.
    computes: what is computed, in one sentence.
    equation: the equation, in words.
    inputs: name to shape and meaning. A name that ends in `/` stands for all
      arrays below it.
    outputs: the same for outputs, in the order in which they are compared.
    make_inputs: makes the inputs.
    compute: computes the outputs.
    settings: numbers that are not arrays.
    tolerance: relative to the size of an element, or to the largest element of
      its array if that is below 1; see `tolerances`.
    own_tolerances: those of outputs that have another one, by name or prefix.
    builds_on: earlier cases whose computation is part of this one.
    mistakes: name to known mistake that shows here first.
  """

  name: str
  computes: str
  equation: str
  inputs: Mapping[str, str]
  outputs: Mapping[str, str]
  make_inputs: Callable[[samples.Samples], Arrays]
  compute: Compute
  settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  tolerance: float = 1e-5
  own_tolerances: Mapping[str, float] = dataclasses.field(default_factory=dict)
  builds_on: tuple[str, ...] = ()
  mistakes: Mapping[str, Mistake] = dataclasses.field(default_factory=dict)


def inputs_of(case: Case) -> dict[str, np.ndarray]:
  """Makes the inputs of a case: float32, int32 and bool arrays."""
  given = case.make_inputs(samples.Samples(case.name))
  return {name: _narrow(x) for name, x in given.items()}


def run(
  compute: Compute, inputs: Mapping[str, np.ndarray], in_64_bits: bool = True
) -> dict[str, np.ndarray]:
  """Computes outputs, rounded to 32 bits at the end.

  Args:
    compute: a function of a case.
    inputs: its inputs.
    in_64_bits: whether to compute in float64, as far as the library does;
      otherwise in float32.

  Returns:
    Name to float32, int32 or bool array.
  """
  with (
    compat.enable_x64(in_64_bits),
    jax.default_matmul_precision('highest'),
  ):
    given = {
      name: jnp.asarray(x, np.float64)
      if in_64_bits and x.dtype == np.float32
      else jnp.asarray(x)
      for name, x in inputs.items()
    }
    outs = jax.jit(compute)(given)
    return {name: _narrow(np.asarray(x)) for name, x in outs.items()}


def tolerances(
  case: Case, name: str, expected: np.ndarray
) -> tuple[float, float]:
  """Returns the absolute and the relative tolerance of an output.

  Args:
    case: the case.
    name: name of the output.
    expected: the output.

  Returns:
    `a` and `r` in `|found - expected| <= a + r * |expected|`; zeros for arrays
    that are not of floating point.
  """
  if expected.dtype.kind != 'f':
    return 0.0, 0.0
  relative = case.own_tolerances.get(
    key_of(name, case.own_tolerances) or '', case.tolerance
  )
  largest = float(np.abs(expected).max(initial=0.0))
  return relative * (min(1.0, largest) or 1.0), relative


def key_of(name: str, table: Iterable[str]) -> str | None:
  """Returns the name, or its longest prefix that ends in `/`, in a table."""
  found = [
    key
    for key in table
    if key == name or (key.endswith('/') and name.startswith(key))
  ]
  return max(found, key=len, default=None)


def in_order(arrays: Mapping[str, Any], table: Mapping[str, str]) -> Arrays:
  """Sorts arrays by their place in a table of meanings, then by name."""
  places = {key: i for i, key in enumerate(table)}
  ordered: list[tuple[int, str]] = []
  for name in arrays:
    key = key_of(name, table)
    if key is None:
      raise ValueError(f'{name} has no meaning in {sorted(table)}')
    ordered.append((places[key], name))
  return {name: arrays[name] for _, name in sorted(ordered)}


def under(arrays: Mapping[str, Any], prefix: str) -> Arrays:
  """Returns the arrays below a prefix, by the rest of their names."""
  start = f'{prefix}/'
  return {
    name.removeprefix(start): x
    for name, x in arrays.items()
    if name.startswith(start)
  }


def prefixed(arrays: Mapping[str, Any], prefix: str) -> Arrays:
  """Puts a prefix before the names of arrays."""
  return {f'{prefix}/{name}': x for name, x in arrays.items()}


def _narrow(x: Any) -> np.ndarray:
  """Converts to float32, int32 or bool."""
  x = np.asarray(x)
  narrow = {'f': np.float32, 'i': np.int32, 'u': np.int32, 'b': np.bool_}
  return x.astype(narrow[x.dtype.kind])
