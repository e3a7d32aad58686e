"""Wraps functions whose names differ between versions of JAX and Optax.

Each wrapper calls the new function if there is one. The oldest versions that
the tests pass with are in `constraints/oldest.txt`.
"""

from collections.abc import Callable
import importlib
from typing import Any

import chex
import jax
import optax

from disco_rl import types


def shard_map(
  function: Callable[..., Any],
  mesh: jax.sharding.Mesh,
  in_specs: Any,
  out_specs: Any,
) -> Callable[..., Any]:
  """Maps a function over the shards of its arguments.

  JAX does not check which results are the same on all devices, and does not sum
  gradients: `function` must average over devices itself.

  Args:
    function: takes one shard of each argument.
    mesh: the devices.
    in_specs: how the arguments are sharded.
    out_specs: how the results are sharded.

  Returns:
    A function of whole arrays.
  """
  specs = dict(mesh=mesh, in_specs=in_specs, out_specs=out_specs)
  if hasattr(jax, 'shard_map'):
    return jax.shard_map(function, **specs, check_vma=False)
  old = importlib.import_module('jax.experimental.shard_map')
  return old.shard_map(function, **specs, check_rep=False)


def axis_size(axis_name: str) -> int:
  """Returns the size of a named axis, inside the function mapped over it."""
  if hasattr(jax.lax, 'axis_size'):
    return jax.lax.axis_size(axis_name)
  return jax.lax.psum(1, axis_name)


def enable_x64(enabled: bool) -> Any:
  """Returns a context in which arrays of 64 bits are enabled, or not."""
  if hasattr(jax, 'enable_x64'):
    return jax.enable_x64(enabled)
  old = importlib.import_module('jax.experimental')
  return old.enable_x64(enabled)


def tree_norm(tree: chex.ArrayTree) -> types.Array:
  """Returns the L2 norm of all leaves of a tree together, []."""
  if hasattr(optax, 'tree') and hasattr(optax.tree, 'norm'):
    return optax.tree.norm(tree)
  return optax.global_norm(tree)


def initialize_distributed(
  coordinator: str | None = None,
  num_processes: int | None = None,
  process_id: int | None = None,
  *,
  timeout: int,
  bind_address: str | None = None,
) -> None:
  """Starts JAX's multi-process runtime, see `jax.distributed.initialize`.

  Args:
    coordinator: address of process 0; None to detect it.
    num_processes: number of processes; None to detect it.
    process_id: number of this process; None to detect it.
    timeout: seconds to wait for the other processes.
    bind_address: the address on which process 0 listens; None for all.
  """
  if getattr(jax.config, 'jax_cpu_collectives_implementation', None) == 'none':
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  if hasattr(jax.config, 'jax_enable_preemption_service'):
    # It would replace the handler of SIGTERM.
    jax.config.update('jax_enable_preemption_service', False)
  jax.distributed.initialize(
    coordinator,
    num_processes,
    process_id,
    initialization_timeout=timeout,
    coordinator_bind_address=bind_address,
  )


def distributed_client() -> Any | None:
  """Returns the client of JAX's multi-process runtime; None if it is off."""
  return _distributed_state().client


def coordinator_address() -> str:
  """Returns the address of process 0, once the runtime has started."""
  return _distributed_state().coordinator_address


def jaxlib_version() -> str:
  """Returns the version of jaxlib."""
  return importlib.import_module('jaxlib').__version__


def _distributed_state() -> Any:
  return importlib.import_module('jax._src.distributed').global_state
