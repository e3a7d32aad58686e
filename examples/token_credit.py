"""A transformer learns to reverse a sequence, with and without a rule's credit.

The reward is the share of correct tokens, given after the last token, so that a
sequence says nothing about which tokens earned it. Group-relative policy
gradients give all tokens of a sequence the same advantage: its reward, compared
with other sequences for the same prompt. Here that is compared with per-token
credit of a discovered rule (`disco_rl.inspection.credit`), which never saw
tokens, at the same number of sequences and updates:

  group        the group-relative advantage, no rule
  advantages   the rule's per-token advantages
  both         the group-relative advantage plus the rule's
  target       the rule's target for the policy, by cross entropy

  python -m examples.token_credit --rule catch_small --seeds 5
"""

import argparse
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from disco_rl.inspection import credit

METHODS = ('group', 'advantages', 'both', 'target')


class Sizes(NamedTuple):
  """The task, the transformer and the batch."""

  num_tokens: int = 6  # V
  length: int = 8  # L, of the prompt and of the answer.
  width: int = 32
  num_layers: int = 2
  num_prompts: int = 16
  group_size: int = 8  # Answers per prompt.
  entropy_cost: float = 0.01


def init(rng: jax.Array, sizes: Sizes) -> dict[str, Any]:
  """Makes the parameters of the transformer."""
  keys = iter(jax.random.split(rng, 100))
  d = sizes.width

  def matrix(*shape: int, scale: float = 1.0) -> jax.Array:
    w = jax.random.normal(next(keys), shape)
    return scale * w / shape[0] ** 0.5

  return dict(
    tokens=matrix(sizes.num_tokens + 1, d, scale=sizes.num_tokens**0.5),
    places=matrix(2 * sizes.length + 1, d, scale=sizes.length**0.5),
    layers=[
      dict(
        query=matrix(d, d),
        key=matrix(d, d),
        value=matrix(d, d),
        up=matrix(d, 4 * d),
        down=matrix(4 * d, d),
      )
      for _ in range(sizes.num_layers)
    ],
    head=matrix(d, sizes.num_tokens, scale=0.1),
  )


