"""The config of meta-training: rematerialisation, and what it refuses."""

import dataclasses

import pytest

from disco_rl.config import batching as batching_lib
from disco_rl.config import meta_training as config_lib


def test_the_rematerialization_plan():
  """The first update alone, then rematerialised ones, then the others."""
  make = lambda n, **kw: config_lib.Config(num_inner_updates=n, **kw)
  plan = lambda config: config.rematerialization_plan(config.num_inner_updates)
  assert plan(make(2)) == [(0, 1, False), (1, 2, False)]
  assert plan(make(20)) == [(0, 1, False), (1, 17, True), (17, 20, False)]
  least = make(20, rematerialize_all_but=0)
  assert plan(least) == [(0, 1, True), (1, 20, True)]
  plain = make(20, rematerialize_all_but=None)
  assert plan(plain) == [(0, 1, False), (1, 20, False)]
  assert plan(make(1, rematerialize_all_but=0)) == [(0, 1, True)]
  assert plan(make(1)) == [(0, 1, False)]


def test_mixed_mode_is_used_where_it_is_faster():
  make = lambda mode: config_lib.Config(meta_gradient_mode=mode)
  used = {
    mode: [make(mode).uses_mixed_mode(again) for again in (False, True)]
    for mode in ('auto', 'mixed', 'reverse')
  }
  assert used == dict(
    auto=[False, True], mixed=[True, True], reverse=[False, False]
  )


def test_shards_have_a_part_of_the_batch():
  config = config_lib.Config(learning_rate=0.1)
  shard = config.per_shard(8)
  assert shard.batching.batch_size == shard.batching.num_envs == 4
  assert dataclasses.replace(shard, batching=config.batching) == config
  with pytest.raises(ValueError, match='cannot be sharded over 5 devices'):
    config.per_shard(5)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (
      dict(num_inner_updates=0),
      r'meta\.num_inner_updates must be a whole number of at least 1, got 0',
    ),
    (
      dict(batching=dict(rollout_length=1)),
      'rollout_length must be a whole number of at least 2, got 1',
    ),
    (
      dict(batching=dict(num_envs=16, replay_capacity=33)),
      r'multiple of the number of environments, num_envs \(16\)',
    ),
    (
      dict(batching=dict(num_envs=16, replay_capacity=32), num_inner_updates=4),
      'must hold the 64 trajectories of one meta-update',
    ),
    (dict(lifetimes=(1, 20)), r'at least num_inner_updates \(2\), got \[1\]'),
    (dict(lifetimes=(0,)), r'meta\.lifetimes must be .* a whole number of at'),
    *(
      (
        dict(agent_learning_rates=rates),
        r'meta\.agent_learning_rates must be empty, or the lowest and the hig',
      )
      for rates in ((0.1,), (0.2, 0.1), (0.0, 0.1), ('a', 'b'))
    ),
    (
      dict(meta_gradient_mode='auto?'),
      r'meta\.meta_gradient_mode must be one of auto, mixed, reverse',
    ),
    (
      dict(rematerialize_all_but=-1),
      r'meta\.rematerialize_all_but must be a whole number of at least 0, or',
    ),
    (
      dict(learning_rate=0.0),
      r'meta\.learning_rate must be a number above 0, got 0\.0',
    ),
  ],
)
def test_nonsense_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    sizes = dataclasses.replace(
      config_lib.default_batching(), **changes.pop('batching', {})
    )
    config_lib.Config(batching=sizes, **changes)


def test_the_reference_setting_has_no_replay():
  sizes = config_lib.Config().batching
  assert sizes == batching_lib.Batching(
    batch_size=32, rollout_length=16, num_envs=32, fresh_in_batch=True
  )
  assert sizes.on_policy and config_lib.Config().validation_length == 32
