"""Reads the files that trackers write."""

import pathlib
import struct
import time

import numpy as np


def events(folder):
  """Returns the events of TensorBoard in a folder, in the order of writing."""
  from tensorboardX.proto import event_pb2

  found = []
  for path in sorted(pathlib.Path(folder).glob('events.out.tfevents.*')):
    content, at = path.read_bytes(), 0
    while at < len(content):
      (length,) = struct.unpack_from('<Q', content, at)
      event = event_pb2.Event.FromString(content[at + 12 : at + 12 + length])
      found.append(event)
      at += 12 + length + 4  # Length and data have checksums of four bytes.
    assert at == len(content), path
  return found


def scalars(folder):
  """Returns (environment steps, name to value) of all rows of a seed."""
  return [
    (event.step, {x.tag: x.simple_value for x in event.summary.value})
    for event in events(folder)
    if event.HasField('summary')
  ]


def check_same(folder, rows):
  """Checks that the events of a run are the rows of its table, in order."""
  seeds = {int(row['seed']) for row in rows}
  written = {path.name for path in (folder / 'tensorboard').iterdir()}
  assert written == {'run', *(f'seed_{seed}' for seed in seeds)}
  for seed in seeds:
    found = scalars(folder / 'tensorboard' / f'seed_{seed}')
    own = [row for row in rows if row['seed'] == seed]
    assert [step for step, _ in found] == [row['env_steps'] for row in own]
    for (_, values), row in zip(found, own, strict=True):
      wanted = {
        name: value
        for name, value in row.items()
        if name not in ('seed', 'env_steps') and not np.isnan(value)
      }
      assert values.keys() == wanted.keys()
      for name, value in wanted.items():
        # The table has seven digits, and an event has 32 bits.
        np.testing.assert_allclose(values[name], value, rtol=2e-6)


def wandb_records(folder):
  """Returns the records of the only run of wandb in a folder, which has ended.

  Its server process may still be writing.
  """
  for _ in range(200):
    found = _wandb_records(folder)
    if found and found[-1].HasField('exit'):
      return found
    time.sleep(0.05)
  raise AssertionError(f'the run has not ended: {found}')


def _wandb_records(folder):
  from wandb.proto import wandb_internal_pb2

  (path,) = folder.glob('wandb/*run-*/*.wandb')
  content, at, part, found = path.read_bytes(), 7, b'', []
  while at + 7 <= len(content):
    left = 32768 - at % 32768  # Bytes of the block.
    if left < 7:
      at += left
      continue
    _, length, kind = struct.unpack_from('<IHB', content, at)
    part += content[at + 7 : at + 7 + length]
    at += 7 + length
    if kind in (1, 4):  # The whole, or the last part.
      found.append(wandb_internal_pb2.Record.FromString(part))
      part = b''
  return found
