"""Losses, their gradient by hand, the optimiser and updates, in NumPy."""

import numpy as np

from tests.support.port import basics
from tests.support.port import meta_net

HEADS = ('logits', 'y', 'z', 'aux_pi', 'q')
# Terms of the loss to the weights that settings give them.
_COSTS = {
  'pi_loss': 'pi_cost',
  'y_loss': 'y_cost',
  'z_loss': 'z_cost',
  'aux_policy_loss': 'aux_policy_cost',
  'value_loss': 'value_cost',
}


def network(params, observations, num_actions, m=()):
  """Applies the agent's network; returns the hidden units, too."""
  hidden = np.tanh(meta_net.linear(params, 'torso', observations))
  outs = {}
  for name in HEADS:
    out = meta_net.linear(params, name, hidden)
    if name in ('z', 'aux_pi', 'q'):
      shape = (num_actions, -1)
      if 'actions_last' in m and name != 'aux_pi':
        out = out.reshape(*out.shape[:-1], -1, num_actions)
        out = np.swapaxes(out, -1, -2)
      else:
        out = out.reshape(*out.shape[:-1], *shape)
    outs[name] = out
  return outs, hidden


def losses(outs, targets, q_td, actions, is_terminal, settings, m):
  now = {name: out[:-1] for name, out in outs.items()}
  a = actions[:-1]
  kl = basics.kl
  if 'reversed_kl' in m:
    kl = lambda p, q: basics.kl(q, p)
  aux_target = outs['logits'][: -1 if 'aux_of_this_step' in m else len(a) + 1]
  aux_target = aux_target if 'aux_of_this_step' in m else aux_target[1:]
  ends = is_terminal
  if 'aux_masked_late' in m:
    ends = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])
  if 'aux_not_masked' in m:
    ends = np.zeros_like(ends)
  q_a = basics.taken(now['q'], a)
  value = basics.value_of(q_a, settings, m)
  bins = basics.two_hot(basics.h(m.constant(value + q_td), m), settings, m)
  terms = dict(
    pi_loss=kl(targets['pi'], now['logits']),
    y_loss=kl(targets['y'], now['y']),
    z_loss=kl(targets['z'], basics.taken(now['z'], a)),
    aux_policy_loss=basics.kl(aux_target, basics.taken(now['aux_pi'], a))
    * (1.0 - ends),
    value_loss=-(bins * basics.log_softmax(q_a)).sum(axis=-1),
  )
  terms['loss'] = sum(settings[cost] * terms[k] for k, cost in _COSTS.items())
  return terms


def loss_gradient(
  outs, targets, q_td, actions, is_terminal, weights, settings, m
):
  """Computes the gradient of Σ loss·weights in the outputs, by hand."""
  softmax = basics.softmax
  grads = {name: np.zeros_like(out) for name, out in outs.items()}
  steps, batch = weights.shape
  next_pi = m.constant(softmax(outs['logits'][1:]))
  q_a = basics.taken(outs['q'][:-1], actions[:-1])
  value = basics.value_of(q_a, settings, m)
  bins = basics.two_hot(basics.h(m.constant(value + q_td), m), settings, m)
  for t in range(steps):
    for b in range(batch):
      a, w = actions[t, b], weights[t, b]
      goes_on = 1.0 - is_terminal[t, b]
      for name, cost, index, wanted, scale in (
        ('logits', 'pi_cost', (t, b), softmax(targets['pi'][t, b]), 1.0),
        ('y', 'y_cost', (t, b), softmax(targets['y'][t, b]), 1.0),
        ('z', 'z_cost', (t, b, a), softmax(targets['z'][t, b]), 1.0),
        ('aux_pi', 'aux_policy_cost', (t, b, a), next_pi[t, b], goes_on),
        ('q', 'value_cost', (t, b, a), bins[t, b], 1.0),
      ):
        found = softmax(outs[name][index])
        scale = scale * w * settings[cost]
        # The weights of both bins sum to 1, those of other targets anyway.
        grads[name][index] += scale * (found * wanted.sum() - wanted)
      if 'next_policy_not_stopped' in m:
        p = softmax(outs['logits'][t + 1, b])
        ratio = np.log(p) - basics.log_softmax(outs['aux_pi'][t, b, a])
        scale = settings['aux_policy_cost'] * w * goes_on
        grads['logits'][t + 1, b] += scale * p * (ratio - (p * ratio).sum())
  return grads


def pull_back(params, observations, hidden, grads):
  """Computes the gradient in the parameters from that in the outputs."""
  inner, out = np.zeros_like(hidden), {}
  for name in HEADS:
    g = grads[name].reshape(*hidden.shape[:-1], -1)
    out[f'{name}/w'] = np.einsum('tbh,tbo->ho', hidden, g)
    out[f'{name}/b'] = g.sum(axis=(0, 1))
    inner += g @ params[f'{name}/w'].T
  inner = inner * (1 - hidden**2)
  out['torso/w'] = np.einsum('tbd,tbh->dh', observations, inner)
  out['torso/b'] = inner.sum(axis=(0, 1))
  return out


def adam(g, mu, nu, count, m):
  """Takes one step; returns the scaled update and both moments."""
  b1, b2, eps = 0.9, 0.999, 1e-8
  mu, nu = b1 * mu + (1 - b1) * g, b2 * nu + (1 - b2) * g * g
  rest1, rest2 = 1 - b1**count, 1 - b2**count
  if 'not_debiased' in m:
    rest1 = rest2 = 1.0
  denominator = np.sqrt(nu / rest2) + eps
  if 'through_the_denominator' not in m:
    denominator = m.constant(denominator)
  return mu / rest1 / denominator, mu, nu


