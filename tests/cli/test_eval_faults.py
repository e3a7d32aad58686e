"""`disco-rl eval` after kills, with dead workers and if it diverges."""

import os
import signal

import pytest

from disco_rl.cli import main
from disco_rl.runs import metrics
from tests.support import runs


@pytest.mark.slow
def test_kill_and_resume_is_the_same_run(tmp_path):
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  long = ['--rule=actor_critic', '--steps=1200']
  long += runs.changed(runs.TINY, '--set=checkpoint_every=40')
  assert main.main(['eval', *long, '--quiet', f'--out={whole}']) == 0
  # Nothing reads its output.
  reader, writer = os.pipe()
  os.close(reader)
  nowhere = dict(stdout=writer, stderr=writer)
  process = runs.start('eval', *long, f'--out={killed}', **nowhere)
  os.close(writer)
  runs.wait_for_rows(killed, 20, process)
  process.kill()
  process.communicate()
  assert not (killed / 'params_0.npz').exists()
  metrics.read_csv(killed / 'metrics.csv')

  process = runs.start('eval', '--resume', str(killed))
  runs.wait_for_rows(killed, 100, process)
  process.send_signal(signal.SIGINT)
  out, error = process.communicate()
  assert process.returncode == 130, error
  assert 'Stopping after the current work' in error and (
    f'Saved. Resume with: disco-rl eval --resume {killed}' in out
  )

  assert main.main(['eval', '--resume', str(killed), '--quiet']) == 0
  runs.check_same_files(killed, whole)


@pytest.mark.slow
def test_a_dead_worker_ends_the_run_which_can_be_resumed(tmp_path, capsys):
  env = '--env=gym:tests.support.scripted:ScriptedGym'
  trouble = '--set=env.kwargs={"die_at": 70}'
  sizes = [size for size in runs.TINY if 'env.' not in size]
  out = f'--out={tmp_path / "x"}'
  arguments = ['--rule=actor_critic', '--quiet', *sizes, env, out, trouble]
  arguments += ['--set=env.num_workers=2', '--steps=40']
  assert main.main(['eval', *arguments]) == 1
  error = capsys.readouterr().err
  assert 'exit code 3' in error and '--resume' in error
  rows = metrics.read_csv(tmp_path / 'x' / 'metrics.csv')
  assert 0 < len(rows) and rows[-1]['iteration'] < 40
  # New workers, whose clocks start at 0.
  resume = ['eval', '--resume', str(tmp_path / 'x'), '--quiet', '--steps=14']
  assert main.main(resume) == 0


@pytest.mark.parametrize('steps', [4, 40])
def test_a_run_that_diverged_diverges_again_when_resumed(
  tmp_path, capsys, steps
):
  """Also in its first chunk, which may be its last: it is never finished."""
  out = tmp_path / 'x'
  huge = ('--set=agent.learning_rate=1e38', '--set=agent.max_abs_update=1e38')
  assert runs.evaluate(f'--steps={steps}', f'--out={out}', *huge) == 1
  message = capsys.readouterr().err
  assert 'iteration 4, seed 0: ' in message and 'is not finite' in message
  assert len(metrics.read_csv(out / 'metrics.csv')) == 1
  names = {path.name for path in out.iterdir()}
  assert names == {'config.json', 'metrics.csv', '.lock'}
  assert main.main(['eval', '--resume', str(out), '--quiet']) == 1
  again = capsys.readouterr().err
  assert 'stopped before its first checkpoint' in again
  assert again.endswith(message)
  assert names == {path.name for path in out.iterdir()}


def test_a_run_that_diverges_keeps_its_checkpoint(tmp_path, capsys):
  out = tmp_path / 'x'
  huge = ('--set=agent.learning_rate=1e38', '--set=agent.max_abs_update=1e38')
  late = '--set=batching.batch_size=16'  # The replay takes longer to fill.
  assert runs.evaluate('--steps=16', f'--out={out}', late, *huge) == 1
  message = capsys.readouterr().err
  assert f'The checkpoint from before it is in {out}' in message
  state = (out / 'state.npz').read_bytes()
  assert main.main(['eval', '--resume', str(out), '--quiet']) == 1
  assert capsys.readouterr().err == message
  assert (out / 'state.npz').read_bytes() == state
