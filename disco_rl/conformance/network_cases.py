"""Cases of the meta-network, from its blocks to the whole."""

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from disco_rl import types
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import samples
from disco_rl.conformance import small_rule
from disco_rl.networks import lstm
from disco_rl.networks import meta_nets
from disco_rl.networks import prediction_embeddings
from disco_rl.update_rules import disco

Arrays = case_lib.Arrays
_T, _B, _A, _Y, _H = samples.T, samples.B, samples.A, samples.Y, samples.H
_CHANNELS = (4, 2)
_INPUT = 6


def _mixer(x: Arrays) -> Arrays:
  net: Any = hk.without_apply_rng(
    hk.transform(lambda x: meta_nets.ActionMixer(_CHANNELS)(x))
  )
  params = small_rule.to_modules(case_lib.under(x, 'blocks'))
  return dict(out=net.apply(params, x['x']))


def _plain_mixer(x: Arrays, axis: int, mean_first: bool) -> Arrays:
  out = x['x']
  for name in ('conv1_d', 'conv1_d_1'):
    mean = jnp.broadcast_to(out.mean(axis=axis, keepdims=True), out.shape)
    parts = [mean, out] if mean_first else [out, mean]
    w = x[f'blocks/sequential/{name}/w'][0]
    out = jnp.concatenate(parts, axis=-1) @ w + x[f'blocks/sequential/{name}/b']
    out = jax.nn.relu(out)
  return dict(out=out)


def _backward(x: Arrays, reverse: bool = True) -> Arrays:
  weights = lstm.LSTMWeights(x['w'][:_INPUT], x['w'][_INPUT:], x['b'])
  hidden, _ = lstm.unroll(weights, x['x'], x['reset_backward'], reverse=reverse)
  return dict(hidden=hidden)


def _other_gates(x: Arrays, order: str) -> Arrays:
  blocks = jnp.split(jnp.arange(4 * _H), 4)
  columns = jnp.concatenate([blocks[order.index(gate)] for gate in 'igfo'])
  return _backward({**x, 'w': x['w'][:, columns], 'b': x['b'][columns]})


def _without_forget_bias(x: Arrays) -> Arrays:
  is_forget = jnp.arange(4 * _H) // _H == 2
  return _backward({**x, 'b': x['b'] - is_forget})


def _shifted_resets(x: Arrays) -> Arrays:
  reset = x['reset_backward']
  shifted = jnp.concatenate([reset[1:], jnp.zeros_like(reset[:1])])
  return _backward({**x, 'reset_backward': shifted})


class _Stages(meta_nets.LSTM):
  """The network, of which only the first stage is applied."""

  def __call__(
    self, inputs: types.UpdateRuleInputs, axis_name: Any | None
  ) -> dict[str, jax.Array]:
    """Embeds the inputs, as `base` [T, B, D] and `actions` [T, B, A, C]."""
    embedded = meta_nets.embed_inputs(
      inputs,
      self._input_option,
      self._embedding_size,
      self._policy_channels,
      axis_name,
      prediction_embeddings.precomputed(inputs, 0),
    )
    return dict(actions=embedded.actions, base=embedded.base)


_FROM_RULE = {
  'v_scalar': '[T+1, B] V of the online network',
  'adv': '[T, B]',
  'normalized_adv': '[T, B]',
  'q': '[T+1, B, A] Q of the target network',
  'qv_adv': '[T+1, B, A]',
  'normalized_qv_adv': '[T+1, B, A]',
}
_INPUTS = {
  **small_rule.ETA,
  'life_long/': '[3] hidden and cell of the life-long LSTM before this update',
  'agent_out/': '[T+1, B, ...] logits [A], y [Y], z [A, Y] of the agent',
  'target_out/': '[T+1, B, ...] the same of the target network',
  'behaviour_logits': '[T+1, B, A] of the policy that acted',
  'actions': '[T+1, B] actions taken',
  'rewards': '[T, B] of the transitions',
  'is_terminal': '[T, B] whether a transition ends an episode',
  **_FROM_RULE,
}


