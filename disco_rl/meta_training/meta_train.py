"""Meta-training as a loop: one meta-update after the other, and a table.

In one call:

  result = training.meta_train(['catch', 'gymnax:CartPole-v1'], num_updates=800)

or step by step, with the same rows for the same seed:

  init_rng, eta_rng, step_rng = training.keys(seed=0)
  state = trainer.init(init_rng, trainer.init_params(eta_rng))
  for state, row in training.train(trainer, state, step_rng, num_updates=800):
    print(row['iteration'], row['meta_loss'], row['return/catch'])
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import Any, NamedTuple

import chex
import jax
from ml_collections import config_dict
import optax

from disco_rl.runs import metrics as metrics_table
from disco_rl.config import networks as network_settings
from disco_rl.config import plain as plain_settings
from disco_rl.runs import progress
from disco_rl.rule_zoo import rule as rule_choice
from disco_rl.config import agents as agent_settings_lib
from disco_rl import types
from disco_rl.environments import registry
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import meta_loss
from disco_rl.config import meta_training as settings_lib
from disco_rl.meta_training import trainer as trainer_lib

RANDOM = 'random'
DEFAULT_UPDATES = 800
DEFAULT_AGENTS = 2


class MetaTrained(NamedTuple):
  """The result of meta-training.

  Attributes:
    eta: the rule's parameters η.
    initial_eta: where they began.
    agent_settings: of the agents that the rule was trained with.
    rows: one per meta-update, see `train`.
  """

  eta: types.MetaParams
  initial_eta: types.MetaParams
  agent_settings: config_dict.ConfigDict
  rows: list[metrics_table.Row]

  @property
  def rule(self) -> rule_choice.Rule:
    """The trained rule with its settings, for `disco_rl.evaluate`."""
    return rule_choice.Rule(
      'meta-trained',
      self.agent_settings.update_rule_name,
      self.eta,
      {
        name: plain_settings.to_plain(self.agent_settings[name])
        for name in agent_settings_lib.RULE_GROUPS
      },
      provenance=f'{len(self.rows)} meta-updates',
    )


def keys(seed: int) -> tuple[chex.PRNGKey, chex.PRNGKey, chex.PRNGKey]:
  """Splits the seed of a run; the same in the command and in the library.

  Args:
    seed: any whole number.

  Returns:
    The keys for `Trainer.init`, for `Trainer.init_params`, and for `train`.
  """
  init_rng, eta_rng, step_rng = jax.random.split(jax.random.PRNGKey(seed), 3)
  return init_rng, eta_rng, step_rng


def train(
  trainer: trainer_lib.Trainer,
  state: trainer_lib.TrainState,
  rng: chex.PRNGKey,
  num_updates: int,
) -> Iterator[tuple[trainer_lib.TrainState, metrics_table.Row]]:
  """Improves η until `num_updates` are done.

  Args:
    trainer: the agents, and how η is trained with them.
    state: from `trainer.init`, or from an earlier training; used up.
    rng: with the number of a meta-update folded in, its key. The same key
      makes a training in parts the same as in one go.
    num_updates: the total, those already done included.

  Yields:
    The state, good until the next one is asked for, and what was measured:
    `iteration` (from 1), averages over agents, the norms of the meta-gradient
    and of the update of η, and by name of the group, the number of episodes
    that ended (`episodes/NAME`) and their average return (`return/NAME`).
  """
  if num_updates < 1:
    raise ValueError(f'num_updates must be at least 1, got {num_updates}')
  for done in range(int(state.step), num_updates):
    state, log = trainer.update(state, jax.random.fold_in(rng, done))
    yield state, dict(iteration=done + 1, **log.averages)


def show_row(bar: progress.Progress, row: metrics_table.Row) -> None:
  """Moves a progress bar to a meta-update.

  Args:
    bar: of meta-updates.
    row: of `train`.
  """
  returns = {k: x for k, x in row.items() if k.startswith('return/')}
  values = {'meta_loss': row['meta_loss'], **returns}
  bar.update(int(row['iteration']), note='', **values)


def meta_train(
  envs: str | registry.EnvironmentFn | Sequence[str | registry.EnvironmentFn],
  *,
  init: str | rule_choice.Rule | types.MetaParams = RANDOM,
  num_updates: int = DEFAULT_UPDATES,
  num_agents: int = DEFAULT_AGENTS,
  config: config_lib.Config | None = None,
  seed: int = 0,
  env_settings: Mapping[str, Mapping[str, Any]] | None = None,
  agent_settings: config_dict.ConfigDict | None = None,
  critic: types.ValueFnConfig | None = None,
  regularizer: meta_loss.Regularizer | None = None,
  agent_optimizer: optax.GradientTransformation | None = None,
  meta_optimizer: optax.GradientTransformation | None = None,
  devices: Sequence[jax.Device] | None = None,
  show_progress: bool = False,
) -> MetaTrained:
  """Discovers a rule, or improves one, by training agents with it.

  Args:
    envs: environments in JAX, one group of agents in each: names (see
      `environments.registry`) or functions that make one from a batch size and
      a seed.
    init: where η begins: `'random'`, the name, file or run folder of a rule, a
      loaded rule, or η itself.
    num_updates: meta-updates.
    num_agents: agents in each environment.
    config: sizes and weights. By default those of the small reference setting;
      if `init` is a trained rule, with the learning rate
      `config.FINE_TUNING_LEARNING_RATE`.
    seed: of all that is random, see `keys`.
    env_settings: by name of an environment, what to change of its settings.
    agent_settings: of all agents, e.g. with a rule of your own; None for the
      discovered rule, with what the initial rule was trained with and, for
      each environment, the network that suits it.
    critic: settings of the agents' critics.
    regularizer: one more term of the meta-loss, see `trainer.Trainer`.
    agent_optimizer: of the agents' parameters, see `Agent`.
    meta_optimizer: of η, see `trainer.Trainer`.
    devices: over which every agent's environments are spread; the first of
      this process by default.
    show_progress: whether to show a progress bar.

  Returns:
    The trained η, the settings of its agents, and the table of metrics.
  """
  if isinstance(init, str) and init != RANDOM:
    init = rule_choice.load_rule(init)
  if isinstance(init, rule_choice.Rule):
    if init.eta is None:
      raise ValueError(f'{init.name} has no parameters to train')
    first_eta, trained_with = init.eta, init.settings
  else:
    first_eta, trained_with = init, {}
  is_random = isinstance(init, str)
  if config is None:
    config = config_lib.Config()
    if not is_random and meta_optimizer is None:
      rate = config_lib.FINE_TUNING_LEARNING_RATE
      config = dataclasses.replace(config, learning_rate=rate)
  base_settings = agent_settings
  if base_settings is None:
    base_settings = settings_lib.get_agent_settings()
    agent_settings_lib.update_from_plain(base_settings, trained_with)
  changes = dict(env_settings or {})
  groups = []
  all_envs: list[Any] = (
    [envs]
    if isinstance(envs, str) or not isinstance(envs, Sequence)
    else list(envs)
  )
  for i, env in enumerate(all_envs):
    name, env_fn = _environment(env, i, changes)
    own_settings = base_settings
    if agent_settings is None and isinstance(env, str):
      own_settings = base_settings.copy_and_resolve_references()
      network_settings.choose(own_settings, registry.suggested_network(env))
    groups.append(
      trainer_lib.Group(
        env_fn,
        own_settings,
        num_agents,
        critic or config_lib.default_critic(),
        optimizer=agent_optimizer,
        name=name,
      )
    )
  if changes:
    raise ValueError(f'env_settings of {sorted(changes)}, not among {envs}')
  trainer = trainer_lib.Trainer(
    groups,
    config,
    devices=devices,
    regularizer=regularizer,
    meta_optimizer=meta_optimizer,
  )
  init_rng, eta_rng, step_rng = keys(seed)
  if is_random:
    first_eta = trainer.init_params(eta_rng)
  state = trainer.init(init_rng, first_eta)
  rows = []
  bar = progress.Progress(num_updates, enabled=show_progress)
  for last_state, row in train(trainer, state, step_rng, num_updates):
    state = last_state
    rows.append(row)
    show_row(bar, row)
  bar.close()
  return MetaTrained(state.eta, first_eta, base_settings, rows)


def _environment(
  env: str | registry.EnvironmentFn, index: int, changes: dict[str, Any]
) -> tuple[str, registry.EnvironmentFn]:
  """The name and the function of an environment; its changes are taken out."""
  if not isinstance(env, str):
    name = getattr(env, '__name__', f'group_{index}')
    return name, registry.as_environment_fn(env)
  settings = settings_lib.get_env_settings(env)
  settings.update(changes.pop(env, {}))
  return env, registry.environment_fn(env, **settings)
