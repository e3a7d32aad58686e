"""Initializers of parameters."""

import haiku as hk


def truncated_normal(
  stddev: float | None,
) -> hk.initializers.Initializer | None:
  """Makes a truncated-normal initializer; None for Haiku's default."""
  return None if stddev is None else hk.initializers.TruncatedNormal(stddev)
