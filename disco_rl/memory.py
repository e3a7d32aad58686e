"""Estimates the memory of a program, before anything is allocated.

```python
parts = dict(
  state=memory.of_arrays(state), step=memory.of_program(step.trace(state))
)
memory.check(parts, advice=dict(state='num_seeds', step='batch_size'))
```

A process that needs more than there is would otherwise slow down the whole
machine, and be killed much later. The estimate is a lower bound: inside a
program, only arrays that no compiler can avoid are counted.
"""

from collections.abc import Iterable, Mapping
import math
import os
import pathlib
import re
from typing import Any, NamedTuple

import jax

# Operations whose results are stored; others are fused into their users.
_STORED = frozenset(
  (
    'all_gather',
    'concatenate',
    'conv_general_dilated',
    'cumsum',
    'dot_general',
    'dynamic_update_slice',
    'gather',
    'random_bits',
    'reduce_window',
    'scan',
    'scatter',
    'scatter-add',
    'scatter_add',
    'sort',
    'threefry2x32',
    'while',
  )
)
# Operations that change their first argument in place, if it is not used later.
_IN_PLACE = frozenset(
  ('dynamic_update_slice', 'scatter', 'scatter-add', 'scatter_add')
)


class NotEnoughMemoryError(ValueError):
  """Raised for a run that needs more memory than there is.

  Attributes:
    is_user_facing: whether the message is written for users, so that commands
      show it without a traceback.
    estimate: what the run needs, if it is known.
  """

  is_user_facing = True

  def __init__(self, message: str, estimate: 'Estimate | None' = None):
    """Stores the estimate."""
    super().__init__(message)
    self.estimate = estimate


class Estimate(NamedTuple):
  """The memory that a run needs at least, and what there is."""

  parts: Mapping[str, int]  # Name of each part of the run to its bytes.
  free: int | None  # Bytes that this process may allocate; None if unknown.

  @property
  def needed(self) -> int:
    """The bytes of all parts."""
    return sum(self.parts.values())

  def describe(self) -> str:
    """Returns words for the total and the parts, the largest first."""
    shown = ', '.join(f'{name} {show(size)}' for name, size in self._ordered())
    return f'{show(self.needed)} ({shown})'

  def describe_free(self) -> str:
    """Returns words for what there is."""
    return 'unknown' if self.free is None else show(self.free)

  def largest(self) -> str:
    """Returns the name of the largest part."""
    return self._ordered()[0][0]

  def _ordered(self) -> list[tuple[str, int]]:
    return sorted(self.parts.items(), key=lambda part: -part[1])


def check(parts: Mapping[str, int], advice: Mapping[str, str]) -> Estimate:
  """Raises a `NotEnoughMemoryError` for a run larger than the free memory.

  Checks on CPU only; accelerators raise an error by themselves.

  Args:
    parts: name of each part of the run to the bytes it needs.
    advice: name of each part to the settings that make it smaller.

  Returns:
    The estimate; on accelerators without the free memory.
  """
  free = available() if jax.default_backend() == 'cpu' else None
  estimate = Estimate(dict(parts), free)
  if free is None or estimate.needed <= free:
    return estimate
  raise NotEnoughMemoryError(
    f'this run needs {estimate.describe()}, but this machine has '
    f'{estimate.describe_free()} free: lower {advice[estimate.largest()]}',
    estimate,
  )


