"""Computes the outputs of every case from its files, with the NumPy port."""

import copy

import numpy as np

from tests.support.port import basics
from tests.support.port import learner
from tests.support.port import meta_net


def compute(name, inputs, settings, mistakes=(), in_64_bits=True):
  """Computes the outputs of a case.

  Args:
    name: name of the case.
    inputs: its inputs, by name.
    settings: its settings.
    mistakes: names of the mistakes to make.
    in_64_bits: whether numbers are converted to float64 first.

  Returns:
    Name to output; none for a case that is not implemented.
  """
  if in_64_bits:
    inputs = {
      k: x.astype(np.float64) if x.dtype.kind == 'f' else x
      for k, x in inputs.items()
    }
  function = globals().get(f'_{name}')
  if function is None:
    return {}
  return flatten(function(nest(inputs), settings, basics.Switches(*mistakes)))


def nest(arrays):
  """Nests arrays by the part before the first slash, but for parameters."""
  tree = {}
  flat = ('eta', 'params', 'target_params', 'blocks', 'mu', 'nu')
  for name, x in arrays.items():
    first, slash, rest = name.partition('/')
    if slash:
      tree.setdefault(first, {})[rest] = x
    else:
      tree[name] = x
  return {
    k: nest(x) if isinstance(x, dict) and k not in flat else x
    for k, x in tree.items()
  }


def flatten(tree, prefix=''):
  flat = {}
  for name, x in tree.items():
    if isinstance(x, dict):
      flat |= flatten(x, f'{prefix}{name}/')
    else:
      flat[f'{prefix}{name}'] = np.asarray(x)
  return flat


def _signed_hyperbolic(x, s, m):
  return dict(transformed=basics.h(x['value'], m))


def _signed_parabolic(x, s, m):
  return dict(value=basics.h_inverse(x['transformed'], m))


def _two_hot(x, s, m):
  return dict(two_hot=basics.two_hot(x['value'], s, m))


def _categorical_value(x, s, m):
  mean = basics.categorical_mean(x['logits'], s)
  return dict(mean=mean, value=basics.value_of(x['logits'], s, m))


def _state_value(x, s, m):
  return dict(v=basics.state_value(x['q'], x['logits'], m))


def _from_rollout(x, s, m):
  return basics.from_rollout(x['rewards'], x['discounts'], m)


def _input_transforms(x, s, m):
  data, policy, actions = x['x'], x['policy'], x['actions']
  if 'next_action' in m:
    actions = np.concatenate([actions[1:], actions[-1:]])
  pair = [data[:-1], data[1:]]
  if 'next_step_first' in m:
    pair.reverse()
  average = np.zeros_like(data[:, :, 0])
  for a in range(data.shape[2]):
    average += policy[:, :, a, None] * data[:, :, a]
  return dict(
    identity=data,
    softmax=basics.softmax(data),
    max_a=data.max(axis=2),
    stop_grad=data,
    clip=np.minimum(np.maximum(data, -2), 2),
    sign=np.sign(data),
    drop_last=data[:-1],
    td_pair=np.concatenate(pair, axis=-1),
    sign_log=np.sign(data) * np.log(1 + abs(data)),
    sign_hyp=basics.h(data, m),
    masks_to_discounts=1 - data,
    select_a=basics.taken(data[:-1], actions),
    pi_weighted_avg=average,
  )


def _normalize(x, s, m):
  outs, m1, m2, product = {}, 0.0, 0.0, 1.0
  for name in ('first', 'second'):
    y = x[name]
    m1 = 0.99 * m1 + 0.01 * y.mean(axis=(0, 1))
    m2 = 0.99 * m2 + 0.01 * (y**2).mean(axis=(0, 1))
    product *= 0.99
    mean = m1 / (1 - product)
    variance = np.maximum(0, m2 / (1 - product) - mean**2)
    outs[name] = (y - mean) / (np.sqrt(variance + 1e-12) + 1e-6)
  return outs


def _importance_weights(x, s, m):
  rho = basics.importance_weights(
    x['logits'], x['behaviour_logits'], x['actions']
  )
  rho = 1 / rho if 'inverse_ratio' in m else rho
  return dict(rho=rho, clipped=np.minimum(rho, 1))


def _vtrace(x, s, m):
  if 'reward_of_next_step' in m:
    x = dict(x, rewards=np.roll(x['rewards'], -1, axis=0))
  return basics.vtrace(x, s['discount'], s['lambda'])


def _retrace(x, s, m):
  return basics.retrace(x, s['discount'], s['lambda'], m)


def _moving_average(x, s, m):
  average, outs = basics.Average(s), {}
  for name in ('first', 'second'):
    old = copy.copy(average)
    average.update(x[name])
    used = average
    if 'old_statistics' in m and name == 'second':
      used = old
    outs[name] = dict(
      average.state(),
      normalized=used.normalize(x[name], m),
      scaled=used.normalize(x[name], m, subtract_mean=False),
    )
  return outs


def _with_averages(x, s):
  names = ('adv_average', 'td_average')
  return dict(x, **{name: basics.Average(s, **x[name]) for name in names})


def _value_outs(x, s, m):
  x = _with_averages(x, s)
  outs = basics.value_outs(x, s, m)
  outs['adv_average'] = x['adv_average'].state()
  outs['td_average'] = x['td_average'].state()
  return outs


