"""The discovered rule: a meta-network computes an agent's targets.

From "Discovering state-of-the-art reinforcement learning algorithms" (Oh et
al., Nature 2025). There are targets for the policy and for two predictions
whose meaning was discovered, not designed: y, of an observation, and z, of an
observation and an action.

One file because the rule's class and its inputs are published in this module.
"""

from collections.abc import Callable, Mapping
import copy
from typing import Any

import chex
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import types
from disco_rl import utils
from disco_rl.networks import action_masks
from disco_rl.networks import blocks
from disco_rl.networks import meta_nets
from disco_rl.networks import prediction_embeddings
from disco_rl.update_rules import base
from disco_rl.update_rules import categorical
from disco_rl.value_fns import value_utils

# γ of the published rule.
PUBLISHED_DISCOUNT = 0.997


class DiscoUpdateRule(base.UpdateRule):
  """Trains agents towards the targets of a meta-network."""

  required_hyper_params = (
    'pi_cost',
    'y_cost',
    'z_cost',
    'aux_policy_cost',
    'value_cost',
    'target_params_coeff',
    'value_fn_td_lambda',
  )
  # Part of the published settings; the rule's γ is `value_discount`.
  optional_hyper_params = ('discount_factor',)
  needs_behaviour_logits = True
  learns_taken_actions_only = True
  logs_of_all_actions = ('z',)
  learns_from_fixed_targets = True
  learns_streams_separately = True
  # Whether nothing but the summary of outputs per action is read.
  reads_summaries = True

  def __init__(
    self,
    net: Mapping[str, Any],
    value_discount: float,
    max_abs_value: float,
    num_bins: int,
    moving_average_decay: float = 0.99,
    moving_average_eps: float = 1e-6,
  ):
    """Initialises the rule.

    Args:
      net: `name` of the meta-network and its constructor arguments; see
        `meta_nets.LSTM`.
      value_discount: γ of the action values.
      max_abs_value: the action values' categorical support is ± this.
      num_bins: number of points of that support.
      moving_average_decay: decay of the advantage and TD statistics.
      moving_average_eps: added to the standard deviations.
    """
    value_utils.checked_max_abs_value(max_abs_value)
    value_utils.checked_num_bins(num_bins)
    net_kwargs = dict(**net)
    name = net_kwargs.pop('name')
    utils.lookup(meta_nets.META_NETS, name, 'meta-network')
    self._prediction_size = int(net_kwargs['prediction_size'])
    self._value_discount = value_discount
    self._max_abs_value = max_abs_value
    self._num_bins = num_bins
    self._ema = utils.MovingAverage(
      jnp.zeros([]), decay=moving_average_decay, eps=moving_average_eps
    )
    meta_net: Any = hk.without_apply_rng(
      hk.transform_with_state(
        lambda inputs, axis_name: meta_nets.get_meta_net(name, **net_kwargs)(
          inputs, axis_name
        )
      )
    )
    init = lambda rng: meta_net.init(rng, self._dummy_inputs(), None)
    self._apply_meta_net = meta_net.apply
    option = net_kwargs.get('input_option')
    self._input_option = option
    own_option = dict(net_kwargs.get('meta_rnn_kwargs') or {}).get(
      'input_option', option
    )
    is_lstm = meta_nets.META_NETS[name] is meta_nets.LSTM
    self._reads_only_embeddings = is_lstm and all(
      o is not None and prediction_embeddings.reads_only_embeddings(o)
      for o in (option, own_option)
    )
    # Compiled, since initialising is slow one operation at a time. The state
    # has a separate function, in which no parameters are drawn.
    self._init = jax.jit(init)
    self._init_state = jax.jit(lambda rng: init(rng)[1])

  @property
  def discount(self) -> float:
    """γ of the action values."""
    return self._value_discount

  @property
  def input_option(self) -> types.MetaNetInputOption:
    """The inputs of the meta-network."""
    return self._input_option or get_input_option()

  def with_inputs(
    self,
    change: Callable[[types.UpdateRuleInputs], types.UpdateRuleInputs],
  ) -> 'DiscoUpdateRule':
    """Returns a copy whose meta-network reads changed inputs.

    For asking what the rule looks at. The values that the rule computes itself,
    such as advantages, are those of the unchanged experience, and can be
    changed separately.

    Args:
      change: a function from the inputs of the meta-network to those it shall
        read, with all entries of `get_input_option`.
    """
    other = copy.copy(self)
    # Embeddings that are computed before would hide changes of y and z.
    other._reads_only_embeddings = False
    apply = self._apply_meta_net
    other._apply_meta_net = lambda params, state, inputs, axis_name: apply(
      params, state, change(inputs), axis_name
    )
    return other

  def init_params(
    self, rng: chex.PRNGKey
  ) -> tuple[types.MetaParams, types.HaikuState]:
    """Makes initial η and the meta-network's zero state."""
    return self._init(rng)

  def check_hyper_params(
    self, hyper_params: types.HyperParams, allow_unknown: bool = False
  ) -> None:
    """Checks names, and rejects a discount that would have no effect."""
    super().check_hyper_params(hyper_params, allow_unknown)
    given = hyper_params.get('discount_factor', PUBLISHED_DISCOUNT)
    if not allow_unknown and given not in (
      PUBLISHED_DISCOUNT,
      self._value_discount,
    ):
      raise ValueError(
        f'hyper_params.discount_factor is {given}, but the discount of this '
        f'rule is update_rule.value_discount, {self._value_discount}: change '
        'that one'
      )

  def flat_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns the specs of `logits` [A] and `y` [Y]."""
    return dict(
      logits=utils.get_logits_specs(single_action_spec),
      y=types.ArraySpec((self._prediction_size,), np.float32),
    )

  def model_output_spec(
    self, single_action_spec: types.ActionSpec
  ) -> types.Specs:
    """Returns the specs of `z` [Y], `aux_pi` [A] and `q` [bins] per action."""
    return dict(
      z=types.ArraySpec((self._prediction_size,), np.float32),
      aux_pi=utils.get_logits_specs(single_action_spec),
      q=types.ArraySpec((self._num_bins,), np.float32),
    )

  def init_meta_state(
    self, rng: chex.PRNGKey, params: types.AgentParams
  ) -> types.MetaState:
    """Makes `rnn_state`, `adv_ema_state`, `td_ema_state`, `target_params`."""
    return dict(
      rnn_state=self._init_state(rng),
      adv_ema_state=self._ema.init_state(),
      td_ema_state=self._ema.init_state(),
      target_params=utils.copy_tree(params),
    )

  def summary_fn(
    self, meta_params: types.MetaParams
  ) -> Callable[[types.AgentOuts], dict[str, Any]] | None:
    """Returns the summary of y, z and q; see `base.UpdateRule`.

    The summary of y and z are their embeddings, that of q are the means of the
    distributions, and `z_mean` is the mean of z's logits. There is none for
    meta-networks that read more than that, or less; nor for subclasses, unless
    they set `reads_summaries` themselves.
    """
    if not self._reads_only_embeddings or not self.declares('reads_summaries'):
      return None
    networks = prediction_embeddings.get_networks(meta_params)
    if not all(layers for pair in networks.values() for layers in pair):
      return None

    def summarize(outs: types.AgentOuts) -> dict[str, Any]:
      summary: dict[str, Any] = {
        name: prediction_embeddings.embed(outs[name], networks[name])
        for name in networks
        if name in outs
      }
      if 'z' in outs:
        summary['z_mean'] = jnp.mean(outs['z'], axis=(-2, -1))
      if 'q' in outs:
        summary['q'] = value_utils.value_logits_to_scalar(
          outs['q'], self._max_abs_value
        )
      return summary

    return summarize

  def summary_log(self, summary: Mapping[str, Any]) -> types.UpdateRuleLog:
    """Computes the mean of z's logits."""
    return dict(z=jnp.mean(summary['z_mean'][:-1]))

  def unroll_meta_net(
    self,
    meta_params: types.MetaParams,
    params: types.AgentParams,
    state: types.HaikuState,
    meta_state: types.MetaState,
    rollout: types.UpdateRuleInputs,
    hyper_params: types.HyperParams,
    unroll_policy_fn: types.AgentUnrollFn,
    rng: chex.PRNGKey,
    axis_name: Any | None = None,
  ) -> tuple[types.UpdateRuleOuts, types.MetaState]:
    """Computes π̂, ŷ, ẑ and Retrace targets; see `base.UpdateRule`."""
    del rng
    self._check_inputs(rollout, hyper_params)
    target_out, _ = unroll_policy_fn(
      meta_state['target_params'],
      state,
      rollout.observations,
      rollout.should_reset_mask_fwd,
    )
    summary = self._summarize(meta_params, rollout.agent_out)
    target_summary = self._summarize(meta_params, target_out)
    value_outs, adv_ema_state, td_ema_state = value_utils.get_value_outs(
      value_net_out=None,
      q_net_out=summary['q'][..., None],
      target_value_net_out=None,
      target_q_net_out=target_summary['q'][..., None],
      rollout=rollout,
      pi_logits=rollout.agent_out['logits'],
      discount=self._value_discount,
      lambda_=hyper_params['value_fn_td_lambda'],
      nonlinear_transform=True,
      drop_last=False,
      adv_ema_state=meta_state['adv_ema_state'],
      adv_ema_fn=self._ema,
      td_ema_state=meta_state['td_ema_state'],
      td_ema_fn=self._ema,
      axis_name=axis_name,
    )
    meta_net_inputs = rollout.replace(
      extra_from_rule=dict(
        v_scalar=value_outs.value,
        adv=value_outs.adv,
        normalized_adv=value_outs.normalized_adv,
        q=value_outs.target_q_value,
        qv_adv=value_outs.qv_adv,
        normalized_qv_adv=value_outs.normalized_qv_adv,
        target_out=target_out,
        **self._embeddings(summary, target_summary),
      )
    )
    meta_net_out, rnn_state = self._apply_meta_net(
      meta_params, meta_state['rnn_state'], meta_net_inputs, axis_name
    )
    meta_out = dict(
      **meta_net_out,
      q_target=value_outs.q_target,
      adv=value_outs.adv,
      normalized_adv=value_outs.normalized_adv,
      qv_adv=value_outs.qv_adv,
      normalized_qv_adv=value_outs.normalized_qv_adv,
      q_value=value_outs.q_value,
      q_td=value_outs.q_td,
      normalized_q_td=value_outs.normalized_q_td,
      target_out=target_out,
    )
    if rollout.action_mask is not None:
      mask = jnp.asarray(rollout.action_mask)[:-1]
      meta_out['pi'] = action_masks.mask_logits(meta_out['pi'], mask)
      meta_out['action_mask'] = mask
    coeff = hyper_params['target_params_coeff']
    new_meta_state = dict(
      rnn_state=rnn_state,
      adv_ema_state=adv_ema_state,
      td_ema_state=td_ema_state,
      target_params=jax.tree.map(
        lambda target, online: _move_towards(target, online, 1 - coeff),
        meta_state['target_params'],
        params,
      ),
    )
    return meta_out, new_meta_state

  def _summarize(
    self, meta_params: types.MetaParams, outs: Mapping[str, Any]
  ) -> Mapping[str, Any]:
    """Summarises outputs [T+1, B, ...], unless that is done already."""
    if base.SUMMARY in outs:
      return outs[base.SUMMARY]
    summarize = self.summary_fn(meta_params)
    if summarize is None:
      return dict(
        q=value_utils.value_logits_to_scalar(outs['q'], self._max_abs_value)
      )
    num_steps, batch_size, num_actions, num_bins = outs['q'].shape
    rows = {
      name: jnp.asarray(outs[name]).reshape(-1, *outs[name].shape[2:])
      for name in ('y', 'z', 'q')
    }
    summary = blocks.map_rows(summarize, rows, num_actions * num_bins)
    return jax.tree.map(
      lambda x: x.reshape(num_steps, batch_size, *x.shape[1:]), summary
    )

  def _embeddings(
    self, summary: Mapping[str, Any], target_summary: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Returns the inputs of the meta-network that are embedded already."""
    if 'z' not in summary:
      return {}
    sources = {
      prediction_embeddings.ONLINE: summary,
      prediction_embeddings.TARGET: target_summary,
    }
    return {
      prediction_embeddings.EMBEDDINGS: {
        f'{source}/{name}': outs[name]
        for source, outs in sources.items()
        for name in prediction_embeddings.TRANSFORMS
      }
    }

  def agent_loss(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
    backprop: bool,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Computes weighted KLs between the rule's targets and the agent's outputs.

    The loss of step t is `KL(π̂‖π) + KL(ŷ‖y) + KL(ẑ‖z(a)) +
    KL(πₜ₊₁‖aux_pi(a))`; the last is zero where the episode ends.
    """
    targets = {k: meta_out[k] for k in ('pi', 'y', 'z')}
    if not backprop:
      targets = jax.lax.stop_gradient(targets)
    agent_out = rollout.agent_out
    # Taken before the last step is dropped, so that gradients of outputs per
    # action are made in one pass.
    taken = lambda name: utils.batch_lookup(agent_out[name], rollout.actions)
    logits, y = agent_out['logits'][:-1], agent_out['y'][:-1]
    z_a, aux_pi_a = taken('z')[:-1], taken('aux_pi')[:-1]
    next_logits = jax.lax.stop_gradient(agent_out['logits'][1:])
    mask = rollout.action_mask
    if mask is not None:
      aux_pi_a = action_masks.mask_logits(aux_pi_a, mask[1:])
    not_terminal = 1.0 - jnp.asarray(rollout.is_terminal, jnp.float32)

    pi_loss = categorical.kl_divergence(targets['pi'], logits)
    y_loss = categorical.kl_divergence(targets['y'], y)
    z_loss = categorical.kl_divergence(targets['z'], z_a)
    aux_loss = categorical.kl_divergence(next_logits, aux_pi_a) * not_terminal
    loss = (
      hyper_params['pi_cost'] * pi_loss
      + hyper_params['y_cost'] * y_loss
      + hyper_params['z_cost'] * z_loss
      + hyper_params['aux_policy_cost'] * aux_loss
    )
    log = dict(
      logits=action_masks.mean_over_all(logits, mask),
      y=jnp.mean(y),
      z=jnp.mean(agent_out['z'][:-1]),
      entropy=jnp.mean(categorical.entropy(logits)),
      y_entropy=jnp.mean(categorical.entropy(y)),
      z_entropy=jnp.mean(categorical.entropy(z_a)),
      pi_loss=jnp.mean(pi_loss),
      aux_kl_loss=jnp.mean(aux_loss),
      pi_hat=action_masks.mean_over_all(targets['pi'], mask),
      y_hat=jnp.mean(targets['y']),
      z_hat=jnp.mean(targets['z']),
      pi_hat_entropy=jnp.mean(categorical.entropy(targets['pi'])),
      aux_policy_entropy=jnp.mean(categorical.entropy(aux_pi_a)),
      aux_target_entropy=jnp.mean(categorical.entropy(next_logits)),
    )
    return loss, log

  def agent_loss_no_meta(
    self,
    rollout: types.UpdateRuleInputs,
    meta_out: types.UpdateRuleOuts,
    hyper_params: types.HyperParams,
  ) -> tuple[jax.Array, types.UpdateRuleLog]:
    """Computes the action-value loss towards Retrace targets."""
    q_a = utils.batch_lookup(rollout.agent_out['q'], rollout.actions)[:-1]
    q_loss = value_utils.value_loss_from_td(
      q_a,
      jax.lax.stop_gradient(meta_out['q_td']),
      nonlinear_transform=True,
      categorical_value=True,
      max_abs_value=self._max_abs_value,
    )
    log = dict(
      q_target=jnp.mean(meta_out['q_target']),
      agent_q_mean=action_masks.mean_over_all(
        meta_out['q_value'], rollout.action_mask
      ),
      q_loss=jnp.mean(q_loss),
      td=jnp.mean(meta_out['q_td']),
      normalized_td=jnp.mean(meta_out['normalized_q_td']),
    )
    return hyper_params['value_cost'] * q_loss, log

  def validation_terms(
    self,
    agent_out: types.AgentOuts,
    actions: types.Array,
    output_actions: types.Array,
    normalized_adv: types.Array,
  ) -> types.LogDict:
    """Adds the entropies of y and of z(a); see `base.UpdateRule`."""
    terms = super().validation_terms(
      agent_out, actions, output_actions, normalized_adv
    )
    z_a = utils.batch_lookup(agent_out['z'][:-1], output_actions[:-1])
    return dict(
      **terms,
      # As published, the last step of y counts, though it has no action.
      y_entropy=jnp.mean(categorical.entropy(agent_out['y'])),
      z_entropy=jnp.mean(categorical.entropy(z_a)),
    )

  def target_terms(
    self, meta_out: types.UpdateRuleOuts, axis_name: Any | None
  ) -> types.LogDict:
    """Computes (mean target)² of each kind, and KL(target network's π ‖ π̂)."""

    def mean_squared(
      x: types.Array, mask: types.Array | None = None
    ) -> jax.Array:
      mean = action_masks.mean_over_all(x, mask)
      if axis_name is not None:
        # Before the square, so that the loss is that of one device.
        mean = jax.lax.pmean(mean, axis_name)
      return jnp.square(mean)

    target_logits = jax.lax.stop_gradient(meta_out['target_out']['logits'][:-1])
    kl = categorical.kl_divergence(target_logits, meta_out['pi'])
    return dict(
      y_mean=mean_squared(meta_out['y']),
      z_mean=mean_squared(meta_out['z']),
      pi_mean=mean_squared(meta_out['pi'], meta_out.get('action_mask')),
      target_kl=jnp.mean(kl),
    )

  def _dummy_inputs(self) -> types.UpdateRuleInputs:
    """Makes the smallest trajectory: η does not depend on T, B or A."""
    t, b, a = 1, 1, 1
    action_spec = types.ActionSpec((), np.int32, 0, a - 1)
    outs = utils.zeros_like_spec(
      self.agent_output_spec(action_spec), (t + 1, b)
    )
    return types.UpdateRuleInputs(
      observations=None,
      actions=jnp.zeros((t + 1, b), jnp.int32),
      rewards=jnp.zeros((t, b)),
      is_terminal=jnp.zeros((t, b), bool),
      agent_out=outs,
      behaviour_agent_out=outs,
      extra_from_rule=dict(
        v_scalar=jnp.zeros((t + 1, b)),
        adv=jnp.zeros((t, b)),
        normalized_adv=jnp.zeros((t, b)),
        q=jnp.zeros((t + 1, b, a)),
        qv_adv=jnp.zeros((t + 1, b, a)),
        normalized_qv_adv=jnp.zeros((t + 1, b, a)),
        target_out=outs,
      ),
    )


def _move_towards(target: Any, online: Any, step: chex.Numeric) -> Any:
  """Interpolates floating-point leaves; takes others from `online`."""
  dtype = getattr(target, 'dtype', None)
  if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
    return online
  return ((1 - step) * target + step * online).astype(dtype)


def get_input_option() -> types.MetaNetInputOption:
  """Returns the inputs of the published meta-network, in order."""
  policies = (
    'agent_out/logits',
    'behaviour_agent_out/logits',
    'extra_from_rule/target_out/logits',
  )
  probability = ('drop_last', 'softmax', 'stop_grad')
  networks = ('agent_out', 'extra_from_rule/target_out')
  config = lambda source, *transforms: types.TransformConfig(
    source=source, transforms=transforms
  )
  base_inputs = [
    config(policies[0], *probability, 'select_a'),
    config(policies[1], *probability, 'select_a'),
    config('rewards', 'sign_log'),
    config('is_terminal', 'masks_to_discounts'),
    config('extra_from_rule/v_scalar', 'sign_log', 'td_pair', 'stop_grad'),
    config('extra_from_rule/adv', 'sign_log', 'stop_grad'),
    config('extra_from_rule/normalized_adv', 'stop_grad'),
    config(policies[2], *probability, 'select_a'),
    *[config(f'{n}/y', 'softmax', 'y_net', 'td_pair') for n in networks],
  ]
  for n in networks:
    base_inputs += [
      config(f'{n}/z', 'drop_last', 'softmax', 'z_net', 'select_a'),
      config(f'{n}/z', 'softmax', 'z_net', 'pi_weighted_avg', 'td_pair'),
      config(f'{n}/z', 'softmax', 'z_net', 'max_a', 'td_pair'),
    ]
  action_inputs = [
    *[config(p, *probability) for p in policies],
    *[config(f'{n}/z', 'drop_last', 'softmax', 'z_net') for n in networks],
    config('extra_from_rule/q', 'sign_log', 'drop_last', 'stop_grad'),
    config('extra_from_rule/qv_adv', 'sign_log', 'drop_last', 'stop_grad'),
    config('extra_from_rule/normalized_qv_adv', 'drop_last', 'stop_grad'),
  ]
  return types.MetaNetInputOption(
    base=base_inputs, action_conditional=action_inputs
  )
