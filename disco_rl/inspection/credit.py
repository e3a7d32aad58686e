"""Per-step credit by a rule, for a policy that it does not train.

A rule of the Disco form needs predictions of the agent: y, z and action values.
A small adapter learns them, by the rule's own targets, from any features of the
policy, such as the hidden states of a sequence model. The policy is only read:
its logits are inputs here, and no gradients pass to it.

```python
credit = make_credit('disco_103', num_actions=8, feature_size=32)
state = credit.init(key)
state, given = jax.jit(credit.update)(credit.eta, state, trajectories, key)
given.advantages  # [T, B], instead of one advantage per episode
```
"""

from collections.abc import Callable, Sequence
import itertools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl import utils
from disco_rl.config import agents
from disco_rl.learning import learner as learner_lib
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.update_rules import registry


class Trajectories(NamedTuple):
  """Experience of any policy, T steps of B trajectories.

  As everywhere in the library, a step that begins a new episode is the last of
  the old one (`is_last`), and carries its last reward.
  """

  features: types.Array  # [T+1, B, D], what the adapter reads.
  logits: types.Array  # [T+1, B, A], of the policy that acted.
  actions: types.Array  # [T+1, B]; the last is not used.
  rewards: types.Array  # [T+1, B], received on arriving; the first is not used.
  is_last: types.Array  # [T+1, B], bool.


class Credit(NamedTuple):
  """What a rule says about every step."""

  advantages: jax.Array  # [T, B], Q̂ − V of the actions taken.
  normalized_advantages: jax.Array  # [T, B], by the rule's moving statistics.
  policy_target: jax.Array  # [T, B, A], logits of π̂.
  pull: jax.Array  # [T, B, A], π̂ − π, along which the rule pulls the logits.
  pull_on_taken: jax.Array  # [T, B], that on the action taken.


class CreditFunctions(NamedTuple):
  """Credit as a pair of pure functions, see `make_credit`.

  Attributes:
    init: `(rng) -> state`, of the adapter.
    update: `(eta, state, trajectories, rng) -> (state, Credit)`; the adapter
      learns from the trajectories, after they were given credit.
    eta: the parameters of the rule.
  """

  init: Callable[[chex.PRNGKey], learner_lib.LearnerState]
  update: Callable[..., tuple[learner_lib.LearnerState, Credit]]
  eta: types.MetaParams


def make_credit(
  rule: rule_lib.Rule | str,
  num_actions: int,
  feature_size: int,
  *,
  hidden_sizes: Sequence[int] = (128,),
  learning_rate: float = 1e-3,
) -> CreditFunctions:
  """Makes the functions that give credit by a rule.

  Args:
    rule: a rule of the Disco form, or an argument of `load_rule`.
    num_actions: A.
    feature_size: D.
    hidden_sizes: layers of the adapter.
    learning_rate: learning rate of the adapter, by the published optimiser.

  Returns:
    The functions.

  Raises:
    ValueError: if the rule has no targets for a policy.
  """
  if not isinstance(rule, rule_lib.Rule):
    rule = rule_lib.load_rule(rule)
  if rule.kind != 'disco':
    raise ValueError(
      f'credit needs a rule of the Disco form, and {rule.name} is of the kind '
      f'{rule.kind}'
    )
  adapter = _Adapter(rule, num_actions, feature_size, tuple(hidden_sizes))
  learner = learner_lib.make_learner(
    rule, adapter.unroll, learning_rate=learning_rate, with_outputs=True
  )

  def init(rng: chex.PRNGKey) -> learner_lib.LearnerState:
    params_rng, rest_rng = jax.random.split(rng)
    return learner.init(rest_rng, adapter.init(params_rng))

  def update(
    eta: types.MetaParams,
    state: learner_lib.LearnerState,
    trajectories: Trajectories,
    rng: chex.PRNGKey,
  ) -> tuple[learner_lib.LearnerState, Credit]:
    state, out = learner.update(eta, state, _rollout(trajectories), rng)
    assert out.meta_out is not None
    targets = out.meta_out
    policy = jax.nn.softmax(jnp.asarray(trajectories.logits)[:-1])
    pull = jax.nn.softmax(targets['pi']) - policy
    return state, Credit(
      advantages=targets['adv'],
      normalized_advantages=targets['normalized_adv'],
      policy_target=targets['pi'],
      pull=pull,
      pull_on_taken=utils.batch_lookup(pull, trajectories.actions[:-1]),
    )

  return CreditFunctions(init, update, rule.eta)


class _Adapter:
  """An MLP from features to a rule's predictions."""

  def __init__(
    self,
    rule: rule_lib.Rule,
    num_actions: int,
    feature_size: int,
    hidden_sizes: tuple[int, ...],
  ):
    update_rule = registry.get_update_rule(
      rule.kind, **agents.for_rule(rule).update_rule
    )
    spec = types.ActionSpec((), jnp.int32, 0, num_actions - 1)
    flat = dict(update_rule.flat_output_spec(spec))
    del flat['logits']  # Those of the policy.
    model = update_rule.model_output_spec(spec)
    self._flat = {name: x.shape[-1] for name, x in flat.items()}
    self._model = {name: x.shape[-1] for name, x in model.items()}
    self._num_actions = num_actions
    self._sizes = (feature_size, *hidden_sizes)

  def init(self, rng: chex.PRNGKey) -> dict[str, Any]:
    """Makes random parameters; heads are small, actions have an embedding."""
    *_, width = self._sizes
    keys = iter(jax.random.split(rng, 20))

    def linear(inputs: int, outputs: int, scale: float = 1.0) -> dict:
      w = jax.random.normal(next(keys), (inputs, outputs))
      return dict(w=scale * w / inputs**0.5, b=jnp.zeros(outputs))

    return dict(
      torso=[linear(*x) for x in itertools.pairwise(self._sizes)],
      action=linear(self._num_actions, width),
      mix=linear(width, width),
      heads={
        name: linear(width, size, 1e-2)
        for name, size in (*self._flat.items(), *self._model.items())
      },
    )

  def unroll(
    self, params: Any, state: Any, observations: Any, should_reset: Any
  ) -> tuple[dict[str, jax.Array], Any]:
    """Computes the predictions; the policy's logits are passed through."""
    del should_reset
    apply = lambda layer, x: x @ layer['w'] + layer['b']
    x = jnp.asarray(observations['features'], jnp.float32)
    for layer in params['torso']:
      x = jax.nn.relu(apply(layer, x))
    heads = params['heads']
    outs = {name: apply(heads[name], x) for name in self._flat}
    actions = apply(params['action'], jnp.eye(self._num_actions))
    per_action = apply(params['mix'], x)[..., None, :] + actions
    per_action = jax.nn.relu(per_action)
    outs |= {name: apply(heads[name], per_action) for name in self._model}
    return {'logits': observations['logits'], **outs}, state


def _rollout(trajectories: Trajectories) -> types.ActorRollout:
  """Makes a rollout whose observations are features and logits."""
  logits = jax.lax.stop_gradient(jnp.asarray(trajectories.logits))
  features = jax.lax.stop_gradient(jnp.asarray(trajectories.features))
  return types.ActorRollout(
    observations=dict(features=features, logits=logits),
    actions=trajectories.actions,
    rewards=jnp.asarray(trajectories.rewards, jnp.float32),
    discounts=jnp.logical_not(trajectories.is_last),
    agent_outs=dict(logits=logits),
    states=None,
    logits=logits,
  )
