"""Saves and restores the state of a run of several processes, with Orbax.

```text
state.orbax/<step>/    the last checkpoint, written by all processes
```

Arrays that are spread over the processes are saved by them together, and can be
restored over another number of processes or devices. All else, such as the
snapshots of environments on the host, belongs to one process; it is saved as
the bytes of a file of `checkpoint.py`, and restored by as many processes only.

Orbax writes a step to a temporary folder and renames or marks it when it is
complete, before it removes the previous one.
"""

from collections.abc import Sequence
import io
import pathlib
import shutil
import tempfile
from typing import Any

import jax
import numpy as np

from disco_rl import installation
from disco_rl.processes import group as group_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import files

EXTRA = 'hosts'


def check_installed() -> None:
  """Raises a `CheckpointError` if Orbax is not installed."""
  _import()


def latest_step(folder: pathlib.Path) -> int | None:
  """Returns the step of the last complete checkpoint; None if there is none.

  Args:
    folder: the folder of the checkpoints, which may not exist.
  """
  if not folder.is_dir():
    return None
  return max(
    (
      int(path.name)
      for path in folder.iterdir()
      if path.name.isdecimal() and (path / '_CHECKPOINT_METADATA').exists()
    ),
    default=None,
  )


def save(
  folder: pathlib.Path, step: int, tree: Any, group: group_lib.Group
) -> None:
  """Saves a tree, and removes earlier steps; called by all processes.

  Args:
    folder: the folder of the checkpoints.
    step: the step.
    tree: see `checkpoint.check`; spread over the processes or not.
    group: the processes.

  Raises:
    StorageError: if it cannot be written; the last checkpoint is unchanged.
  """
  if latest_step(folder) == step:
    return  # The run was resumed from it, and ends here.
  ocp = _import()
  named = checkpoint.named_leaves(tree)
  shared = {name: leaf for name, leaf in named if is_shared(leaf)}
  own = {name: leaf for name, leaf in named if name not in shared}
  buffer = io.BytesIO()
  checkpoint.write(buffer, list(own.values()))
  sizes = group.gather('bytes of the checkpoint', buffer.tell())
  facts = dict(
    format=checkpoint.FORMAT,
    step=step,
    arrays={name: _layout(leaf) for name, leaf in shared.items()},
    own=list(own),
    sizes=sizes,
  )
  args = dict(
    shared=ocp.args.StandardSave(shared),
    own=ocp.args.StandardSave(dict(files=_join(buffer.getvalue(), sizes))),
    facts=ocp.args.JsonSave(facts),
  )
  try:
    with _manager(ocp, folder) as manager:
      manager.save(step, args=ocp.args.Composite(**args), force=True)
      manager.wait_until_finished()
  except (OSError, ValueError) as error:
    group.wait_for_news()  # A process may be lost.
    first_line = str(error).strip().partition('\n')[0]
    raise files.StorageError(
      f'cannot write {folder}: {first_line[:200]}'
    ) from error


def load(
  folder: pathlib.Path, like: Any, group: group_lib.Group | None
) -> tuple[Any, bool]:
  """Loads the last checkpoint; called by all processes.

  Args:
    folder: the folder of the checkpoints, with a complete one.
    like: a tree of the same structure, shapes and dtypes; of arrays or specs.
      Those that are spread over processes or devices have their shardings.
    group: the processes; None for one.

  Returns:
    The tree, and whether it is complete: leaves that belong to one process are
    None if there were more or fewer processes then.

  Raises:
    CheckpointError: if it cannot be read, or is not like `like`.
  """
  ocp = _import()
  step = latest_step(folder)
  path = folder / str(step)
  restore = lambda manager, **args: manager.restore(
    step, args=ocp.args.Composite(**args)
  )
  try:
    with _manager(ocp, folder, is_new=False) as manager:
      facts = restore(manager, facts=ocp.args.JsonRestore())['facts']
      wanted = dict(checkpoint.named_leaves(like))
      is_complete = len(facts['sizes']) == (group.num_processes if group else 1)
      _check(path, facts, wanted, is_complete)
      specs = {name: _spec(wanted[name]) for name in facts['arrays']}
      result = restore(manager, shared=ocp.args.StandardRestore(specs))
      leaves = dict(result['shared'])
      if is_complete and facts['own']:
        shape = (len(facts['sizes']), max(facts['sizes']))
        spec = jax.ShapeDtypeStruct(shape, np.uint8, sharding=_by_process())
        result = restore(
          manager, own=ocp.args.StandardRestore(dict(files=spec))
        )
        leaves |= _parse_own(path, result['own']['files'], facts, wanted, group)
  except checkpoint.CheckpointError:
    raise
  except Exception as error:
    first_line = str(error).strip().partition('\n')[0]
    raise checkpoint.CheckpointError(
      f'cannot read the checkpoint {path}: {first_line[:200]}'
    ) from error
  ordered = [leaves.get(name) for name in wanted]
  tree = jax.tree.unflatten(jax.tree.structure(like), ordered)
  return tree, is_complete or not facts['own']


