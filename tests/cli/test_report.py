"""`disco-rl report`: runs on one page."""

import html
import json
import re
import shlex
import shutil

import pytest

from disco_rl.cli import command_lines
from disco_rl.cli import main
from disco_rl.cli import run_names
from disco_rl.cli import run_pages
from disco_rl.config import resolve
from disco_rl.runs import run_folder
from tests.support import browser
from tests.support import runs

# Measures a page, and sends the result to the page around it.
_MEASURE = """<script>onload = () => parent.postMessage(JSON.stringify({
  images: [...document.images].map(i => [i.complete && i.naturalWidth > 0,
    i.getBoundingClientRect().width, i.getBoundingClientRect().height]),
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  requests: performance.getEntriesByType('resource').map(e => e.name).filter(
    name => !name.startsWith('data:'))}), '*')</script>"""
_LISTEN = 'onmessage = e => { document.body.dataset.found = e.data; }'

BAD = '<img src=x onerror=alert(1)>'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """The folder of a short run on Catch, 5 by 4."""
  out = tmp_path_factory.mktemp('runs') / 'catch'
  assert runs.evaluate('--steps=12', '--num-seeds=3', f'--out={out}') == 0
  return out


def _report(*arguments):
  return main.main(['report', *map(str, arguments)])


def _other(trained, folder, **changes):
  """Copies a run, with other entries of its config."""
  shutil.copytree(trained, folder)
  config = json.loads((folder / 'config.json').read_text())
  (folder / 'config.json').write_text(json.dumps({**config, **changes}))
  return folder


def test_a_run_has_a_page(trained, tmp_path, capsys):
  out = tmp_path / 'x.html'
  assert _report(trained, f'--out={out}') == 0
  assert capsys.readouterr().out == f'page: {out}\n'
  text = out.read_text(encoding='utf-8')
  for part in (
    'actor_critic on catch',
    '12 of 12 iterations, 3 seeds, 144 environment steps of each agent: fin',
    '<th scope="row">env.rows</th><td>5</td><td>--set</td>',
    '<th scope="row">jax</th>',
    'disco-rl eval \\\n  --rule=actor_critic \\\n  --env=catch \\\n',
  ):
    assert part in text, part
  assert _report(trained, f'--out={out}') == 2
  assert 'replace it with --overwrite' in capsys.readouterr().err


def test_runs_are_compared_and_their_texts_escaped(trained, tmp_path):
  other = _other(
    trained,
    tmp_path / 'other',
    rule=BAD,
    origins={'chunk_size': BAD},
    machine=None,
    is_by_name=False,
  )
  page = run_pages.page_of([run_names.read(path) for path in (trained, other)])
  text = page.html()
  assert '<img src=x' not in text and '&lt;img src=x' in text
  assert 'Comparison of 2 runs' in text
  assert 'unknown: the run did not record' in text
  assert 'no command repeats it' in text
  assert 'The runs have the same settings.' in text


def test_a_discovery_and_an_unfinished_run_have_pages(trained, tmp_path):
  run = tmp_path / 'one'
  run.mkdir()
  request = dict(env=['catch'], eval_env=[])
  (run / 'config.json').write_text(
    json.dumps(
      dict(
        format=run_folder.FORMAT,
        command='meta-train',
        init='random',
        is_by_name=True,
        request=request,
        settings=dict(steps=9),
      )
    )
  )
  names = [
    *('iteration', 'seed', 'return/catch', 'episodes/catch'),
    *('pos_rewards', 'neg_rewards', 'meta_loss', 'pg_loss', 'reg_loss'),
    *('meta_grad_norm', 'meta_up_norm', 'rewards'),
  ]
  lines = [names, *([i, 0, *[0.5] * 10] for i in (1, 2, 3))]
  (run / 'metrics.csv').write_text(
    '\n'.join(','.join(map(str, line)) for line in lines) + '\n'
  )
  (run / 'evaluations_catch.csv').write_text(
    'iteration,seed,final_return\n0,0,-0.5\n2,0,0.25\n'
  )
  text = run_pages.page_of([run_names.read(run)]).html()
  assert '3 of 9 meta-updates: not finished.' in text
  assert text.count('<figure') == 3 and 'Evaluations in catch' in text
  assert '<td>0.250</td>' in text