def _action_blocks(x, s, m):
  blocks = x['blocks']
  return dict(out=meta_net.action_blocks(blocks, 'sequential', x['x'], 2, m))


def _backward_lstm(x, s, m):
  reset = x['reset_backward']
  return dict(hidden=meta_net.backward_lstm(x['w'], x['b'], x['x'], reset, m))


def _meta_inputs(x, s, m):
  base, actions = meta_net.embed(x['eta'], 'lstm', x, m)
  return dict(actions=actions, base=base)


def _meta_network(x, s, m):
  state = x['life_long']
  outs, hidden, cell = meta_net.apply(
    x['eta'], x, state['hidden'], state['cell'], m
  )
  return dict(outs, life_long=dict(hidden=hidden, cell=cell))


def _losses(x, s, m):
  return learner.losses(
    *(x['agent_out'], x['targets'], x['q_td'], x['actions']),
    *(x['is_terminal'], s, m),
  )


def _loss_gradient(x, s, m):
  fixed = (x['agent_out'], x['targets'], x['q_td'], x['actions'])
  fixed += (x['is_terminal'],)
  loss = learner.losses(*fixed, s, m)['loss']
  grads = learner.loss_gradient(*fixed, x['weights'], s, m)
  return dict(loss=(loss * x['weights']).sum(), gradient=grads)


def _adam(x, s, m):
  mu = nu = np.zeros_like(x['gradients'][0])
  updates = []
  for i, g in enumerate(x['gradients']):
    update, mu, nu = learner.adam(g, mu, nu, i + 1, m)
    updates.append(update)
  return dict(updates=updates, mu=mu, nu=nu, count=len(updates))


def _adam_then_clip(x, s, m):
  mu, nu, count, updates = x['mu'], x['nu'], int(x['count']), []
  for g in x['gradients']:
    count += 1
    update, mu, nu = learner.clipped_adam(g, mu, nu, count, s, m)
    updates.append(update)
  return dict(updates=updates, mu=mu, nu=nu, count=count)


def _adam_derivative(x, s, m):
  def total(factor):
    mu = nu = np.zeros_like(x['gradients'][0])
    value = 0.0
    for i, g in enumerate(x['gradients']):
      g = factor * g + 0.1 * factor**2
      update, mu, nu = learner.adam(g, mu, nu, i + 1, m)
      value += (i + 1) * update.sum()
    return value

  value = total(x['s'])
  differences = []
  for step in (1e-5, -1e-5):
    m.replay()
    differences.append(total(x['s'] + step))
  return dict(value=value, derivative=(differences[0] - differences[1]) / 2e-5)


def _target_average(x, s, m):
  return dict(target=learner.average(x['target'], x['params'], s, m))


def _agent_network(x, s, m):
  outs, _ = learner.network(x['params'], x['observations'], 3, m)
  return outs


def _settings(s):
  """Names settings as the values of a trajectory do."""
  return dict(
    s,
    discount=s['value_discount'],
    decay=s['moving_average_decay'],
    eps=s['moving_average_eps'],
    **{'lambda': s['value_fn_td_lambda']},
  )


def _rule_targets(x, s, m):
  agent = learner.Learner(x['eta'], x, _settings(s), m)
  _, _, _, targets = agent.targets(x)
  agent.average_target(agent.params)
  return {**targets, **agent.meta_state()}


def _learner_step(x, s, m):
  agent = learner.Learner(x['eta'], x, _settings(s), m)
  log, _ = agent.update(x)
  return {**log, **agent.state()}


def _rollout(x, i):
  return {name: array[i] for name, array in x['rollouts'].items()}


def _learner_steps(x, s, m):
  agent, outs = learner.Learner(x['eta'], x, _settings(s), m), {}
  for i in range(3):
    log, _ = agent.update(_rollout(x, i))
    outs[f'step_{i + 1}'] = copy.deepcopy({**log, **agent.state()})
  return outs


def _meta_loss(x, s, m):
  valid = x['validation']
  terms = learner.validation_terms(
    x['agent_out'], valid['actions'], valid['normalized_adv']
  )
  terms |= learner.target_terms(x['targets'], x['target_logits'], m)
  return dict(terms, meta_loss=learner.meta_loss(terms, s))


def _meta_gradient(x, s, m):
  """Computes everything but the gradient, see `meta_loss_at`."""
  return meta_loss_at(x['eta'], x, s, m)


def meta_loss_at(eta, x, s, m):
  """Computes the meta-loss, its terms and θ after the updates, at some η."""
  agent = learner.Learner(eta, copy.deepcopy(x), _settings(s), m)
  num = s['num_inner_updates']
  means = {}
  for i in range(num):
    _, targets = agent.update(_rollout(x, i))
    own = learner.target_terms(targets, agent.target_logits, m)
    means = {k: means.get(k, 0.0) + own[k] / num for k in own}
  valid = x['validation']
  outs, _ = learner.network(agent.params, valid['observations'], 3)
  terms = learner.validation_terms(
    outs, valid['actions'], valid['normalized_adv']
  )
  terms |= means
  loss = learner.meta_loss(terms, s)
  return dict(terms, meta_loss=loss, params=agent.params)
