"""Counts the collective operations of a compiled program, and their bytes."""

from collections.abc import Iterator
import functools
import math
import re
from typing import Any, NamedTuple

import jax
import numpy as np

from disco_rl import memory

# With the names that they have if they are asynchronous.
_KINDS = {
  name + suffix: name
  for name in (
    'all-gather',
    'all-reduce',
    'all-to-all',
    'collective-broadcast',
    'collective-permute',
    'reduce-scatter',
  )
  for suffix in ('', '-start')
}
# Names of a sum in the versions of JAX.
_SUMS = ('psum', 'psum2', 'psum_invariant')
_COMPUTATION = re.compile(r'(?:ENTRY )?%?([\w.\-]+) \(.*\{$')
_NAME = re.compile(r'\s+(?:ROOT )?%?([\w.\-]+) = ')
_OPERATION = re.compile(r'\s*([a-z][\w\-]*)\(([^)]*)\)')
_ARRAY = re.compile(r'\b([a-z]\w*)\[([\d,]*)\]')
_CALLED = re.compile(
  r'\b(?:body|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)'
)
_BRANCHES = re.compile(r'branch_computations=\{([^}]*)\}')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


class Traffic(NamedTuple):
  """What one device gives to collective operations, in one call."""

  num_calls: int
  num_bytes: int

  def __add__(self, other: 'Traffic') -> 'Traffic':  # type: ignore[override]
    """Adds up the traffic of two programs."""
    return Traffic(*(a + b for a, b in zip(self, other, strict=True)))

  def __mul__(self, times: int) -> 'Traffic':  # type: ignore[override]
    """Returns the traffic of a loop."""
    return Traffic(*(times * x for x in self))


_NONE = Traffic(0, 0)


def count(compiled: jax.stages.Compiled) -> Traffic:
  """Counts the collective operations of a compiled program.

  Args:
    compiled: from the method `compile` of a lowered `jax.jit` function.

  Returns:
    Their number, and the bytes of their operands on one device; those in a loop
    as often as it runs, of branches those with the most bytes.
  """
  return count_in_text(compiled.as_text() or '')


def count_in_text(text: str) -> Traffic:
  """Does the same as `count` for the text of a program, in XLA's format."""
  bodies, entry = _computations(text)

  @functools.cache
  def of_computation(name: str) -> Traffic:
    total = _NONE
    sizes: dict[str, int] = {}
    for line in bodies[name]:
      found = _NAME.match(line)
      if found is None:
        continue
      result, rest = _split_type(line[found.end() :])
      sizes[found[1]] = _bytes(result)
      operation = _OPERATION.match(rest)
      if operation is None:
        continue
      kind, operands = operation.groups()
      if kind in _KINDS:
        names = re.findall(r'%([\w.\-]+)', operands)
        total += Traffic(1, sum(sizes[own] for own in names))
        continue
      inner = [of_computation(x) for x in _called(rest) if x in bodies]
      if kind == 'conditional':
        total += max(inner, key=lambda x: x.num_bytes, default=_NONE)
      else:
        total += sum(inner, _NONE) * _trips(kind, rest, inner)
    return total

  return of_computation(entry)


def count_in_trace(traced: jax.stages.Traced, axis: str) -> Traffic:
  """Counts the sums over an axis of devices in a traced program.

  Args:
    traced: from the method `trace` of a `jax.jit` function.
    axis: name of the axis.

  Returns:
    Their number, and the bytes of one device's operands; those in a loop as
    often as it runs, of branches those with the most bytes.
  """
  return _of_jaxpr(traced.jaxpr.jaxpr, axis)


def _of_jaxpr(jaxpr: Any, axis: str) -> Traffic:
  total = _NONE
  for eqn in jaxpr.eqns:
    if eqn.primitive.name in _SUMS and axis in eqn.params['axes']:
      total += Traffic(1, memory.of_arrays([x.aval for x in eqn.invars]))
      continue
    inner = [_of_jaxpr(own, axis) for own in memory.jaxprs_of(eqn)]
    if eqn.primitive.name == 'cond':
      total += max(inner, key=lambda x: x.num_bytes)
    else:
      times = eqn.params['length'] if eqn.primitive.name == 'scan' else 1
      total += sum(inner, _NONE) * times
  return total


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
  """Returns the lines of every computation, and the first one's name."""
  bodies: dict[str, list[str]] = {}
  entry = name = ''
  for line in text.splitlines():
    found = _COMPUTATION.match(line)
    if found:
      name = found[1]
      bodies[name] = []
      entry = name if line.startswith('ENTRY') else entry
    elif name and line.startswith(' '):
      bodies[name].append(line)
  if not entry:
    raise ValueError('this is not the text of a compiled program')
  return bodies, entry


def _split_type(text: str) -> tuple[str, str]:
  """Divides an instruction into the type of its result, and the rest."""
  if not text.startswith('('):
    result, _, rest = text.partition(' ')
    return result, rest
  depth = 0
  for i, letter in enumerate(text):
    depth += (letter == '(') - (letter == ')')
    if depth == 0:
      return text[: i + 1], text[i + 1 :]
  return text, ''


def _bytes(result: str) -> int:
  """Returns the bytes of a type, e.g. `(f32[3,5]{1,0}, s32[])`."""
  return sum(
    _item_size(dtype) * math.prod(int(n) for n in shape.split(',') if n)
    for dtype, shape in _ARRAY.findall(result)
  )


def _item_size(dtype: str) -> int:
  if dtype in ('pred', 's8', 'u8'):
    return 1
  bits = re.search(r'\d+', dtype)
  return int(np.ceil(int(bits[0]) / 8)) if bits else 0


def _called(instruction: str) -> Iterator[str]:
  """Yields the computations that an instruction runs."""
  yield from _CALLED.findall(instruction)
  for names in _BRANCHES.findall(instruction):
    yield from re.findall(r'[\w.\-]+', names)


def _trips(kind: str, instruction: str, inner: list[Traffic]) -> int:
  """Returns how often an instruction runs what it contains."""
  if kind != 'while' or not any(x.num_calls for x in inner):
    return 1
  trips = _TRIPS.search(instruction)
  if trips is None:
    raise ValueError('a loop with collective operations has no known length')
  return int(trips[1])