def remove(folder: pathlib.Path) -> None:
  """Removes all checkpoints."""
  if folder.is_dir():
    with files.storing(folder):
      shutil.rmtree(folder)


def is_shared(leaf: Any) -> bool:
  """Returns whether an array is spread over several processes, or its specs."""
  sharding = getattr(leaf, 'sharding', None)
  return sharding is not None and not sharding.is_fully_addressable


def _import() -> Any:
  try:
    import orbax.checkpoint as ocp
  except ImportError:
    raise checkpoint.CheckpointError(
      'checkpoints of several processes need the package orbax-checkpoint, '
      f'which is not installed: {installation.install_hint(EXTRA)}'
    ) from None
  return ocp


def _manager(ocp: Any, folder: pathlib.Path, is_new: bool = True) -> Any:
  """Opens the folder of the checkpoints, as a context manager."""
  options = ocp.CheckpointManagerOptions(
    max_to_keep=1,
    create=is_new,
    enable_async_checkpointing=False,
    cleanup_tmp_directories=is_new,
  )
  handlers = dict(
    shared=ocp.StandardCheckpointHandler(),
    own=ocp.StandardCheckpointHandler(),
    facts=ocp.JsonCheckpointHandler(),
  )
  return ocp.CheckpointManager(
    folder.absolute(), options=options, item_handlers=handlers
  )


def _layout(leaf: Any) -> list[Any]:
  return [list(leaf.shape), str(leaf.dtype)]


def _spec(leaf: Any) -> Any:
  sharding = getattr(leaf, 'sharding', None)
  if sharding is None:
    sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  return jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype, sharding=sharding)


def _check(
  path: pathlib.Path, facts: Any, wanted: dict[str, Any], is_complete: bool
) -> None:
  """Raises a `CheckpointError` if a checkpoint is not like a tree.

  Args:
    path: path of the checkpoint, for messages.
    facts: its facts.
    wanted: the leaves of the tree, by name.
    is_complete: whether leaves that belong to one process are restored.
  """
  if facts.get('format') != checkpoint.FORMAT:
    raise checkpoint.CheckpointError(
      f'the checkpoint {path} was made by another version of disco_rl: it has '
      f'the format {facts.get("format")}, and this version reads '
      f'{checkpoint.FORMAT}'
    )
  arrays, own = facts['arrays'], facts['own']
  if is_complete:
    checkpoint.check_names(path, [*arrays, *own], wanted)
  else:
    others = [x for x in wanted if not checkpoint.is_below(x, own, arrays)]
    checkpoint.check_names(path, arrays, others)
  for name, layout in arrays.items():
    if _layout(wanted[name]) != layout:
      raise checkpoint.CheckpointError(
        f'{path}: {name} has the shape and type {layout}, but '
        f'{_layout(wanted[name])} are needed. Was it made with other settings?'
      )


def _join(content: bytes, sizes: Sequence[int]) -> jax.Array:
  """Makes one array over all processes of the bytes of each, [P, bytes].

  Args:
    content: the bytes of this process.
    sizes: number of bytes of each process.
  """
  row = np.zeros((1, max(sizes)), np.uint8)
  row[0, : len(content)] = np.frombuffer(content, np.uint8)
  return jax.make_array_from_process_local_data(
    _by_process(), row, (len(sizes), max(sizes))
  )


def _by_process() -> jax.sharding.NamedSharding:
  """Returns the sharding of an array with one row per process."""
  devices: dict[int, jax.Device] = {}
  for device in jax.devices():
    devices.setdefault(device.process_index, device)
  first = [devices[i] for i in sorted(devices)]
  mesh = jax.sharding.Mesh(np.asarray(first), ('processes',))
  return jax.sharding.NamedSharding(
    mesh, jax.sharding.PartitionSpec('processes')
  )


def _parse_own(
  path: pathlib.Path,
  joined: jax.Array,
  facts: Any,
  wanted: dict[str, Any],
  group: group_lib.Group | None,
) -> dict[str, Any]:
  """Returns the leaves that belong to this process, by name."""
  process_id = group.process_id if group else 0
  row = np.asarray(joined.addressable_data(0))[0]
  content = row[: facts['sizes'][process_id]].tobytes()
  like = [wanted[name] for name in facts['own']]
  with tempfile.TemporaryDirectory() as folder:
    part = pathlib.Path(folder) / path.name
    part.write_bytes(content)
    leaves = checkpoint.load(part, like)
  return dict(zip(facts['own'], leaves, strict=True))
