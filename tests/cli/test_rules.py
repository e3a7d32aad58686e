"""`disco-rl rules`: what it lists."""

import numpy as np

from disco_rl.cli import main
from disco_rl.rule_zoo import file_format


def test_rules(no_rule_folders, capsys, monkeypatch, tmp_path):
  monkeypatch.setenv('DISCO_RL_WEIGHTS', str(tmp_path))
  file_format.save(tmp_path / 'mine.npz', {'m': {'w': np.ones(2)}}, {})
  assert main.main(['rules']) == 0
  lines = capsys.readouterr().out.splitlines()
  table = lines[2 : lines.index('')]
  by_name = {line.split()[0]: line for line in table}
  assert by_name['disco_103'].split()[1:3] == ['discovered', 'no']
  assert by_name['mine'].split()[1:4] == ['your', 'own', 'yes']
  assert by_name['actor_critic'].split()[1:3] == ['hand-designed', 'yes']
