"""Objects that resemble networks are refused before they are used."""

import dataclasses
import types as python_types

import jax
import jax.numpy as jnp
import pytest

import disco_rl
from disco_rl import types
from disco_rl.networks import nets
from tests.support import small


def _good(**kwargs):
  return nets.get_network('mlp', **kwargs)


def _network(change):
  """A factory whose network is changed by a function."""
  return lambda **kwargs: change(_good(**kwargs))


def _lookalike(network):
  functions = ('init', 'one_step', 'unroll')
  return python_types.SimpleNamespace(
    **{name: getattr(network, name) for name in functions}
  )


def _returning(name, change):
  """Changes what one function of a network returns."""

  def changed(network):
    function = getattr(network, name)
    return dataclasses.replace(
      network, **{name: lambda *args: change(function(*args))}
    )

  return changed


def _replaced(name, value):
  return lambda network: dataclasses.replace(network, **{name: value})


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (_lookalike, 'made an object of the type SimpleNamespace, but a disco_rl'),
    (lambda network: types.PolicyNetwork, 'made the class PolicyNetwork, but'),
    (lambda network: network.unroll, 'made an object of the type StagedUnroll'),
    (_replaced('unroll', 5), 'a PolicyNetwork whose unroll is 5, not a func'),
    (_replaced('one_step', None), 'whose one_step is None, not a function'),
    (_replaced('predict', 'x'), "whose predict is 'x', not a func"),
    (
      _returning('init', lambda result: result[0]),
      'init of the network must return parameters and a state, but returned an',
    ),
    (
      _returning('one_step', lambda result: result[0]),
      'one_step of the network must return outputs by name and the next state',
    ),
    (
      _returning('unroll', lambda result: (result[0]['logits'], result[1])),
      r'unroll of the network must .* but returned a tuple of 2 \(.*, dict\)',
    ),
    (
      _returning(
        'unroll', lambda r: (jax.tree.map(lambda x: x[0], r[0]), r[1])
      ),
      r'unroll of the network predicts .* logits of the shape \(2, 1, 3\)',
    ),
    (
      _returning(
        'one_step',
        lambda r: (jax.tree.map(lambda x: x.astype(jnp.int32), r[0]), r[1]),
      ),
      'one_step of the network predicts logits as int32, but floating-point',
    ),
    (
      _returning('one_step', lambda r: (dict(r[0], more=jnp.ones(1)), r[1])),
      "one_step of the network predicts 'more', which the rule does not use",
    ),
    (
      _returning('unroll', lambda r: (r[0], dict(memory=jnp.ones(3)))),
      r"unroll of the network returned a state \{'memory': .* that of init is",
    ),
  ],
)
def test_registered_networks_are_checked_when_an_agent_is_made(change, message):
  disco_rl.register_network('mine', _network(change))
  settings = small.settings('policy_gradient')
  with settings.unlocked():
    settings.net_settings.name = 'mine'
  with pytest.raises(ValueError, match=message):
    small.make_agent('policy_gradient', settings)


class Callable:
  """A function with a method of networks."""

  def __call__(self, *args):
    del args

  def unroll(self, *args):
    del args


@pytest.mark.parametrize(
  ('network', 'message'),
  [
    (python_types.SimpleNamespace(init=print, one_step=print), 'SimpleNames'),
    (python_types.SimpleNamespace(unroll=print), 'of the type SimpleNamespace'),
    (types.PolicyNetwork, 'network is the class PolicyNetwork, but a'),
    (Callable, 'network is the class Callable, but a'),
    (Callable(), 'network is an object of the type Callable, but a'),
    ('mlp', "network is 'mlp', but a .*PolicyNetwork or an unroll function is"),
    (
      types.PolicyNetwork(init=print, one_step=print, unroll=3),
      'network is a PolicyNetwork whose unroll is 3, not a function',
    ),
  ],
)
def test_learners_refuse_what_is_no_network(network, message):
  with pytest.raises(ValueError, match=message):
    disco_rl.make_learner('actor_critic', network)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda outs, state: outs, 'unroll of the network must return outputs by'),
    (lambda outs, state: (outs, state, 1), 'but returned a tuple of 3'),
    (lambda outs, state: ({}, state), r'needs logits of the shape \(7, 3, 1\)'),
    (
      lambda outs, state: ({'logits': outs['logits'][:-1]}, state),
      r'needs logits of the shape \(7, 3, 3\)',
    ),
  ],
)
def test_learners_check_the_outputs_of_their_network(change, message):
  an_agent = small.make_agent('actor_critic')
  state = an_agent.initial_learner_state(jax.random.PRNGKey(0))
  rollout = small.act(an_agent, state.params, jax.random.PRNGKey(1), 7)
  learner = disco_rl.make_learner(
    an_agent.update_rule,
    lambda *args: change(*an_agent._network.unroll(*args)),
    hyper_params=dict(an_agent.settings.hyper_params),
  )
  state = learner.init(jax.random.PRNGKey(0), state.params)
  with pytest.raises(ValueError, match=message):
    learner.update({}, state, rollout, jax.random.PRNGKey(0))


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (_returning('embed', lambda r: r[0]), r'embed of .* \(7, 3, D\) and the'),
    (
      _returning('embed', lambda r: (r[0][0], r[1])),
      r'embed .* returned a tuple of 2 .* with the shape \(3, 8\)',
    ),
    (_returning('predict', list), 'predict .* outputs by name, but returned a'),
    (
      _returning('predict', lambda outs: {**outs, 'q': outs['q'][..., :-1]}),
      r'predict of the network predicts .* but the rule needs q of the shape',
    ),
  ],
)
def test_learners_check_the_stages_of_their_network(change, message):
  an_agent = small.make_agent('disco')
  rng = jax.random.PRNGKey(0)
  eta, _ = an_agent.update_rule.init_params(rng)
  state = an_agent.initial_learner_state(rng)
  rollout = small.act(an_agent, state.params, rng, 7)
  learner = disco_rl.make_learner(
    an_agent.update_rule,
    change(an_agent._network),
    hyper_params=dict(an_agent.settings.hyper_params),
  )
  state = learner.init(rng, state.params)
  with pytest.raises(ValueError, match=message):
    jax.eval_shape(learner.update, eta, state, rollout, rng)
