"""`disco-rl meta-train --resume` with files that were damaged or removed."""

import shutil

import pytest

from disco_rl.cli import main
from disco_rl.rule_zoo import file_format
from disco_rl.runs import metrics
from tests.support import documented_rule
from tests.support import runs


@pytest.fixture(scope='module')
def whole_run(tmp_path_factory):
  """A run of two meta-updates, with an evaluation after each."""
  folder = tmp_path_factory.mktemp('runs')
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(folder))
    arguments = [
      *(documented_rule.write(folder), '--rule=entropy_cost', '--quiet'),
      *('--set=meta.num_inner_updates=1', '--set=env.catch.columns=4'),
      *('--set=batching.rollout_length=7', '--set=batching.batch_size=3'),
      *('--set=batching.num_envs=3', '--num-agents=1', '--steps=2'),
      *('--eval-every=1', '--set=eval.num_seeds=2', '--set=eval.steps=4'),
      *('--set=eval.batching.batch_size=4', '--set=eval.batching.num_envs=4'),
      *('--set=eval.baseline=none', f'--out={folder / "x"}'),
    ]
    assert main.main(['meta-train', *arguments]) == 0
    yield folder / 'x'


def _remove_checkpoint(out):
  (out / 'state.npz').unlink()
  (out / 'metrics.csv').unlink()
  for path in out.glob('*.png'):
    path.unlink()


def _replace_by_folder(path):
  path.unlink()
  path.mkdir()


@pytest.mark.parametrize(
  ('damage', 'message'),
  [
    (lambda out: (out / 'best_rule.npz').write_text('x'), 'x/best_rule.npz'),
    (
      lambda out: _replace_by_folder(out / 'best_rule.npz'),
      'x/best_rule.npz is a folder',
    ),
    (
      lambda out: (out / 'metrics.csv').write_text('iteration,seed,foo\n'),
      'x/metrics.csv is not a table of metrics: it has no column',
    ),
    (
      lambda out: (out / 'metrics.csv').write_text(5000 * 'x'),
      'x/metrics.csv is not a table',
    ),
    (
      lambda out: (out / 'evaluations_catch.csv').write_text(
        'iteration,seed\n'
      ),
      'x/evaluations_catch.csv is not a table',
    ),
    (
      lambda out: (out / 'baseline_catch.csv').write_text('zz'),
      'x/baseline_catch.csv is not a table',
    ),
    (_remove_checkpoint, 'the run made a checkpoint of meta-update 2'),
  ],
)
def test_damaged_files_are_refused_and_nothing_is_changed(
  whole_run, tmp_path, capsys, damage, message
):
  out = tmp_path / 'x'
  shutil.copytree(whole_run, out)
  damage(out)
  before = runs.contents(out)
  resume = ['meta-train', f'--resume={out}', '--steps=3', '--quiet']
  assert main.main(resume) == 2
  assert message in capsys.readouterr().err
  assert before == runs.contents(out)


def test_a_best_rule_whose_evaluation_was_removed_is_kept(
  whole_run, tmp_path, capsys
):
  out = tmp_path / 'x'
  shutil.copytree(whole_run, out)
  table, best = out / 'evaluations_catch.csv', out / 'best_rule.npz'
  metadata = file_format.load_metadata(best) | dict(step=1, score=-9.0)
  file_format.save(best, file_format.load(best), metadata)
  before = best.read_bytes()
  # The next rule is better than all that are known.
  rows = [dict(row, final_return=-9.0) for row in metrics.read_csv(table)[-2:]]
  table.write_text(metrics.to_csv(rows))
  resume = ['meta-train', f'--resume={out}', '--steps=3', '--quiet']
  assert main.main(resume) == 0
  note = capsys.readouterr().err
  assert f'{table} lacks rows of meta-update 0; they were removed' in note
  assert f'{best} is kept as it is, since its evaluation was removed' in note
  assert best.read_bytes() == before
