"""Distributions, values, returns and averages, element by element."""

import numpy as np


class Switches:
  """The mistakes that an implementation makes, and its constants.

  Numbers through which a meta-gradient does not pass are recorded in a first
  run, and replayed in runs with perturbed η.
  """

  def __init__(self, *mistakes):
    self.mistakes = set(mistakes)
    self._recorded = []
    self._next = None  # Index of the next constant; None while recording.

  def __contains__(self, mistake):
    return mistake in self.mistakes

  def replay(self):
    self._next = 0

  def constant(self, x):
    if self._next is None:
      self._recorded.append(np.array(x))
      return x
    x = self._recorded[self._next]
    self._next += 1
    return x


def softmax(x):
  e = np.exp(x - x.max(axis=-1, keepdims=True))
  return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
  x = x - x.max(axis=-1, keepdims=True)
  return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def kl(p_logits, q_logits):
  log_p, log_q = log_softmax(p_logits), log_softmax(q_logits)
  return (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)


def entropy(logits):
  log_p = log_softmax(logits)
  return -(np.exp(log_p) * log_p).sum(axis=-1)


def taken(x, actions):
  """Selects x[t, b, actions[t, b]] in loops."""
  rows = [
    [x[t, b, actions[t, b]] for b in range(actions.shape[1])]
    for t in range(actions.shape[0])
  ]
  return np.array(rows)


def h(x, m):
  linear = 0 if 'without_linear_term' in m else 0.001 * x
  return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + linear


def h_inverse(y, m):
  eps = 0.001
  z = (np.sqrt(1 + 4 * eps * (eps + 1 + abs(y))) - 1) / (2 * eps)
  if 'square_only' in m:
    z = abs(y) + 1
  return np.sign(y) * (z * z - 1)


def two_hot(values, settings, m):
  limit, num_bins = settings['max_abs_value'], settings['num_bins']
  bins = np.linspace(-limit, limit, num_bins)
  out = np.zeros((*np.shape(values), num_bins))
  for index in np.ndindex(np.shape(values)):
    x = min(max(values[index], -limit), limit)
    position = (x + limit) / (2 * limit) * (num_bins - 1)
    low, high = int(np.floor(position)), int(np.ceil(position))
    weight = (bins[high] - x) / (bins[high] - bins[low] + 1e-5)
    if low == high:
      weight = 0.0
    elif 'exchanged_weights' in m:
      weight = 1 - weight
    out[(*index, low)] += weight
    out[(*index, high)] += 1 - weight
  return out


def categorical_mean(logits, settings):
  limit = settings['max_abs_value']
  return softmax(logits) @ np.linspace(-limit, limit, settings['num_bins'])


def value_of(logits, settings, m):
  if 'inverse_before_mean' in m:
    limit = settings['max_abs_value']
    bins = np.linspace(-limit, limit, settings['num_bins'])
    return softmax(logits) @ h_inverse(bins, m)
  return h_inverse(categorical_mean(logits, settings), m)


def state_value(q, logits, m):
  if 'greedy' in m:
    return q.max(axis=-1)
  return (softmax(logits) * q).sum(axis=-1)


def from_rollout(rewards, discounts, m):
  ends = discounts == 0
  terminal = ends[:-1] if 'ends_one_early' in m else ends[1:]
  false = np.zeros_like(terminal[:1])
  forward = np.concatenate([false, terminal])
  backward = terminal
  if 'resets_one_early' in m:
    forward = np.concatenate([terminal, false])
    backward = np.concatenate([terminal[1:], false])
  first = 1 if 'masks_the_wrong_step' in m else 0
  mask = (discounts[first : first + len(terminal)] > 0).astype(float)
  rewards = rewards[:-1] if 'rewards_one_early' in m else rewards[1:]
  return dict(
    rewards=rewards,
    is_terminal=terminal,
    reset_forward=forward,
    reset_backward=backward,
    weights=mask / (mask.sum() + 1e-8),
  )


def importance_weights(logits, behaviour_logits, actions):
  pi = taken(softmax(logits)[:-1], actions[:-1])
  mu = taken(softmax(behaviour_logits)[:-1], actions[:-1])
  return pi / mu


