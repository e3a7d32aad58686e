"""Scales of experiments: the same structure with smaller sizes.

Agents, batch, replay and the widths of networks are multiplied by the scale,
down to the least of each. The number of inner updates, the length of
trajectories and the rule keep their sizes, so that a meta-gradient has the same
structure, and η fits every scale. So do lifetimes, which are counted in
updates: with smaller batches, agents do not learn in fewer of them.
"""

from collections.abc import Mapping
import fractions
from typing import Any

from disco_rl import fields

# Two trajectories, so that one of them can be replayed.
LEAST_BATCH = 2
_LEAST_CHANNELS = 4
_LEAST_WIDTH = 16
# Arguments of networks to the least width of their layers.
_WIDTHS = {
  'net_args.channels': _LEAST_CHANNELS,
  'net_args.dense': _LEAST_WIDTH,
  'net_args.model_kwargs.head_mlp_hiddens': _LEAST_WIDTH,
  'net_args.model_kwargs.lstm_size': _LEAST_WIDTH,
  'net_args.core_kwargs.size': _LEAST_WIDTH,
}
_MAX_DIGITS = 12


def parse(scale: Any) -> fractions.Fraction:
  """Parses a scale.

  Args:
    scale: a text, `'1/64'` or a decimal such as `'0.25'`; or a number.

  Returns:
    The scale, above 0 and at most 1.

  Raises:
    ValueError: for anything else.
  """
  text = str(scale).strip()
  value = None
  is_number = not isinstance(scale, bool) and len(text) <= _MAX_DIGITS
  if is_number and 'e' not in text.lower() and '_' not in text:
    try:
      value = fractions.Fraction(text)
    except (ValueError, ZeroDivisionError):
      value = None
  if value is None or not 0 < value <= 1:
    raise ValueError(
      'scale (--scale; in Python: scale=...) must be 1/N for a whole number N, '
      'e.g. 1/64, or a number above 0 and of at most 1, got '
      f'{fields.shorten(scale)}'
    )
  return value


def size(published: int, scale: fractions.Fraction, least: int = 1) -> int:
  """Returns a size at a scale.

  Args:
    published: the size at scale 1.
    scale: the scale.
    least: the least size, unless the published one is smaller.

  Returns:
    The size, rounded to the nearest whole number; halves are rounded up.
  """
  half = fractions.Fraction(1, 2)
  return max(min(least, published), int(published * scale + half))


def network_widths(
  settings: Any, path: str, scale: fractions.Fraction
) -> dict[str, Any]:
  """Returns the widths of a network at a scale.

  Args:
    settings: a group with the network's arguments, `net_args`.
    path: path of the group.
    scale: the scale.

  Returns:
    Path of a setting to its value, for the widths that the network has.
  """
  found: dict[str, Any] = {}
  for name, least in _WIDTHS.items():
    value = settings
    for part in name.split('.'):
      is_group = isinstance(value, Mapping) or hasattr(value, 'items')
      value = value.get(part) if is_group else None
    if isinstance(value, int):
      found[f'{path}.{name}'] = size(value, scale, least)
    elif isinstance(value, tuple | list):
      found[f'{path}.{name}'] = tuple(size(x, scale, least) for x in value)
  return found