def _sample_inputs(s: samples.Samples) -> Arrays:
  arrays: Arrays = small_rule.sample_eta(s) | small_rule.sample_rnn_state(s)
  for name in ('agent_out', 'target_out'):
    outs = s.outputs()
    arrays |= {f'{name}/{k}': outs[k] for k in ('logits', 'y', 'z')}
  steps, longer = (_T, _B), (_T + 1, _B)
  return dict(
    arrays,
    behaviour_logits=s.normal(*longer, _A),
    actions=s.actions(*longer),
    rewards=s.rewards(*steps),
    is_terminal=samples.is_terminal(),
    v_scalar=s.normal(*longer),
    adv=s.normal(*steps),
    normalized_adv=s.normal(*steps),
    q=s.normal(*longer, _A),
    qv_adv=s.normal(*longer, _A),
    normalized_qv_adv=s.normal(*longer, _A),
  )


def _rule_inputs(x: Arrays) -> types.UpdateRuleInputs:
  return types.UpdateRuleInputs(
    observations=None,
    actions=x['actions'],
    rewards=x['rewards'],
    is_terminal=x['is_terminal'],
    agent_out=case_lib.under(x, 'agent_out'),
    behaviour_agent_out=dict(logits=x['behaviour_logits']),
    extra_from_rule=dict(
      {name: x[name] for name in _FROM_RULE},
      target_out=case_lib.under(x, 'target_out'),
    ),
  )


def _apply(x: Arrays, network: type[meta_nets.LSTM]) -> tuple[Any, Any]:
  net: Any = hk.without_apply_rng(
    hk.transform_with_state(
      lambda inputs: network(
        input_option=disco.get_input_option(), name='lstm', **small_rule.NET
      )(inputs, None)
    )
  )
  return net.apply(
    small_rule.to_modules(case_lib.under(x, 'eta')),
    small_rule.to_rnn_state(x),
    _rule_inputs(x),
  )


def _embedded(x: Arrays) -> Arrays:
  return _apply(x, _Stages)[0]


def _outputs(x: Arrays) -> Arrays:
  outs, state = _apply(x, meta_nets.LSTM)
  return {**outs, **small_rule.from_rnn_state(state)}


def _gate_after_update(x: Arrays) -> Arrays:
  new = case_lib.under(_outputs(x), 'life_long')
  outs = _outputs({**x, 'life_long/hidden': new['hidden']})
  return {name: outs[name] for name in ('meta_input_emb', 'y', 'z', 'pi')}


def _one_hot_of_next_action(x: Arrays) -> Arrays:
  actions = jnp.roll(x['actions'], -1, axis=0)
  return dict(actions=_embedded({**x, 'actions': actions})['actions'])


