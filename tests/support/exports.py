"""Programs lowered for accelerators that are not here."""

from collections.abc import Mapping
import re
from typing import Any, NamedTuple

import jax
import jax.export

PLATFORMS = ('cuda', 'tpu')
COLLECTIVES = (
  'all_reduce',
  'all_gather',
  'all_to_all',
  'collective_broadcast',
  'collective_permute',
  'reduce_scatter',
)


class Lowered(NamedTuple):
  """What a lowered program consists of."""

  text: str  # StableHLO.
  num_devices: int
  num_donated: int  # Arguments whose memory the results may take.
  collectives: Mapping[str, int]  # Operations in the text, by their kind.


def lower(jitted: Any, *args: Any) -> Lowered:
  """Lowers a program for all platforms, and checks what none may contain.

  Args:
    jitted: from `jax.jit`, or from `Placement.compile`.
    *args: its arguments, or their specs.

  Returns:
    The program.
  """
  exported = jax.export.export(jitted, platforms=PLATFORMS)(*args)
  text = exported.mlir_module()
  assert len(text) > 10_000
  for name in ('callback', 'infeed', 'outfeed', 'stablehlo.send'):
    assert name not in text, name
  assert not re.search(r'tensor<[^>]*f64>', text)
  assert not re.search(r'tensor<[^>]*\?', text)
  found = {
    name: len(re.findall(rf'"?stablehlo\.{name}\b', text))
    for name in COLLECTIVES
  }
  return Lowered(
    text=text,
    num_devices=exported.nr_devices,
    num_donated=len(re.findall(r'tf\.aliasing_output|jax\.buffer_donor', text)),
    collectives={name: n for name, n in found.items() if n},
  )