def clipped_adam(g, mu, nu, count, settings, m):
  limit, rate = settings['max_abs_update'], settings['learning_rate']
  if 'clip_before_adam' in m:
    g = np.clip(g, -limit, limit)
  update, mu, nu = adam(g, mu, nu, count, m)
  if not {'clip_before_adam', 'clip_after_learning_rate'} & m.mistakes:
    update = np.clip(update, -limit, limit)
  return -rate * update, mu, nu


def average(target, params, settings, m):
  c = settings['target_params_coeff']
  c = 1 - c if 'other_way_round' in m else c
  return c * target + (1 - c) * params


class Learner:
  """An agent that learns; its state is in its attributes."""

  def __init__(self, eta, state, settings, m):
    self.eta, self.settings, self.m = eta, settings, m
    self.params, self.target = state['params'], state['target_params']
    self.mu, self.nu = state['adam']['mu'], state['adam']['nu']
    self.count = int(state['adam']['count'])
    self.hidden = state['life_long']['hidden']
    self.cell = state['life_long']['cell']
    self.averages = {
      name: basics.Average(settings, **state[name])
      for name in ('adv_average', 'td_average')
    }

  def targets(self, rollout):
    """Computes targets, and advances all of the rule's state."""
    m, actions = self.m, rollout['actions']
    inputs = basics.from_rollout(rollout['rewards'], rollout['discounts'], m)
    num_actions = rollout['behaviour_logits'].shape[-1]
    unroll = lambda params: network(
      params, rollout['observations'], num_actions, m
    )
    online, hidden = unroll(self.params)
    target, _ = unroll(self.target)
    if 'target_network_twice' in m:
      online = target
    values = basics.value_outs(
      dict(
        self.averages,
        q=online['q'],
        target_q=target['q'],
        logits=online['logits'],
        behaviour_logits=rollout['behaviour_logits'],
        actions=actions,
        rewards=inputs['rewards'],
        is_terminal=inputs['is_terminal'],
      ),
      self.settings,
      m,
    )
    read = ('adv', 'normalized_adv', 'qv_adv', 'normalized_qv_adv')
    meta_inputs = dict(
      {name: values[name] for name in read},
      v_scalar=values['value'],
      q=values['target_q_value'],
      agent_out=online,
      target_out=target,
      behaviour_logits=rollout['behaviour_logits'],
      actions=actions,
      rewards=inputs['rewards'],
      is_terminal=inputs['is_terminal'],
    )
    targets, self.hidden, self.cell = meta_net.apply(
      self.eta, meta_inputs, self.hidden, self.cell, m
    )
    self.old_params = self.params
    self.target_logits = target['logits']
    return inputs, online, hidden, {**values, **targets}

  def average_target(self, params):
    self.target = {
      name: average(x, params[name], self.settings, self.m)
      for name, x in self.target.items()
    }

  def update(self, rollout):
    m, actions = self.m, rollout['actions']
    inputs, outs, hidden, targets = self.targets(rollout)
    fixed = (targets, m.constant(targets['q_td']), actions)
    fixed += (inputs['is_terminal'],)
    terms = losses(outs, *fixed, self.settings, m)
    grads = loss_gradient(outs, *fixed, inputs['weights'], self.settings, m)
    grads = pull_back(self.params, rollout['observations'], hidden, grads)
    self.count += 1
    old, self.params = self.params, {}
    for name, g in grads.items():
      update, self.mu[name], self.nu[name] = clipped_adam(
        g, self.mu[name], self.nu[name], self.count, self.settings, m
      )
      self.params[name] = old[name] + update
    self.average_target(self.params if 'target_after_update' in m else old)
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    loss = (terms['loss'] * inputs['weights']).sum()
    return dict(loss=loss, gradient_norm=norm), targets

  def meta_state(self):
    return {
      'target_params': self.target,
      'life_long': dict(hidden=self.hidden, cell=self.cell),
      **{name: x.state() for name, x in self.averages.items()},
    }

  def state(self):
    adam_state = dict(mu=dict(self.mu), nu=dict(self.nu), count=self.count)
    return dict(self.meta_state(), params=self.params, adam=adam_state)


def validation_terms(outs, actions, adv):
  now = {name: out[:-1] for name, out in outs.items()}
  a = actions[:-1]
  log_pi = basics.taken(basics.log_softmax(now['logits']), a)
  return dict(
    policy_gradient=(-log_pi * adv).mean(),
    entropy=basics.entropy(now['logits']).mean(),
    y_entropy=basics.entropy(outs['y']).mean(),
    z_entropy=basics.entropy(basics.taken(now['z'], a)).mean(),
  )


def target_terms(targets, target_logits, m):
  square = lambda x: x.mean() ** 2
  if 'mean_of_squares' in m:
    square = lambda x: (x**2).mean()
  terms = {f'{name}_mean': square(targets[name]) for name in ('y', 'z', 'pi')}
  terms['target_kl'] = basics.kl(target_logits[:-1], targets['pi']).mean()
  return terms


def meta_loss(terms, settings):
  return sum(settings['weights'][name] * x for name, x in terms.items())
