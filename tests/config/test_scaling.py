"""Scales: what they accept, and sizes at a scale."""

import fractions

from ml_collections import config_dict
import pytest

from disco_rl.config import scaling


@pytest.mark.parametrize(
  ('given', 'wanted'),
  [
    ('1/64', fractions.Fraction(1, 64)),
    (' 1/8 ', fractions.Fraction(1, 8)),
    ('1', 1),
    (1, 1),
    (0.25, fractions.Fraction(1, 4)),
    ('0.1', fractions.Fraction(1, 10)),
    (fractions.Fraction(1, 3), fractions.Fraction(1, 3)),
  ],
)
def test_scales(given, wanted):
  assert scaling.parse(given) == wanted


@pytest.mark.parametrize(
  'given',
  ['0', '2', '1/0', 'text', '', '1/-3', '-1', '3/2', 'nan', 'inf', '1e-3', 0, 2]
  + [True, None, '1/1_0', f'1/{10**12}', float('nan'), ['1/2']],
)
def test_other_scales_are_refused(given):
  with pytest.raises(ValueError, match='--scale; in Python: scale='):
    scaling.parse(given)


def test_sizes_are_divided_down_to_the_least():
  half, tiny = fractions.Fraction(1, 2), fractions.Fraction(1, 1000)
  assert scaling.size(96, half) == 48
  assert scaling.size(3, half) == 2  # Halves are rounded up.
  assert scaling.size(96, tiny) == 1
  assert scaling.size(96, tiny, least=2) == 2
  # A size that is smaller at scale 1 is not raised.
  assert scaling.size(8, tiny, least=16) == 8


def test_widths_of_networks():
  settings = config_dict.ConfigDict(
    dict(
      name='residual',
      net_args=dict(
        channels=(256, 384),
        dense=(768,),
        num_blocks=2,
        model_kwargs=dict(head_mlp_hiddens=(1024,), lstm_size=1024),
        core_kwargs=dict(size=256),
      ),
    )
  )
  scale = fractions.Fraction(1, 32)
  assert scaling.network_widths(settings, 'net.x', scale) == {
    'net.x.net_args.channels': (8, 12),
    'net.x.net_args.dense': (24,),
    'net.x.net_args.model_kwargs.head_mlp_hiddens': (32,),
    'net.x.net_args.model_kwargs.lstm_size': 32,
    'net.x.net_args.core_kwargs.size': 16,
  }
  args = config_dict.ConfigDict(dict(net_args=dict(model_kwargs=None)))
  assert not scaling.network_widths(args, 'net.x', scale)