def apply(params: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Computes logits [B, N, V] and hidden states [B, N, D] of tokens [B, N]."""
  number = tokens.shape[1]
  x = params['tokens'][tokens] + params['places'][:number]
  mask = jnp.tril(jnp.ones((number, number), bool))
  normalize = lambda x: (
    (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)
  )
  for layer in params['layers']:
    y = normalize(x)
    scores = (y @ layer['query']) @ (y @ layer['key']).swapaxes(1, 2)
    scores = jnp.where(mask, scores / x.shape[-1] ** 0.5, -jnp.inf)
    x += jax.nn.softmax(scores) @ (y @ layer['value'])
    x += jax.nn.relu(normalize(x) @ layer['up']) @ layer['down']
  hidden = normalize(x)
  return hidden @ params['head'], hidden


def answer(
  params: Any, prompts: jax.Array, rng: jax.Array, sizes: Sizes
) -> jax.Array:
  """Samples answers [B, L] to prompts [B, L], token by token."""
  batch, length = prompts.shape
  start = jnp.full((batch, 1), sizes.num_tokens)
  padding = jnp.zeros((batch, length), prompts.dtype)
  tokens = jnp.concatenate([prompts, start, padding], axis=1)

  def step(tokens: jax.Array, t: Any) -> tuple[jax.Array, None]:
    logits, _ = apply(params, tokens)
    now = jax.lax.dynamic_index_in_dim(logits, length + t, 1, keepdims=False)
    chosen = jax.random.categorical(jax.random.fold_in(rng, t), now)
    return (
      jax.lax.dynamic_update_index_in_dim(
        tokens, chosen.astype(tokens.dtype), length + 1 + t, 1
      ),
      None,
    )

  tokens, _ = jax.lax.scan(step, tokens, jnp.arange(length))
  return tokens  # [B, 2L + 1]


def make_update(
  method: str, functions: credit.CreditFunctions | None, sizes: Sizes, lr: float
) -> Any:
  """Makes `(state, rng) -> (state, mean reward)` for one method."""
  optimizer = optax.adam(lr)
  length = sizes.length

  def loss_fn(
    params: Any, tokens: jax.Array, advantages: jax.Array, target: Any
  ) -> jax.Array:
    logits, _ = apply(params, tokens)
    log_p = jax.nn.log_softmax(logits[:, length:-1])  # [B, L, V]
    entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
    if target is not None:
      return -jnp.mean(jnp.sum(target * log_p, axis=-1))
    taken = jnp.take_along_axis(log_p, tokens[:, length + 1 :, None], axis=-1)
    gain = advantages * taken[..., 0] + sizes.entropy_cost * entropy
    return -jnp.mean(gain)

  def update(state: Any, rng: jax.Array) -> tuple[Any, jax.Array]:
    params, opt_state, adapter = state
    prompt_rng, answer_rng, credit_rng = jax.random.split(rng, 3)
    shape = (sizes.num_prompts, length)
    prompts = jax.random.randint(prompt_rng, shape, 0, sizes.num_tokens)
    prompts = jnp.repeat(prompts, sizes.group_size, axis=0)
    tokens = answer(params, prompts, answer_rng, sizes)
    is_right = tokens[:, length + 1 :] == prompts[:, ::-1]
    rewards = jnp.mean(is_right, axis=1)  # [B], after the last token.

    groups = rewards.reshape(sizes.num_prompts, sizes.group_size)
    relative = groups - groups.mean(axis=1, keepdims=True)
    relative /= groups.std(axis=1, keepdims=True) + 1e-3
    advantages = jnp.broadcast_to(
      relative.reshape(-1, 1), (len(rewards), length)
    )
    target = None
    if functions is not None:
      logits, hidden = apply(params, tokens)
      steps = lambda x: x[:, length:].swapaxes(0, 1)  # [L+1, B, ...]
      is_end = jnp.arange(length + 1)[:, None] == length
      trajectories = credit.Trajectories(
        features=steps(hidden),
        logits=steps(logits),
        # The token that is chosen at each step; none at the end.
        actions=jnp.concatenate(
          [tokens[:, length + 1 :], tokens[:, :1]], axis=1
        ).swapaxes(0, 1),
        rewards=is_end * rewards,
        is_last=jnp.broadcast_to(is_end, (length + 1, len(rewards))),
      )
      adapter, given = functions.update(
        functions.eta, adapter, trajectories, credit_rng
      )
      by_rule = given.normalized_advantages.swapaxes(0, 1)
      advantages = by_rule + (advantages if method == 'both' else 0.0)
      if method == 'target':
        target = jax.nn.softmax(given.policy_target).swapaxes(0, 1)
    grads = jax.grad(loss_fn)(params, tokens, advantages, target)
    updates, opt_state = optimizer.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
    return (params, opt_state, adapter), rewards.mean()

  def start(rng: jax.Array) -> Any:
    params_rng, adapter_rng = jax.random.split(rng)
    params = init(params_rng, sizes)
    adapter = None if functions is None else functions.init(adapter_rng)
    return params, optimizer.init(params), adapter

  return start, update


def train(
  method: str,
  rule: str,
  seed: int,
  num_updates: int,
  sizes: Sizes | None = None,
  lr: float = 1e-3,
  chunk: int = 20,
) -> np.ndarray:
  """Trains a transformer; returns the mean reward of every update."""
  sizes = sizes or Sizes()
  functions = None
  if method != 'group':
    functions = credit.make_credit(rule, sizes.num_tokens, sizes.width)
  start, run = _compiled(method, rule, sizes, lr, functions)
  state = start(jax.random.PRNGKey(seed))
  rewards = []
  for i in range(0, num_updates, chunk):
    keys = jax.random.split(
      jax.random.fold_in(jax.random.PRNGKey(seed), i), chunk
    )
    state, found = run(state, keys)
    rewards.append(np.asarray(found))
  return np.concatenate(rewards)[:num_updates]


_PROGRAMS: dict[Any, Any] = {}


def _compiled(
  method: str, rule: str, sizes: Sizes, lr: float, functions: Any
) -> Any:
  """Compiles once for all seeds."""
  name = (method, rule, sizes, lr)
  if name not in _PROGRAMS:
    start, update = make_update(method, functions, sizes, lr)
    scan = functools.partial(jax.lax.scan, update)
    _PROGRAMS[name] = jax.jit(start), jax.jit(scan, donate_argnums=0)
  return _PROGRAMS[name]


def main() -> None:
  """Trains with all methods and seeds, and prints a table."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--rule', default='catch_small')
  parser.add_argument('--methods', nargs='+', default=METHODS, choices=METHODS)
  parser.add_argument('--seeds', type=int, default=5)
  parser.add_argument('--updates', type=int, default=600)
  parser.add_argument('--learning-rate', type=float, default=1e-3)
  arguments = parser.parse_args()
  last = max(1, arguments.updates // 10)
  print(f'rule {arguments.rule}, mean reward of the last {last} updates')
  for method in arguments.methods:
    finals, whole = [], []
    for seed in range(arguments.seeds):
      rewards = train(
        method,
        arguments.rule,
        seed,
        arguments.updates,
        lr=arguments.learning_rate,
      )
      finals.append(rewards[-last:].mean())
      whole.append(rewards.mean())
    print(
      f'{method:12}',
      ', '.join(f'{x:.3f}' for x in finals),
      f'mean {np.mean(finals):.3f}, over all updates {np.mean(whole):.3f}',
      flush=True,
    )


if __name__ == '__main__':
  main()