_Mistake = case_lib.Mistake
CASES = (
  case_lib.Case(
    name='action_blocks',
    computes='The blocks that embed the inputs of all actions.',
    equation=(
      'twice: concatenate the channels of each action with their mean over '
      'actions (each first, then mean), multiply by w (a 1×1 convolution), '
      'add b, ReLU'
    ),
    inputs={
      'x': '[T, B, A, 6] channels of each action',
      'blocks/': 'w [1, 2·in, out] and b [out] of the two blocks',
    },
    outputs=dict(out='[T, B, A, 2] embeddings of the actions'),
    make_inputs=lambda s: {
      'x': s.normal(_T, _B, _A, _INPUT),
      'blocks/sequential/conv1_d/w': s.normal(1, 2 * _INPUT, 4, scale=0.4),
      'blocks/sequential/conv1_d/b': s.normal(4, scale=0.3),
      'blocks/sequential/conv1_d_1/w': s.normal(1, 8, 2, scale=0.5),
      'blocks/sequential/conv1_d_1/b': s.normal(2, scale=0.3) + 0.3,
    },
    compute=_mixer,
    mistakes=dict(
      mean_over_batch=_Mistake(
        'the mean over another axis than that of actions (the batch)',
        lambda x: _plain_mixer(x, axis=1, mean_first=False),
      ),
      mean_first=_Mistake(
        'the mean before the channels of each action',
        lambda x: _plain_mixer(x, axis=2, mean_first=True),
      ),
    ),
  ),
  case_lib.Case(
    name='backward_lstm',
    computes='An LSTM backward in time, with resets.',
    equation=(
      'for t = T−1, ..., 0 from a zero state, which is set to zero again '
      'before step t where reset_backward[t]: the columns of [x, h]·w + b are '
      'the gates i, g, f, o in this order; '
      'c ← sigmoid(f + 1)·c + sigmoid(i)·tanh(g); h ← sigmoid(o)·tanh(c)'
    ),
    inputs=dict(
      x='[T, B, 6] inputs',
      reset_backward='[T, B] see from_rollout',
      w='[6 + H, 4H] rows of x, then of h',
      b='[4H] biases',
    ),
    outputs=dict(hidden='[T, B, H] hidden vectors h'),
    make_inputs=lambda s: dict(
      x=s.normal(_T, _B, _INPUT),
      reset_backward=samples.is_terminal(),
      w=s.normal(_INPUT + _H, 4 * _H, scale=0.5),
      b=s.normal(4 * _H, scale=0.3),
    ),
    compute=_backward,
    builds_on=('from_rollout',),
    mistakes=dict(
      forward_in_time=_Mistake(
        'an LSTM forward in time', lambda x: _backward(x, reverse=False)
      ),
      gates_ifgo=_Mistake(
        'gates in the order i, f, g, o',
        lambda x: _other_gates(x, 'ifgo'),
      ),
      gates_ifog=_Mistake(
        'gates in the order i, f, o, g', lambda x: _other_gates(x, 'ifog')
      ),
      without_forget_bias=_Mistake(
        'no 1 added to the forget gate', _without_forget_bias
      ),
      mask_one_early=_Mistake('the reset mask one step early', _shifted_resets),
    ),
  ),
  case_lib.Case(
    name='meta_inputs',
    computes='The inputs of the meta-network as vectors.',
    equation=(
      'see the table of inputs on the page: each source through its '
      'transforms; per action, these and the one-hot of the action taken '
      'through action_blocks (actions); base: the others concatenated in '
      'order, then the mean of actions over actions, then the row of the '
      'action taken'
    ),
    inputs=_INPUTS,
    outputs=dict(
      actions='[T, B, A, 2] embeddings of the actions',
      base='[T, B, 37] input of the LSTM',
    ),
    make_inputs=_sample_inputs,
    compute=_embedded,
    settings=small_rule.NET,
    tolerance=2e-5,
    builds_on=('input_transforms', 'action_blocks'),
    mistakes=dict(
      one_hot_of_next_action=_Mistake(
        'the one-hot of the next action', _one_hot_of_next_action
      )
    ),
  ),
  case_lib.Case(
    name='meta_network',
    computes='The outputs and the new state of the meta-network.',
    equation=(
      'x = backward_lstm(base) · linear(life_long/hidden), with the hidden '
      'vector before this update; meta_input_emb, y and z are linear in x; '
      'pi: x (the same for all actions) concatenated with the embedding of '
      'each action, a block as in action_blocks, a linear layer. Then a step '
      'of the life-long LSTM (gates as in backward_lstm): the inputs embedded '
      'again by its own weights, concatenated with meta_input_emb and '
      'y_net(softmax(y)), an MLP, the mean over time and batch'
    ),
    inputs=_INPUTS,
    outputs={
      'meta_input_emb': '[T, B, 1]',
      'y': '[T, B, Y] logits of the target ŷ',
      'z': '[T, B, Y] logits of the target ẑ',
      'pi': '[T, B, A] logits of the target π̂',
      'life_long/': '[3] hidden and cell after this update',
    },
    make_inputs=_sample_inputs,
    compute=_outputs,
    settings=small_rule.NET,
    tolerance=2e-5,
    builds_on=('meta_inputs', 'backward_lstm'),
    mistakes=dict(
      gate_after_update=_Mistake(
        'a gate from the life-long state after this update',
        _gate_after_update,
      )
    ),
  ),
)
