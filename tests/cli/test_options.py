"""Options that are probably mistakes are refused with exit code 2."""

import pytest

from disco_rl.cli import main
from disco_rl.cli import options


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    (['eval', '--seed=1', '--seed=2'], '--seed is given twice, as 1 and 2'),
    (['eval', '--quiet', '--quiet'], '--quiet is given twice: give it once'),
    (['eval', '--rule=a', '--rule=a'], "--rule is given twice, as 'a' and 'a'"),
    (['eval', '--out='], '--out needs a value, got an empty text'),
    (['eval', '--rule', ' '], '--rule needs a value, got an empty text'),
    (['eval', '--set='], '--set needs a value'),
    (['meta-train', '--env='], '--env needs a value'),
    (['compare', ''], 'RUN needs a value'),
    (['eval', '--step=5'], 'unrecognized arguments: --step=5'),
    (['eval', '--steps=5x'], "--steps: must be a whole number, got '5x'"),
    (['eval', '--steps=1.5'], "--steps: must be a whole number, got '1.5'"),
    (['eval', '--steps=' + '9' * 5000], '--steps: must be a whole number'),
    (['compare', 'a', '--x=b'], "invalid choice: 'b'"),
  ],
)
def test_the_parser_refuses(words, message, capsys):
  with pytest.raises(SystemExit) as stop:
    main.main(words)
  assert stop.value.code == 2
  error = capsys.readouterr().err
  assert message in error and len(error) < 4000


def test_options_that_collect_values_may_be_repeated():
  parser = options.Parser()
  parser.add_argument('--set', action='append')
  parser.add_argument('--flag', action='store_true')
  parsed = parser.parse_args(['--set=a', '--set=b', '--flag'])
  assert parsed.set == ['a', 'b'] and parsed.flag
  nothing = parser.parse_args([])
  assert nothing.set is None and not nothing.flag


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    (['eval', '--overwrite'], '--overwrite needs --out'),
    (['eval', '--resume=x', '--overwrite'], '--overwrite cannot be changed'),
    (['eval', '--resume=x', '--set=a=1'], '--set cannot be changed'),
    (['eval', '--devices=-1'], 'devices must be a whole number of at least 0'),
    (['eval', '--seed=4294967296'], 'seed must be a whole number between 0 an'),
    (['eval', '--num-seeds=1000000'], 'num_seeds must be a whole number betw'),
    (['eval', '--set=env.rows=1000000'], 'env.rows must be a whole number be'),
    (
      ['eval', '--set=env.rows=5', '--set= env.rows = 6'],
      '--set env.rows=5 and --set  env.rows = 6 both give env.rows: leave one',
    ),
    (['eval', '--steps=8', '--set=steps=8'], '--steps 8 and --set steps=8 bo'),
    (['eval', '--seed=1', '--set=seeds=(1,)'], '--seed 1 and --set seeds=(1,)'),
    (['eval', '--num-seeds=2', '--set=seeds=1,2'], '--num-seeds 2 and --set s'),
    (['eval', '--devices=1', '--set=devices=2'], '--devices 1 and --set devi'),
    (
      ['eval', '--net=conv', '--set=agent.net_settings.name=mlp'],
      '--net conv and --set agent.net_settings.name=mlp both give agent.net_se',
    ),
    (
      ['eval', '--core=lstm', '--set=agent.net_settings.net_args.core=None'],
      '--core lstm and --set agent.net_settings.net_args.core=None both give',
    ),
    (
      ['eval', '--checkpoint-replay=never', '--set=checkpoint_replay=always'],
      '--checkpoint-replay never and --set checkpoint_replay=always both give',
    ),
    (
      ['meta-train', '--eval-every=5', '--set=eval.every=6'],
      '--eval-every 5 and --set eval.every=6 both give eval.every',
    ),
    (['meta-train', '--num-agents=2', '--set=num_agents=3'], '--num-agents 2'),
    (['meta-train', '--seed=2', '--set=seed=3'], '--seed 2 and --set seed=3'),
    (
      ['meta-train', '--net=mlp', '--set=net.catch.name=conv'],
      '--net mlp and --set net.catch.name=conv both give net.catch.name',
    ),
    (['eval', '--set=x=' + '5' * 999, '--set=x=6'], '5... and --set x=6 both'),
    (['compare', 'a', '--out=x.foo'], 'its name must end in .eps, '),
    (['compare', 'a', '--out=x'], 'its name must end in .eps, '),
    (['compare', 'a', '--out=.'], 'its name must end in .eps, '),
    (['meta-train', '--num-agents=0'], 'num_agents must be a whole number of'),
    (['meta-train', '--eval-every=-1'], 'eval_every must be a whole number of'),
  ],
)
def test_the_commands_refuse(words, message, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  is_new = words[0] == 'eval' and '--resume=x' not in words
  rule = ['--rule=actor_critic'] if is_new else []
  if words[:2] == ['compare', 'a']:
    pytest.importorskip('matplotlib')
  assert main.main([*words, *rule]) == 2
  assert message in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', ['DISCO_RL_WEIGHTS', 'DISCO_RL_CACHE'])
def test_variables_with_invalid_paths_are_errors(
  name, tmp_path, monkeypatch, capsys
):
  """They are errors even if the rule needs no file."""
  (tmp_path / 'file').write_text('')
  path = tmp_path / 'file' / ('x' * 300)  # Too long a name for a file, too.
  monkeypatch.setenv(name, str(path))
  for words in (
    ['rules'],
    ['eval', '--rule=actor_critic', '--dry-run'],
    ['meta-train', '--dry-run'],
  ):
    assert main.main(words) == 2
    assert f'{name} is ' in capsys.readouterr().err
