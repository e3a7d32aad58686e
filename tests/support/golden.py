"""Reads golden vectors, and makes sure that none is left unread.

A file holds flat keys with `/` for nesting. They are the names JAX gives to the
leaves of our own trees, so trees are filled from a file, and compared with it,
by name.
"""

import contextlib
import pathlib
from typing import Any

import jax
import numpy as np

FOLDER = pathlib.Path(__file__).parents[1] / 'golden'

# Older compilers round differently, and `rlax.signed_parabolic` amplifies that
# by a factor of 500.
VALUES = 2e-5 if jax.__version_info__ >= (0, 10) else 1e-4
GRADIENTS = 2e-4
AFTER_UPDATES = 2e-4
INITIAL = 1e-6


class Golden:
  """The arrays of one file, all of which must be read or compared."""

  def __init__(self, name: str):
    with np.load(FOLDER / f'{name}.npz') as archive:
      self._arrays = {key: archive[key] for key in archive.files}
    self._unread = set(self._arrays)

  def __getitem__(self, key: str) -> np.ndarray:
    self._unread.discard(key)
    return self._arrays[key]

  def under(self, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose key begins with `prefix/`, by the rest of the key."""
    start = f'{prefix}/'
    found = {
      key.removeprefix(start): self[key]
      for key in self._arrays
      if key.startswith(start)
    }
    assert found, f'no golden keys under {prefix!r}'
    return found

  def nested(self, prefix: str) -> dict[str, Any]:
    """The arrays under `prefix` as nested dicts."""
    tree: dict[str, Any] = {}
    for key, value in self.under(prefix).items():
      *path, last = key.split('/')
      node = tree
      for part in path:
        node = node.setdefault(part, {})
      node[last] = value
    return tree

  def params(self, prefix: str) -> dict[str, Any]:
    """The arrays under `prefix` as Haiku parameters."""
    tree: dict[str, Any] = {}
    for key, value in self.under(prefix).items():
      module, _, name = key.rpartition('/')
      tree.setdefault(module, {})[name] = value
    return tree

  def fill(self, template: Any, prefix: str) -> Any:
    """Returns a tree like `template`, with golden leaves."""
    arrays = self.under(prefix)
    names = [name for name, _ in named_leaves(template)]
    assert set(names) == set(arrays)
    return jax.tree.unflatten(
      jax.tree.structure(template), [arrays[name] for name in names]
    )

  def check(self, tree: Any, prefix: str, tolerance: float = VALUES) -> None:
    """Compares a tree with all arrays under `prefix`, names included."""
    actual = dict(named_leaves(tree))
    wanted = self.under(prefix)
    assert set(actual) == set(wanted)
    for name, value in wanted.items():
      check_close(actual[name], value, tolerance, f'{prefix}/{name}')

  def check_array(
    self, array: Any, key: str, tolerance: float = VALUES
  ) -> None:
    check_close(array, self[key], tolerance, key)

  def check_all_read(self) -> None:
    assert not self._unread, f'golden keys never used: {sorted(self._unread)}'


@contextlib.contextmanager
def opened(name: str):
  """Opens a golden file; fails at the end if any array was not used."""
  golden = Golden(name)
  yield golden
  golden.check_all_read()


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
  return [
    (jax.tree_util.keystr(path, simple=True, separator='/'), leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  ]


def check_close(actual: Any, wanted: Any, tolerance: float, name: str) -> None:
  assert np.shape(actual) == np.shape(wanted), name
  np.testing.assert_allclose(
    np.asarray(actual), wanted, tolerance, tolerance, err_msg=name
  )


def check_trees_close(actual: Any, wanted: Any, tolerance: float) -> None:
  assert jax.tree.structure(actual) == jax.tree.structure(wanted)
  for (name, a), (_, b) in zip(
    named_leaves(actual), named_leaves(wanted), strict=True
  ):
    check_close(a, b, tolerance, name)
