"""The optimiser of η."""

from typing import Any

import jax
import jax.flatten_util
import optax

from disco_rl import types
from disco_rl.config import arguments
from disco_rl.config import meta_training as config_lib

# The settings of the default Adam.
_SETTINGS = ('learning_rate', 'max_grad_norm', 'max_abs_update')


class MetaOptimizer:
  """Updates η as one long vector, unless a custom optimiser needs trees.

  One operation per tensor of η would take long to compile.
  """

  def __init__(
    self,
    config: config_lib.Config,
    optimizer: optax.GradientTransformation | None = None,
  ):
    """Builds the optimiser.

    Args:
      config: settings of Adam, the default.
      optimizer: a custom optimiser, which takes gradients and parameters as
        trees like η; None for Adam.

    Raises:
      ValueError: if settings of Adam are given beside a custom optimiser.
    """
    self._takes_trees = optimizer is not None
    if optimizer is None:
      optimizer = _default_optimizer(config)
    else:
      default = config_lib.Config()
      settings = {name: getattr(config, name) for name in _SETTINGS}
      arguments.check_replaced(
        'meta_optimizer',
        optimizer,
        {k: v for k, v in settings.items() if v != getattr(default, k)},
      )
    self._optimizer = optimizer

  def init(self, eta: types.MetaParams) -> Any:
    """Makes the state before the first update of η."""
    if not self._takes_trees:
      eta, _ = jax.flatten_util.ravel_pytree(eta)
    return self._optimizer.init(eta)

  def update(
    self, grads: jax.Array, opt_state: Any, eta: types.MetaParams
  ) -> tuple[jax.Array, Any]:
    """Computes an update of η.

    Args:
      grads: the meta-gradient as one vector, [size of η].
      opt_state: from `init` or the last update.
      eta: η before the update.

    Returns:
      The update as one vector, [size of η], and the new state.
    """
    if not self._takes_trees:
      return self._optimizer.update(grads, opt_state)
    _, unravel = jax.flatten_util.ravel_pytree(eta)
    updates, opt_state = self._optimizer.update(unravel(grads), opt_state, eta)
    return jax.flatten_util.ravel_pytree(updates)[0], opt_state


def _default_optimizer(
  config: config_lib.Config,
) -> optax.GradientTransformation:
  """Makes the Adam that a config describes."""
  parts = []
  if config.max_grad_norm is not None:
    parts.append(optax.clip_by_global_norm(config.max_grad_norm))
  parts.append(optax.scale_by_adam())
  if config.max_abs_update is not None:
    parts.append(optax.clip(config.max_abs_update))
  parts.append(optax.scale(-config.learning_rate))
  return optax.chain(*parts)
