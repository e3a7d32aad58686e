"""Meta-training in one call: discovers a rule, or improves one.

```python
rule = disco_rl.meta_train(['catch', 'gymnax:CartPole-v1'], num_updates=800)
disco_rl.evaluate('catch', rule)
disco_rl.save_rule('mine.npz', rule)
```

The same seed gives the same rows here, in `disco-rl meta-train` and in a loop
over `Trainer.update` with the keys of `training.keys`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
import re
from typing import Any

import jax
from ml_collections import config_dict
import optax

from disco_rl import device_choice
from disco_rl import fields
from disco_rl import schema
from disco_rl import types
from disco_rl.config import arguments
from disco_rl.config import experiments
from disco_rl.config import meta_training as config_lib
from disco_rl.config import populations
from disco_rl.config import requests
from disco_rl.config import resolve
from disco_rl.environments import registry
from disco_rl.meta_training import meta_loss
from disco_rl.meta_training import objects as objects_lib
from disco_rl.meta_training import pictures
from disco_rl.meta_training import plan as plan_lib
from disco_rl.meta_training import training
from disco_rl.rule_zoo import rule as rule_lib
from disco_rl.runs import metrics
from disco_rl.runs import trackers


@dataclasses.dataclass(frozen=True)
class MetaTrained(rule_lib.Rule):
  """A meta-trained rule, with the metrics of its training.

  Attributes:
    initial_eta: η before the first meta-update.
    agent_settings: settings of the agents that the rule was trained with.
    rows: rows of metrics, one per meta-update, see `training.Training`.
  """

  initial_eta: types.MetaParams = None
  agent_settings: config_dict.ConfigDict | None = None
  rows: list[metrics.Row] = dataclasses.field(default_factory=list)

  @property
  def initial_rule(self) -> rule_lib.Rule:
    """The rule before the first meta-update."""
    return rule_lib.Rule('initial', self.kind, self.initial_eta, self.settings)

  def plot(self, name: str = pictures.RETURNS) -> Any:
    """Draws the metrics of meta-training.

    Args:
      name: one of `pictures.PICTURES`; by default the average returns of the
        agents' episodes, by environment.

    Returns:
      A matplotlib figure.
    """
    return pictures.draw(name, self.rows)


def meta_train(
  envs: str
  | registry.EnvironmentFn
  | Sequence[str | registry.EnvironmentFn]
  | None = None,
  *,
  init: str
  | os.PathLike[str]
  | rule_lib.Rule
  | types.MetaParams = resolve.RANDOM,
  num_updates: int = arguments.Default(resolve.META_TRAINING['steps']),
  num_env_steps: int | None = None,
  num_agents: int = arguments.Default(populations.NUM_AGENTS),
  config: config_lib.Config | None = None,
  seed: int = arguments.Default(0),
  env_settings: Mapping[str, Mapping[str, Any]] | None = None,
  settings: Mapping[str, Any] | None = None,
  net: str | None = None,
  core: str | None = None,
  preset: str | None = None,
  scale: str | float | None = None,
  eval_every: int = arguments.Default(0),
  eval_envs: Sequence[str] = (),
  agent_settings: config_dict.ConfigDict | None = None,
  critic: types.ValueFnConfig | None = None,
  regularizer: meta_loss.Regularizer | None = None,
  agent_optimizer: optax.GradientTransformation | None = None,
  meta_optimizer: optax.GradientTransformation | None = None,
  devices: Sequence[jax.Device] | None = None,
  out: str | os.PathLike[str] | None = None,
  resume: bool = False,
  track: Sequence[str | trackers.Make] = (),
  show_progress: bool = False,
) -> MetaTrained:
  """Discovers a rule, or improves one, by training agents with it.

  Args:
    envs: environments in JAX or on the host, each with a group of agents: names
      (see `environments.registry`) or functions that make an environment from a
      batch size and a seed. None for those of the preset.
    init: the initial η: `'random'`, the name, file or run folder of a rule, a
      loaded rule, or η itself.
    num_updates: number of meta-updates, 800 by default.
    num_env_steps: the same budget in environment steps of one agent, rounded up
      to whole meta-updates. Not together with `num_updates`.
    num_agents: number of agents in each environment; by default as many as the
      preset has, or else 2.
    config: sizes and weights. By default those of the small reference setting;
      if `init` is a trained rule, with the learning rate
      `config.meta_training.FINE_TUNING_LEARNING_RATE`.
    seed: seed of all random numbers, 0 by default, see `training.keys`.
    env_settings: name of an environment to changes of its default settings.
    settings: changes to other settings, by their path as in `disco-rl
      meta-train --dry-run`, e.g. `{'meta.num_inner_updates': 4}`. A setting
      that another argument gives, too, is an error.
    net: name of all agents' network, see `config.networks.choose`; None for the
      one that suits each environment. Not together with `agent_settings`.
    core: name of the networks' memory, e.g. `'lstm'`; None for none.
    preset: name of a published experiment, see `config.experiments`, whose
      settings and environments other arguments override.
    scale: makes the preset smaller, e.g. `'1/64'`, see `config.scaling`.
    eval_every: number of meta-updates between evaluations with fresh agents,
      which are written to `out`; 0, the default, for none.
    eval_envs: names of environments for the evaluations; by default `envs`.
    agent_settings: settings of all agents, e.g. with a rule of your own; None
      for those that the initial rule was trained with (for random η, those of
      `disco`) and, for each environment, the network suggested for it.
    critic: settings of the agents' critics; None for the default.
    regularizer: a further term of the meta-loss, see `trainer.Trainer`.
    agent_optimizer: optimiser of the agents' parameters, see `Agent`.
    meta_optimizer: optimiser of η, see `trainer.Trainer`.
    devices: devices over which agents, or else their batches, are sharded; by
      default the first one of this process, or all devices of all processes
      after `jax.distributed.initialize`, which then make the run together.
    out: folder for config, metrics, checkpoints, rule and pictures, as in
      `disco-rl meta-train`; None to write nothing.
    resume: whether to resume the run in `out` from its last checkpoint; the
      other arguments must be those of the first call.
    track: trackers of the rows, which need `out`: names such as
      `'tensorboard'`, or functions that make them, see `runs.trackers`.
    show_progress: whether to show a progress bar.

  Returns:
    The trained rule, with the settings of its agents and the table of metrics.
  """
  arguments.check_agent_settings(agent_settings)
  arguments.check_kind(
    'config', config, config_lib.Config, 'a config.meta_training.Config'
  )
  arguments.check_critic(critic)
  arguments.check_flag('resume', resume)
  arguments.check_flag('show_progress', show_progress)
  arguments.check_function('regularizer', regularizer)
  arguments.check_optimizer('agent_optimizer', agent_optimizer)
  arguments.check_optimizer('meta_optimizer', meta_optimizer)
  device_choice.check_devices_of_run(devices)
  if out is not None:
    fields.check_path('out', out)
  chosen = trackers.find(track, has_folder=out is not None)
  fields.check(fields.Field(str, optional=True), 'preset', preset)
  schema.check_as('num_updates', 'steps', num_updates)
  if num_env_steps is not None:
    schema.check_as('num_env_steps', 'env_steps', num_env_steps)
  schema.check_as('eval_every', 'eval.every', eval_every)
  for name, group in dict(env_settings=env_settings, settings=settings).items():
    schema.check_mapping(name, group)
  optimizers = dict(
    agent_optimizer=agent_optimizer, meta_optimizer=meta_optimizer
  )
  for name, optimizer in optimizers.items():
    replaced = {
      path: value
      for path, value in (settings or {}).items()
      if re.fullmatch(_REPLACED[name], str(path))
    }
    arguments.check_replaced(name, optimizer, replaced)
  rule = _initial_rule(init, agent_settings)
  env_fns: dict[str, registry.EnvironmentFn] = {}
  if envs is not None:
    names, env_fns = _name_environments(envs)
  elif preset is not None:
    names = list(experiments.get(preset).envs)
  else:
    raise ValueError('envs must be one or more environments without a preset')
  changes: dict[str, Any] = {}
  unknown = sorted(set(env_settings or {}) - set(names))
  if unknown:
    raise ValueError(f'env_settings of {unknown}, not among {names}')
  for env, own in (env_settings or {}).items():
    schema.check_mapping(f'env_settings of {env}', own)
    changes |= {f'env.{env}.{name}': value for name, value in own.items()}
  given: dict[str, Any] = dict(  # Arguments to the settings that they give.
    env_settings=list(changes), settings=settings or {}
  )
  if rule is not None and meta_optimizer is not None:
    # The learning rate for fine-tuning is one of Adam, which is replaced.
    changes['meta.learning_rate'] = config_lib.Config.learning_rate
  weights = None
  if config is not None:
    own, weights = _settings_of(config)
    given['config'] = list(own)
    changes |= own
  changes |= settings or {}
  request = dict(
    init=rule.name if rule else resolve.RANDOM,
    env=names,
    net=net,
    core=core,
    eval_every=eval_every,
    eval_env=[eval_envs] if isinstance(eval_envs, str) else eval_envs,
    steps=num_updates,
    env_steps=num_env_steps,
    num_agents=num_agents if arguments.is_given(num_agents) else None,
    seed=seed,
    preset=preset,
    scale=scale,
    devices=device_choice.default_number(resolve.META_TRAINING['devices'])
    if devices is None
    else len(devices),
    settings=changes,
  )
  requests.check_arguments(
    dict(
      steps=num_updates,
      env_steps=num_env_steps,
      num_agents=num_agents,
      seed=seed,
      eval_every=eval_every,
      devices=devices,
      net=net,
      core=core,
    ),
    given,
    steps='num_updates',
    env_steps='num_env_steps',
  )
  objects = objects_lib.Objects(
    env_fns=env_fns,
    agent_settings=agent_settings,
    critic=critic,
    weights=weights,
    regularizer=regularizer,
    agent_optimizer=agent_optimizer,
    meta_optimizer=meta_optimizer,
    devices=devices,
  )
  plan = plan_lib.Plan(request, rule, objects)
  if out is None and plan.settings.eval.every:
    raise ValueError(
      'evaluations during meta-training (eval.every) are written to a folder: '
      'pass one as out=...'
    )
  with plan.open(out, resume=resume, show_progress=show_progress) as run:
    assert isinstance(run.trainable, training.Training)
    run.trackers = chosen
    first_eta = jax.device_get(run.trainable.initial_eta())
    outcome = run.execute()
    if outcome.error is not None:
      raise outcome.error
  trained_with = plan.agent_settings
  return MetaTrained(
    name='meta-trained',
    kind=trained_with.update_rule_name,
    eta=jax.device_get(outcome.state.eta),
    settings=rule_lib.rule_settings(trained_with),
    path=run.folder.rule_path if run.folder else None,
    provenance=f'{outcome.done} meta-updates',
    initial_eta=first_eta,
    agent_settings=trained_with,
    rows=run.rows,
  )


def _settings_of(
  config: config_lib.Config,
) -> tuple[dict[str, Any], Mapping[str, float] | None]:
  """Converts a config to settings.

  Args:
    config: sizes and weights.

  Returns:
    Path of a setting to its value; and the weights of the meta-loss if they are
    a mapping, which is not a setting, or else None.
  """
  values = dataclasses.asdict(config)
  weights = values.pop('weights')
  batching = values.pop('batching')
  own = {f'meta.{name}': value for name, value in values.items()}
  own |= {f'batching.{name}': value for name, value in batching.items()}
  if not isinstance(config.weights, config_lib.MetaLossWeights):
    return own, weights
  own |= {f'meta.weights.{name}': value for name, value in weights.items()}
  return own, None


# Argument to a pattern of the settings that it replaces.
_REPLACED = dict(
  agent_optimizer=r'agent\.(learning_rate|max_abs_update|optimizer\..+)',
  meta_optimizer=r'meta\.(learning_rate|max_grad_norm|max_abs_update)',
)


def _initial_rule(
  init: str | os.PathLike[str] | rule_lib.Rule | types.MetaParams,
  agent_settings: config_dict.ConfigDict | None,
) -> rule_lib.Rule | None:
  """Returns the initial rule; None for random η."""
  if isinstance(init, rule_lib.Rule):
    return init
  if not isinstance(init, Mapping | list | tuple):
    is_random = isinstance(init, str) and init == resolve.RANDOM
    return None if is_random else rule_lib.load_rule(init)
  kind = agent_settings.update_rule_name if agent_settings else 'disco'
  return rule_lib.Rule('given', kind, init)


def _name_environments(
  envs: str | registry.EnvironmentFn | Sequence[str | registry.EnvironmentFn],
) -> tuple[list[str], dict[str, registry.EnvironmentFn]]:
  """Returns the names of all environments, and those that are functions."""
  if isinstance(envs, str) or not isinstance(envs, Sequence):
    envs = [envs]
  names, env_fns = [], {}
  for i, env in enumerate(envs):
    name = env if isinstance(env, str) else getattr(env, '__name__', '')
    if not isinstance(env, str):
      is_name = name.isidentifier() and name not in names
      name = name if is_name else f'group_{i}'
      env_fns[name] = registry.as_environment_fn(env)
    names.append(name)
  return names, env_fns
