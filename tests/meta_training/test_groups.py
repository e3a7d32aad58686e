"""Groups of agents that cannot train η together are refused."""

import dataclasses

import pytest

from disco_rl.config import meta_training as config_lib
from disco_rl.environments import registry as environments
from disco_rl.meta_training import trainer as trainer_lib
from tests.support import small
from tests.support import small_meta


def test_groups_that_cannot_train_together_are_refused():
  other = small_meta.make_group()
  other.agent_settings.update_rule.net.hidden_size = 12
  with pytest.raises(ValueError, match='the parameters of group 1 do not fit'):
    small_meta.make_trainer(small_meta.make_group(), other)
  with pytest.raises(ValueError, match='cannot be sharded over 8 devices'):
    small_meta.make_trainer(num_devices=8)
  with pytest.raises(ValueError, match=r'2 agents .* over 8 rows'):
    small_meta.make_trainer(num_devices=8, num_lane_shards=8)
  with pytest.raises(ValueError, match='at least one group'):
    trainer_lib.Trainer([], config_lib.Config())


def test_groups_of_the_wrong_kind_are_refused(own_rule):
  group = trainer_lib.Group(
    environments.environment_fn('catch', rows=5, columns=4),
    small_meta.with_critic(own_rule['agent_settings']),
    name='catch',
  )
  with pytest.raises(ValueError, match='different names'):
    trainer_lib.Trainer([group, group], config_lib.Config())
  with pytest.raises(ValueError, match='num_agents must be >= 1'):
    none = dataclasses.replace(group, num_agents=0)
    trainer_lib.Trainer([none], config_lib.Config())


def test_a_rule_without_parameters_is_refused():
  group = trainer_lib.Group(
    environments.environment_fn('catch', rows=5, columns=4),
    small_meta.with_critic(small.settings('actor_critic')),
  )
  with pytest.raises(ValueError, match='has no parameters'):
    trainer_lib.Trainer([group], config_lib.Config())
