"""Fresh agents that learn without some inputs of their rule."""

import dataclasses

import jax
import numpy as np
import pytest

from disco_rl.config import batching as batching_lib
from disco_rl.inspection import ablated_learning
from disco_rl.inspection import subject as subject_lib
from disco_rl.inspection import targets
from disco_rl.rule_zoo import rule as rule_lib
from tests.support import inspected
from tests.support import small


def _subject(rule='disco', env_fn=None):
  made = inspected.make(rule)
  sizes = batching_lib.Batching(batch_size=4, num_envs=4, rollout_length=5)
  return subject_lib.Subject(
    rule=rule_lib.Rule('small', rule, made.eta),
    env_name='catch',
    agent=made.agent,
    eta=made.eta,
    learner=made.learner,
    env_fn=env_fn or (lambda batch_size, _: small.environment(batch_size)),
    seed=0,
    settings=_settings(sizes),
  )


def _settings(sizes):
  class Settings:
    batching = dataclasses.asdict(sizes)

  return Settings


def test_an_agent_without_a_life_keeps_the_state_of_its_birth():
  made = inspected.make()
  rule = ablated_learning.without(made.agent.update_rule, 'life-long LSTM')
  outs, state = (
    lambda view: view.rule.unroll_meta_net(
      view.eta,
      made.scene.params,
      None,
      dict(made.scene.meta_state),
      made.scene.inputs,
      view.hyper_params,
      lambda *_: (made.scene.target_out, None),
      jax.random.PRNGKey(0),
    )
  )(dataclasses.replace(made.view, rule=rule))
  jax.tree.map(
    np.testing.assert_array_equal,
    state['rnn_state'],
    made.scene.meta_state['rnn_state'],
  )
  intact = targets.compute(made.view, made.scene)
  np.testing.assert_allclose(outs['pi'], intact['pi'], atol=1e-5)


@pytest.mark.parametrize(
  'groups',
  [
    ('value',),
    pytest.param(ablated_learning.GROUPS, marks=pytest.mark.slow),
  ],
)
def test_agents_learn_without_a_group(groups):
  found = ablated_learning.curves(
    _subject(), num_iterations=8, seeds=(0, 1), groups=groups, chunk_size=4
  )
  assert list(found) == ['intact', *groups]
  for rows in found.values():
    assert [(x['iteration'], x['seed']) for x in rows] == [
      *((4, 0), (4, 1), (8, 0), (8, 1))
    ]
    assert all(np.isfinite(x['total_loss']) for x in rows)
  # They learn from other targets.
  losses = {name: rows[-1]['pi_loss'] for name, rows in found.items()}
  assert len(set(losses.values())) == len(losses)
  finals = ablated_learning.final_returns(found, 4)
  assert all(values.shape == (2,) for values in finals.values())


def test_what_cannot_be_left_out():
  with pytest.raises(ValueError, match='only rules of the Disco form'):
    ablated_learning.curves(_subject('actor_critic'), num_iterations=1)
  rule = inspected.make().agent.update_rule
  with pytest.raises(ValueError, match='a group must be one of'):
    ablated_learning.without(rule, 'luck')