def per_process(parts: Mapping[str, int], num_processes: int) -> dict[str, int]:
  """Returns the memory that each of several processes needs at least.

  Args:
    parts: name of each part of the run to the bytes it needs in all.
    num_processes: number of processes over which the run is sharded.

  Returns:
    Equal shares. What all processes have a copy of needs more.
  """
  return {name: size // num_processes for name, size in parts.items()}


def of_arrays(tree: Any) -> int:
  """Returns the bytes of a tree of arrays or specs."""
  return sum(_bytes(x) for x in jax.tree.leaves(tree))


def of_program(traced: Any) -> int:
  """Returns the bytes of the arrays inside a program, at its peak.

  Args:
    traced: from `jax.jit(function).trace`, which keeps the trace for the first
      call.

  Returns:
    The bytes besides its arguments.
  """
  try:
    return _peak(traced.jaxpr.jaxpr)
  except (AttributeError, IndexError, KeyError, TypeError, ValueError):
    # Another version of JAX may represent programs differently. A run must not
    # fail because of its estimate; tests, which compare the numbers, do.
    return 0


def jaxprs_of(eqn: Any) -> list[Any]:
  """Returns the programs inside an operation, such as the body of a loop."""
  return list(_find_jaxprs(eqn.params.values()))


def available() -> int | None:
  """Returns the bytes that this process may still allocate; None if unknown."""
  limits = [_of_machine(), _of_process(), *_of_containers()]
  return min((x for x in limits if x is not None), default=None)


def _peak(jaxpr: Any) -> int:
  """Returns the largest number of bytes that are alive inside a jaxpr."""
  last_use: dict[Any, float] = {}
  for i, eqn in enumerate(jaxpr.eqns):
    last_use |= {var: i for var in eqn.invars if not hasattr(var, 'val')}
  last_use |= {
    var: math.inf for var in jaxpr.outvars if not hasattr(var, 'val')
  }
  ends: dict[float, list[Any]] = {}
  for var, end in last_use.items():
    ends.setdefault(end, []).append(var)
  kept = set(jaxpr.constvars)
  sizes: dict[Any, int] = {}  # Of arrays that this jaxpr allocated.
  alive = highest = 0
  for i, eqn in enumerate(jaxpr.eqns):
    # The arguments of the whole program are donated.
    own = _outputs(eqn, {*ends.get(i, ())} - kept)
    inner, is_call = _inside(eqn)
    total = sum(own.values())
    during = max(inner, total) if is_call else inner + total
    highest = max(highest, alive + during)
    sizes |= own
    alive += total
    unused = [var for var in own if var not in last_use]
    alive -= sum(sizes.pop(var, 0) for var in [*ends.get(i, ()), *unused])
  return highest


def _outputs(eqn: Any, dying: set[Any]) -> dict[Any, int]:
  """Returns the arrays that an operation allocates, with their bytes.

  Args:
    eqn: the operation.
    dying: arrays that are not used after it.
  """
  name = eqn.primitive.name
  if name not in _STORED and not jaxprs_of(eqn):
    return {}
  own = {var: _bytes(var.aval) for var in eqn.outvars}
  target = eqn.invars[0] if eqn.invars else None
  if name in _IN_PLACE and not hasattr(target, 'val') and target in dying:
    return dict.fromkeys(own, 0)
  if name == 'scan':
    # The carry, whose shape is the same in every step, is updated in place. A
    # loop of one step allocates no more than its body.
    is_loop = eqn.params['length'] != 1
    for var, inner in zip(eqn.outvars, jaxprs_of(eqn)[0].outvars, strict=True):
      if not is_loop or var.aval.shape == inner.aval.shape:
        own[var] = 0
  elif name == 'while':
    own = dict.fromkeys(own, 0)
  return own


def _inside(eqn: Any) -> tuple[int, bool]:
  """Returns the bytes inside an operation, and whether they include results.

  Args:
    eqn: the operation.
  """
  inner = max((_peak(jaxpr) for jaxpr in jaxprs_of(eqn)), default=0)
  if eqn.primitive.name == 'shard_map':
    inner *= eqn.params['mesh'].size
  return inner, eqn.primitive.name not in ('scan', 'while')


def _find_jaxprs(values: Iterable[Any]) -> Iterable[Any]:
  for value in values:
    if hasattr(value, 'eqns') and hasattr(value, 'outvars'):
      yield value
    elif hasattr(getattr(value, 'jaxpr', None), 'eqns'):
      yield value.jaxpr
    elif isinstance(value, tuple | list):
      yield from _find_jaxprs(value)
    elif isinstance(value, Mapping):
      yield from _find_jaxprs(value.values())


def _bytes(x: Any) -> int:
  """Returns the bytes of an array or a spec; 0 for anything else."""
  shape, dtype = getattr(x, 'shape', None), getattr(x, 'dtype', None)
  if shape is None or dtype is None:
    return 0
  return math.prod(shape) * getattr(dtype, 'itemsize', 4)


def _of_machine() -> int | None:
  text = _read('/proc/meminfo')
  found = re.search(r'^MemAvailable:\s+(\d+) kB', text, re.MULTILINE)
  if found:
    return int(found[1]) * 1024
  try:
    return os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
  except (AttributeError, OSError, ValueError):
    return None


def _of_process() -> int | None:
  """Returns the bytes left under `ulimit -v`; None if unlimited or unknown."""
  try:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = int(_read('/proc/self/statm').split()[0])
    page = os.sysconf('SC_PAGE_SIZE')
  except (ImportError, IndexError, OSError, ValueError):
    return None
  if limit == resource.RLIM_INFINITY:
    return None
  return max(0, limit - used * page)


def _of_containers() -> list[int]:
  """Returns the bytes left under the memory limit of each enclosing cgroup."""
  left = []
  for line in _read('/proc/self/cgroup').splitlines():
    _, controllers, path = [*line.split(':', 2), '', ''][:3]
    files = ('memory.max', 'memory.current', 'inactive_file')
    root = pathlib.Path('/sys/fs/cgroup')
    if 'memory' in controllers.split(','):
      files = (
        'memory.limit_in_bytes',
        'memory.usage_in_bytes',
        'total_inactive_file',
      )
      root /= 'memory'
    elif controllers:
      continue
    inner = root / path.lstrip('/')
    for folder in (inner, *inner.parents):
      limit, used = (_number(_read(folder / name)) for name in files[:2])
      if limit is not None and used is not None:
        stat = _read(folder / 'memory.stat')
        cached = re.search(rf'^{files[2]} (\d+)', stat, re.MULTILINE)
        reclaimable = int(cached[1]) if cached else 0
        left.append(max(0, limit - used + reclaimable))
      if folder == root:
        break
  return left


def _read(path: str | pathlib.Path) -> str:
  try:
    return pathlib.Path(path).read_text(encoding='utf-8')
  except (OSError, ValueError):
    return ''


def _number(text: str) -> int | None:
  return int(text) if text.strip().isdigit() else None


def show(size: float) -> str:
  """Formats a number of bytes."""
  if size >= 1e15:
    return f'{size / 1e12:.0f} TB'
  if size < 1e9:
    return f'{size / 1e6:.1f} MB'
  return f'{size / 1e9:.1f} GB'
