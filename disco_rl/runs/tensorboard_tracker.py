"""Writes event files for TensorBoard, without TensorFlow.

`tensorboard --logdir runs` shows them. The step of a scalar is the number of
environment steps of one agent.
"""

import json
import pathlib
import struct
import time
from typing import Any

import numpy as np

from disco_rl.runs import metrics
from disco_rl.runs import tracker_files
from disco_rl.runs import trackers


class TensorBoard(trackers.Tracker):
  """Writes one folder of events per seed, and one for the run as a whole."""

  def __init__(self, run: trackers.RunInfo):
    """Replaces the event files of the run, and writes its settings."""
    from tensorboardX import event_file_writer
    from tensorboardX import summary
    from tensorboardX.proto import event_pb2
    from tensorboardX.proto import summary_pb2

    self._writer_class = event_file_writer.EventsWriter
    self._text = summary.text
    self._event = event_pb2.Event
    self._summary = summary_pb2.Summary
    self._folder = run.folder / tracker_files.TENSORBOARD
    self._writers: dict[str, Any] = {}
    self._last_step = 0
    tracker_files.remove(run.folder, (tracker_files.TENSORBOARD,))
    text = json.dumps(run.config, indent=2)
    self._write('run', self._text('config', f'```json\n{text}\n```'), 0)
    self._flush()

  def write(self, rows: list[metrics.Row]) -> None:
    """Writes the finite and infinite values of rows; NaN is left out."""
    for row in rows:
      step = int(row['env_steps'])
      values = [
        self._summary.Value(tag=name, simple_value=float(value))
        for name, value in row.items()
        if name not in ('seed', 'env_steps') and not np.isnan(value)
      ]
      name = f'seed_{int(row["seed"])}'
      self._write(name, self._summary(value=values), step)
      self._last_step = max(self._last_step, step)
    self._flush()

  def finish(self, summary: trackers.Summary) -> None:
    """Writes pictures and the final table."""
    table = _markdown(summary)
    self._write('run', self._text('final', table), self._last_step)
    for path in summary.pictures:
      self._write('run', self._picture(path), self._last_step)

  def close(self) -> None:
    """Closes all files."""
    for writer in self._writers.values():
      writer.close()

  def _write(self, name: str, summary: Any, step: int) -> None:
    """Writes an event to a folder."""
    if name not in self._writers:
      folder = self._folder / name
      folder.mkdir(parents=True, exist_ok=True)
      self._writers[name] = self._writer_class(str(folder / 'events'))
    now = time.time()
    event = self._event(step=step, wall_time=now, summary=summary)
    self._writers[name].write_event(event)

  def _flush(self) -> None:
    for writer in self._writers.values():
      writer.flush()

  def _picture(self, path: pathlib.Path) -> Any:
    content = path.read_bytes()
    width, height = struct.unpack('>II', content[16:24])  # Of a PNG.
    image = self._summary.Image(
      width=width, height=height, colorspace=4, encoded_image_string=content
    )
    return self._summary(
      value=[self._summary.Value(tag=path.stem, image=image)]
    )


def _markdown(summary: trackers.Summary) -> str:
  """Returns the final table in Markdown."""
  lines = [summary.columns, ('---',) * len(summary.columns)]
  lines += [tuple(f'{x:.7g}' for x in line) for line in summary.table]
  return '\n'.join(f'| {" | ".join(line)} |' for line in lines)