def vtrace(x, gamma, lambda_):
  target_v, rho = x['target_v'], np.minimum(x['rho'], 1)
  steps, batch = x['rewards'].shape
  target, adv = np.zeros((steps, batch)), np.zeros((steps, batch))
  for b in range(batch):
    error, bootstrap = 0.0, target_v[steps, b]
    for t in reversed(range(steps)):
      g = 0.0 if x['is_terminal'][t, b] else gamma
      reward, v, v_next = x['rewards'][t, b], target_v[t, b], target_v[t + 1, b]
      delta = rho[t, b] * (reward + g * v_next - v)
      error = delta + g * lambda_ * rho[t, b] * error
      target[t, b] = v + error
      adv[t, b] = rho[t, b] * (reward + g * bootstrap - v)
      bootstrap = lambda_ * target[t, b] + (1 - lambda_) * v
  return dict(value_target=target, adv=adv, td=target - x['v'][:-1])


def retrace(x, gamma, lambda_, m):
  """Computes targets from the last step to the first, each by its equation."""
  steps, batch = x['rewards'].shape
  q, v, actions = x['target_q'], x['target_v'], x['actions']
  clipped = np.minimum(x['rho'], 1)
  c = lambda_ * (x['rho'] if 'unclipped_trace' in m else clipped)
  if 'without_lambda' in m:
    c = clipped
  g = np.zeros((steps, batch))
  for b in range(batch):
    for t in reversed(range(steps)):
      ends = x['is_terminal'][t, b] and 'through_the_end' not in m
      inner = v[t + 1, b]
      if t + 1 < steps:
        at = t if 'shifted_trace' in m else t + 1
        inner += c[at, b] * (g[t + 1, b] - q[at, b, actions[at, b]])
      g[t, b] = x['rewards'][t, b] + (0.0 if ends else gamma) * inner
  if 'shifted_return' in m:
    g = np.concatenate([np.zeros((1, batch)), g[:-1]])
  adv = g - v[:-1]
  target = v[:-1] + clipped * adv
  return dict(
    q_target=g,
    adv=adv,
    value_target=target,
    td=target - x['v'][:-1],
    q_td=g - taken(x['q'][:-1], actions[:-1]),
    qv_adv=q - v[..., None],
  )


class Average:
  """A moving average, with its moments as attributes."""

  def __init__(self, settings, moment1=0.0, moment2=0.0, decay_product=1.0):
    self._settings = settings
    self.moment1, self.moment2 = moment1, moment2
    self.decay_product = decay_product

  def update(self, x):
    d = self._settings['decay']
    self.moment1 = d * self.moment1 + (1 - d) * np.mean(x)
    self.moment2 = d * self.moment2 + (1 - d) * np.mean(np.square(x))
    self.decay_product = d * self.decay_product

  def normalize(self, x, m, subtract_mean=True):
    rest = 1.0 if 'moments_not_debiased' in m else 1 - self.decay_product
    mean = self.moment1 / rest
    variance = max(0.0, self.moment2 / rest - mean**2)
    if subtract_mean:
      x = x - mean
    return x / (np.sqrt(variance + 1e-12) + self._settings['eps'])

  def state(self):
    names = ('moment1', 'moment2', 'decay_product')
    return {name: getattr(self, name) for name in names}


def value_outs(x, settings, m):
  """Computes the values of a trajectory; also updates both averages."""
  q = value_of(x['q'], settings, m)
  target_q = value_of(x['target_q'], settings, m)
  value = state_value(q, x['logits'], m)
  target_value = state_value(target_q, x['logits'], m)
  rho = importance_weights(x['logits'], x['behaviour_logits'], x['actions'])
  if 'inverse_ratio' in m:
    rho = 1 / rho
  steps = dict(x, q=q, target_q=target_q, v=value, target_v=target_value)
  outs = retrace(
    dict(steps, rho=rho), settings['discount'], settings['lambda'], m
  )
  adv, td = x['adv_average'], x['td_average']
  adv.update(outs['adv'])
  td.update(outs['q_td'])
  return dict(
    outs,
    value=value,
    target_value=target_value,
    target_q_value=target_q,
    rho=rho,
    normalized_adv=adv.normalize(outs['adv'], m),
    normalized_qv_adv=adv.normalize(outs['qv_adv'], m),
    normalized_q_td=td.normalize(outs['q_td'], m, 'mean_subtracted' in m),
  )
