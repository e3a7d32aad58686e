"""Pages of HTML in one file."""

import re

import pytest

from disco_rl.runs import page as page_lib
from disco_rl.runs import plots

PNG = b'\x89PNG\r\n\x1a\n'


def test_all_texts_are_escaped(tmp_path):
  bad = '<script>alert("1")</script>&\x00\ud800'
  page = page_lib.Page(bad, bad)
  page.section(bad)
  page.section('Second')
  page.paragraph(bad)
  page.code(bad)
  page.table((bad, bad), [(bad, bad)], bad, folded=bad)
  page.figure(PNG, bad, bad)
  text = page.html()
  assert '<script' not in text and '\x00' not in text and '"1"' not in text
  # Title twice, lead, section and its link, paragraph, code, five of the
  # table with its caption and words to click on, and two of the figure.
  assert text.count('&lt;script&gt;') == 15
  page.save(tmp_path / 'new' / 'x.html')
  assert (tmp_path / 'new' / 'x.html').read_text(encoding='utf-8') == text


def test_pictures_are_part_of_the_page():
  page = page_lib.Page('x')
  rows = [dict(iteration=i, seed=0, average_return=i) for i in range(3)]
  page.figure(plots.learning_curves({'a': rows}), 'A curve.')
  page.figure(b'GIF89a...', 'An animation.', size='small')
  text = page.html()
  kinds = re.findall(r'<img( class="drawing")? src="data:([\w/+]+);', text)
  assert kinds == [(' class="drawing"', 'image/svg+xml'), ('', 'image/gif')]
  # Nothing refers to another file or server.
  links = re.findall(r'(?:src|href)="([^"]*)"', text)
  assert all(link.startswith(('data:', '#')) for link in links)
  assert 'http' not in re.sub(r'http-equiv|base64,[^"]*', '', text)


def test_what_is_no_picture_is_refused():
  page = page_lib.Page('x')
  with pytest.raises(ValueError, match=r"begin with b'hello'"):
    page.figure(b'hello', '')
  with pytest.raises(ValueError, match='size of a figure must be one of'):
    page.figure(PNG, '', size='smal')


def test_pages_are_files_of_html(tmp_path):
  with pytest.raises(ValueError, match=r'its name must end in \.html'):
    page_lib.Page('x').save(tmp_path / 'x.pdf')
  (tmp_path / 'y.html').mkdir()
  with pytest.raises(ValueError, match='it is a folder'):
    page_lib.Page('x').save(tmp_path / 'y.html')
  assert list(tmp_path.iterdir()) == [tmp_path / 'y.html']
