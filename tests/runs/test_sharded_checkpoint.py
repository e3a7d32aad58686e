"""Checkpoints of several processes; here with one. See also tests/cli."""

import builtins
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disco_rl.processes import group as group_lib
from disco_rl.runs import checkpoint
from disco_rl.runs import files
from disco_rl.runs import sharded_checkpoint
from disco_rl.runs import states

pytest.importorskip('orbax.checkpoint')

TREE = {
  'step': jnp.array(7, jnp.int32),
  'half': jnp.array([1.5, -2.0], jnp.bfloat16),
  'snapshots': [{'keys': np.arange(3, dtype=np.uint64), 'name': 'a', 'n': 2}],
  'nothing': None,
}


@pytest.fixture
def group():
  made = group_lib.Group(0, 1, {}, {})
  yield made
  made.leave()


@pytest.fixture
def folder(tmp_path, group, monkeypatch):
  """Returns a folder with two steps; arrays on devices count as shared."""
  monkeypatch.setattr(
    sharded_checkpoint, 'is_shared', lambda leaf: isinstance(leaf, jax.Array)
  )
  path = tmp_path / 'state.orbax'
  sharded_checkpoint.save(path, 3, TREE, group)
  newer = {**TREE, 'step': TREE['step'] + 1}
  sharded_checkpoint.save(path, 12, newer, group)
  return path


def test_the_last_step_is_restored_and_the_one_before_removed(folder, group):
  assert sharded_checkpoint.latest_step(folder) == 12
  assert [path.name for path in folder.iterdir()] == ['12']
  loaded, is_complete = sharded_checkpoint.load(folder, TREE, group)
  assert is_complete
  wanted = {**TREE, 'step': jnp.array(8, jnp.int32)}
  assert jax.tree.structure(loaded) == jax.tree.structure(wanted)
  for one, other in zip(
    jax.tree.leaves(loaded), jax.tree.leaves(wanted), strict=True
  ):
    assert type(one) is type(other) or isinstance(one, jax.Array)
    assert getattr(one, 'dtype', None) == getattr(other, 'dtype', None)
    np.testing.assert_array_equal(one, other)


def test_what_belongs_to_a_process_is_not_given_to_others(folder, group):
  others = group_lib.Group(0, 1, {}, {})
  others.num_processes = 2
  loaded, is_complete = sharded_checkpoint.load(folder, TREE, others)
  assert not is_complete
  assert not jax.tree.leaves(loaded['snapshots'])
  assert int(loaded['step']) == 8


def test_other_structures_are_refused(folder, group):
  other = {**TREE, 'more': jnp.zeros(2)}
  with pytest.raises(checkpoint.CheckpointError, match=r'missing.*more'):
    sharded_checkpoint.load(folder, other, group)
  other = {**TREE, 'half': jnp.zeros(3, jnp.bfloat16)}
  with pytest.raises(checkpoint.CheckpointError, match='half has the shape'):
    sharded_checkpoint.load(folder, other, group)


def test_damage_is_one_sentence(folder, group):
  for path in folder.rglob('*'):
    if path.is_file() and path.name != '_CHECKPOINT_METADATA':
      path.write_bytes(b'')
  with pytest.raises(checkpoint.CheckpointError, match='cannot read') as found:
    sharded_checkpoint.load(folder, TREE, group)
  assert '\n' not in str(found.value)


def test_unfinished_steps_are_ignored_and_removed(folder, group):
  (folder / '20.orbax-checkpoint-tmp-1').mkdir()
  (folder / 'other').mkdir()
  assert sharded_checkpoint.latest_step(folder) == 12
  assert sharded_checkpoint.latest_step(folder / 'none') is None
  sharded_checkpoint.save(folder, 24, TREE, group)
  assert sharded_checkpoint.latest_step(folder) == 24
  sharded_checkpoint.remove(folder)
  assert not folder.exists()


def test_a_folder_that_cannot_be_written(tmp_path, group):
  (tmp_path / 'file').touch()
  with pytest.raises(files.StorageError, match=re.escape('cannot write')):
    sharded_checkpoint.save(tmp_path / 'file' / 'x', 1, TREE, group)


def test_the_newer_form_of_a_checkpoint_is_found(folder):
  path = folder.with_suffix('.npz')
  assert states.find(path) == folder
  for step, wanted in ((11, folder), (13, path)):
    checkpoint.save(path, {'step': np.int32(step)})
    assert states.find(path) == wanted
  sharded_checkpoint.remove(folder)
  assert states.find(path) == path
  path.unlink()
  assert states.find(path) is None


def test_one_process_replaces_the_checkpoint_of_several(folder):
  path = folder.with_suffix('.npz')
  states.save(path, 16, TREE)
  assert path.exists() and not folder.exists()


def test_without_orbax_the_extra_is_named(tmp_path, group, monkeypatch):
  original = builtins.__import__

  def without(name, *args, **kwargs):
    if name.startswith('orbax'):
      raise ImportError(name)
    return original(name, *args, **kwargs)

  monkeypatch.setattr(builtins, '__import__', without)
  with pytest.raises(checkpoint.CheckpointError, match=r'\[hosts\]'):
    sharded_checkpoint.check_installed()