def test_a_benchmark_has_a_page(tmp_path, capsys):
  spec = dict(
    format=1, kind='benchmark', suite='small', rules={BAD: {}}, seeds=[0, 1]
  )
  (tmp_path / 'spec.json').write_text(json.dumps(spec))
  out = tmp_path / 'x.html'
  assert _report(tmp_path, f'--out={out}') == 2
  assert 'has no results yet' in capsys.readouterr().err
  (tmp_path / 'scores.csv').write_text('rule,return\nppo,0.123456\n')
  (tmp_path / 'curves.png').write_bytes(b'\x89PNG')
  assert _report(tmp_path, f'--out={out}') == 0
  text = out.read_text(encoding='utf-8')
  assert '<td>0.123</td>' in text and '<img src=x' not in text
  assert text.count('<figure') == 1 and 'Benchmark small' in text
  assert _report(tmp_path, tmp_path, f'--out={tmp_path}/y.html') == 2
  assert 'a page of its own' in capsys.readouterr().err


def test_wrong_requests_are_refused(trained, tmp_path, capsys):
  (tmp_path / 'folder.html').mkdir()
  new = f'--out={tmp_path}/new.html'
  rules = _other(trained, tmp_path / 'rules', command='rules')
  other = _other(trained, tmp_path / 'meta', command='meta-train', init='x')
  config = json.loads((other / 'config.json').read_text())
  config['request'].update(env=['catch'], eval_env=[])
  (other / 'config.json').write_text(json.dumps(config))
  empty = _other(trained, tmp_path / 'empty')
  (empty / 'metrics.csv').unlink()
  for arguments, message in (
    ([tmp_path, new], 'holds no run'),
    ([rules, new], 'is not a run of disco-rl eval'),
    ([empty, new], 'has no metrics yet'),
    ([trained, other, new], 'compare those of one command at a time'),
    ([trained, '--out=x.pdf'], 'must end in .html'),
    ([trained, f'--out={tmp_path}/folder.html'], 'it is a folder'),
  ):
    assert _report(*arguments) == 2, arguments
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count('\n') == 1
  assert not (tmp_path / 'new.html').exists()


@pytest.mark.parametrize(
  'request_of_run',
  [
    {},
    dict(rule='my rule.npz', env='gym:a b', steps=7, seed=3, num_seeds=2),
    dict(use=['one', 'two'], set=["agent.x='a b'", 'y=(1, 2)'], net='mlp'),
  ],
)
def test_the_command_makes_the_same_request(request_of_run):
  request = {**resolve.EVALUATION, **request_of_run}
  config = dict(is_by_name=True, command='eval', request=request)
  line = command_lines.of_run(config)
  words = shlex.split(line.replace('\\\n', ' '))
  assert words[0] == 'disco-rl'
  parsed = main.build_parser('eval').parse_args(words[1:])
  for name, default in resolve.EVALUATION.items():
    given = getattr(parsed, name, None)
    assert (default if given is None else given) == request[name], name


def test_what_was_given_in_python_becomes_options():
  request = dict(seeds=[4, 5], settings={'env.rows': 5, 'a.b': 'x y'})
  config = dict(is_by_name=True, command='eval', request=request)
  words = shlex.split(command_lines.of_run(config).replace('\\\n', ' '))
  assert words[2:] == [
    *('--seed=4', '--num-seeds=2', '--set', 'env.rows=5', '--set', 'a.b=x y')
  ]
  request['seeds'] = [4, 7]
  words = shlex.split(command_lines.of_run(config).replace('\\\n', ' '))
  assert words[-1] == 'seeds=4,7'
  assert command_lines.of_run({**config, 'is_by_name': False}) is None


@pytest.mark.parametrize('width', [400, 1400])
def test_the_page_opens_in_a_browser(trained, tmp_path, width):
  """Without errors; every figure is visible; no request leaves the page."""
  browser.find()
  out = tmp_path / 'x.html'
  assert _report(trained, f'--out={out}') == 0
  # The page runs no scripts, so a copy that may run one measures it, in a frame
  # of this width, since windows have a least width.
  text = out.read_text(encoding='utf-8')
  policy = re.search(r'content="(default-src[^"]*)"', text)[1]
  text = text.replace(policy, f"{policy}; script-src 'unsafe-inline'")
  measured, host = tmp_path / 'measured.html', tmp_path / 'host.html'
  measured.write_text(text.replace('</main>', f'</main>{_MEASURE}'), 'utf-8')
  host.write_text(
    f'<body><script>{_LISTEN}</script><iframe src="measured.html" '
    f'width="{width}" height="900"></iframe></body>'
  )
  dom, _ = browser.open_page(
    host, '--dump-dom', '--virtual-time-budget=5000', '--window-size=1500,900'
  )
  found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', dom)[1]))
  assert len(found['images']) == text.count('<figure')
  for is_loaded, image_width, image_height in found['images']:
    assert is_loaded and image_width > 250 and image_height > 150
  # Only tables and panels scroll sideways.
  assert found['width'] <= width and found['page'] <= found['width']
  assert found['requests'] == []
  # The page as it was written.
  _, log = browser.open_page(out, '--dump-dom')
  assert 'CONSOLE' not in log and 'Refused to' not in log
