"""Initial values of parameters."""

import haiku as hk


def truncated_normal(
  stddev: float | None,
) -> hk.initializers.Initializer | None:
  """Truncated normal of a standard deviation; None is Haiku's default."""
  return None if stddev is None else hk.initializers.TruncatedNormal(stddev)
