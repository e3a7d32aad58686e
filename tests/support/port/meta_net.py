"""The meta-network in NumPy: plain concatenations, one step at a time."""

import numpy as np

from tests.support.port import basics


def _sigmoid(x):
  return 1 / (1 + np.exp(-x))


def linear(eta, name, x):
  return x @ eta[f'{name}/w'] + eta[f'{name}/b']


def mlp(eta, name, x, num_layers):
  for i in range(num_layers):
    x = linear(eta, f'{name}/~/linear_{i}', x)
    if i + 1 < num_layers:
      x = np.maximum(x, 0)
  return x


def action_blocks(eta, name, x, num_blocks, m=()):
  for i in range(num_blocks):
    block = f'{name}/conv1_d' + (f'_{i}' if i else '')
    axis = 1 if 'mean_over_batch' in m else 2
    mean = np.zeros_like(x) + x.mean(axis=axis, keepdims=True)
    parts = [mean, x] if 'mean_first' in m else [x, mean]
    both = np.concatenate(parts, axis=-1)
    x = np.maximum(both @ eta[f'{block}/w'][0] + eta[f'{block}/b'], 0)
  return x


def lstm_step(w, b, x, hidden, cell, m=()):
  parts = np.split(np.concatenate([x, hidden], -1) @ w + b, 4, axis=-1)
  order = next((o for o in ('ifgo', 'ifog') if f'gates_{o}' in m), 'igfo')
  gates = dict(zip(order, parts, strict=True))
  more = 0 if 'without_forget_bias' in m else 1
  cell = _sigmoid(gates['f'] + more) * cell
  cell = cell + _sigmoid(gates['i']) * np.tanh(gates['g'])
  return _sigmoid(gates['o']) * np.tanh(cell), cell


def backward_lstm(w, b, x, reset, m=()):
  steps, batch, _ = x.shape
  size = len(b) // 4
  hidden, cell = np.zeros((batch, size)), np.zeros((batch, size))
  out = [None] * steps
  order = range(steps)
  for t in order if 'forward_in_time' in m else reversed(order):
    at = t + 1 if 'mask_one_early' in m else t
    keep = np.ones(batch) if at >= steps else 1.0 - reset[at]
    hidden, cell = hidden * keep[:, None], cell * keep[:, None]
    hidden, cell = lstm_step(w, b, x[t], hidden, cell, m)
    out[t] = hidden
  return np.array(out)


def _sign_log(x):
  return np.sign(x) * np.log1p(abs(x))


def _pair(x, m):
  parts = [x[1:], x[:-1]] if 'next_step_first' in m else [x[:-1], x[1:]]
  return np.concatenate(parts, axis=-1)


def embed(eta, prefix, x, m):
  """Embeds the inputs; returns base [T, B, D] and actions [T, B, A, C]."""
  actions, is_next = x['actions'][:-1], 'one_hot_of_next_action' in m
  softmax, stop = basics.softmax, m.constant
  pi = stop(softmax(x['agent_out']['logits']))
  mu = softmax(x['behaviour_logits'])
  target_pi = softmax(x['target_out']['logits'])
  net = lambda name, y: mlp(eta, f'{prefix}/{name}', softmax(y), 2)
  scalar = lambda y: y[..., None]
  z = {n: net('mlp_1', x[n]['z']) for n in ('agent_out', 'target_out')}

  base = [
    scalar(basics.taken(pi[:-1], actions)),
    scalar(basics.taken(mu[:-1], actions)),
    scalar(_sign_log(x['rewards'])),
    scalar(1.0 - x['is_terminal']),
    stop(_pair(scalar(_sign_log(x['v_scalar'])), m)),
    stop(scalar(_sign_log(x['adv']))),
    stop(scalar(x['normalized_adv'])),
    scalar(basics.taken(target_pi[:-1], actions)),
    _pair(net('mlp', x['agent_out']['y']), m),
    _pair(net('mlp', x['target_out']['y']), m),
  ]
  for name in ('agent_out', 'target_out'):
    base.append(basics.taken(z[name][:-1], actions))
    base.append(_pair((z[name] * pi[..., None]).sum(axis=2), m))
    base.append(_pair(z[name].max(axis=2), m))
  per_action = [
    scalar(pi[:-1]),
    scalar(mu[:-1]),
    scalar(target_pi[:-1]),
    z['agent_out'][:-1],
    z['target_out'][:-1],
    stop(scalar(_sign_log(x['q'][:-1]))),
    stop(scalar(_sign_log(x['qv_adv'][:-1]))),
    stop(scalar(x['normalized_qv_adv'][:-1])),
    scalar(np.eye(pi.shape[-1])[x['actions'][1:] if is_next else actions]),
  ]
  emb = action_blocks(
    eta, f'{prefix}/sequential', np.concatenate(per_action, -1), 2, m
  )
  base += [emb.mean(axis=2), basics.taken(emb, actions)]
  return np.concatenate(base, axis=-1), emb


def apply(eta, x, hidden, cell, m):
  """Computes targets, and the life-long LSTM's new hidden vector and cell."""
  base, emb = embed(eta, 'lstm', x, m)
  w, b = eta['lstm/lstm/linear/w'], eta['lstm/lstm/linear/b']
  out = backward_lstm(w, b, base, x['is_terminal'], m)
  if 'gate_after_update' in m:
    right = basics.Switches()
    _, gate_hidden, _ = apply(eta, x, hidden, cell, right)
  else:
    gate_hidden = hidden
  out = out * linear(eta, 'lstm/linear', gate_hidden)
  targets = dict(
    meta_input_emb=linear(eta, 'lstm/linear_1', out),
    y=linear(eta, 'lstm/linear_2', out),
    z=linear(eta, 'lstm/linear_3', out),
  )
  tiled = np.repeat(out[:, :, None], emb.shape[2], axis=2)
  mixed = action_blocks(
    eta, 'lstm/sequential_1', np.concatenate([tiled, emb], -1), 1, m
  )
  targets['pi'] = linear(eta, 'lstm/linear_4', mixed)[..., 0]

  own = 'lstm/~/meta_lstm/~unroll'
  base, _ = embed(eta, own, x, m)
  y_emb = mlp(eta, f'{own}/mlp', basics.softmax(targets['y']), 2)
  whole = np.concatenate([base, targets['meta_input_emb'], y_emb], axis=-1)
  mean = mlp(eta, f'{own}/mlp_2', whole, 1).mean(axis=(0, 1))
  w, b = eta[f'{own}/lstm/linear/w'], eta[f'{own}/lstm/linear/b']
  hidden, cell = lstm_step(w, b, mean, hidden, cell, m)
  return targets, hidden, cell
