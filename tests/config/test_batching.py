"""Sizes of rollouts, batches and replay."""

import dataclasses

import pytest

from disco_rl.config import batching as batching_lib

Batching = batching_lib.Batching


def test_the_default_is_the_published_evaluation_on_catch():
  sizes = Batching()
  assert (sizes.batch_size, sizes.num_envs, sizes.rollout_length) == (64, 2, 29)
  assert not sizes.on_policy and sizes.num_replayed == 64
  assert sizes.env_steps == 58
  assert sizes.first_fill == 64 and sizes.num_warm_up == 31


@pytest.mark.parametrize(
  ('sizes', 'replayed', 'warm_up'),
  [
    (dict(num_envs=8), 0, 0),
    (dict(num_envs=8, fresh_in_batch=True), 0, 0),
    (dict(num_envs=2), 8, 3),
    (dict(num_envs=2, fresh_in_batch=True), 6, 3),
    (dict(num_envs=3, replay_capacity=12), 8, 2),
    (dict(num_envs=2, min_replay_size=1), 8, 0),
  ],
)
def test_where_a_batch_comes_from(sizes, replayed, warm_up):
  sizes = Batching(batch_size=8, **sizes)
  assert sizes.num_replayed == replayed and sizes.num_warm_up == warm_up
  assert sizes.on_policy == (sizes.num_envs == 8)


@pytest.mark.parametrize(
  ('sizes', 'message'),
  [
    (dict(batch_size=0), 'batch_size must be a whole number of at least 1'),
    (dict(num_envs=0), 'num_envs must be a whole number of at least 1, got 0'),
    (dict(num_envs=1.5), 'num_envs must be a whole number of at least 1'),
    (dict(rollout_length=1), 'rollout_length must be a whole number of at le'),
    (dict(fresh_in_batch=1), 'fresh_in_batch must be true or false, got 1'),
    (dict(min_replay_size=0), 'min_replay_size must be a .* or none, got 0'),
    (dict(num_envs=65), r'num_envs \(65\) must be at most batch_size \(64\)'),
    (dict(num_envs=3), r'replay_capacity \(1024\) must be a multiple of'),
    (dict(replay_capacity=32), r'min_replay_size \(64\) must be between 1'),
  ],
)
def test_nonsense_is_refused(sizes, message):
  with pytest.raises(ValueError, match=message):
    Batching(**sizes)


def test_shards_are_equal_parts():
  whole = Batching(batch_size=12, num_envs=4, replay_capacity=40)
  assert whole.fits_shards(2) and not whole.fits_shards(3)
  assert not whole.fits_shards(0)
  assert whole.per_shard(1) == whole
  shard = whole.per_shard(4)
  assert shard == Batching(batch_size=3, num_envs=1, replay_capacity=10)
  later = dataclasses.replace(whole, min_replay_size=13).per_shard(4)
  assert later.min_replay_size == 4
  # Each shard starts to learn when the whole batch would.
  assert shard.num_warm_up == whole.num_warm_up == 2
  with pytest.raises(ValueError, match='cannot be sharded over 8 devices'):
    whole.per_shard(8)
  assert Batching(batch_size=4, num_envs=4).per_shard(4).on_policy


@pytest.mark.parametrize(
  ('batch_size', 'replay_fraction', 'fresh'),
  [(96, 0.95, 5), (24, 0.99, 1), (96, 0.9, 10), (8, 0.0, 8)],
)
def test_a_fraction_of_the_batch_is_fresh(batch_size, replay_fraction, fresh):
  assert batching_lib.num_fresh(batch_size, replay_fraction) == fresh


@pytest.mark.parametrize('replay_fraction', [-0.1, 1.0])
def test_fractions_are_refused(replay_fraction):
  with pytest.raises(ValueError, match='replay_fraction must be in'):
    batching_lib.num_fresh(8, replay_fraction)
