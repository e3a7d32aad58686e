"""What `disco-rl meta-train` was asked for, and what follows from it."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import checks
from disco_rl import evaluation
from disco_rl import experiment
from disco_rl import network_settings
from disco_rl import optimizers
from disco_rl import settings as agent_settings_lib
from disco_rl import types
from disco_rl.cli import overrides
from disco_rl.cli import run_config
from disco_rl.environments import registry
from disco_rl.meta_training import config as config_lib
from disco_rl.meta_training import settings as settings_lib
from disco_rl.meta_training import trainer as trainer_lib
from disco_rl.meta_training import training

# What can be said on the command line, and is then fixed for a run.
DEFAULTS: dict[str, Any] = dict(
  rule='disco',
  init=training.RANDOM,
  env=['catch'],
  steps=training.DEFAULT_UPDATES,
  num_agents=training.DEFAULT_AGENTS,
  eval_every=0,
  eval_env=[],
  seed=0,
  devices=1,
  net=None,
  core=None,
  use=[],
  set=[],
)

# Families of environments that all run on the host; see `registry.FAMILIES`.
_HOST_FAMILIES = ('gym', 'atari', 'dm')


def check_environments(names: list[str]) -> None:
  """Refuses environments on the host, before anything is built or fetched.

  Args:
    names: those of `--env`.
  """
  for name in names:
    if name.partition(':')[0] in _HOST_FAMILIES:
      raise ValueError(trainer_lib.host_environment_message(name))


def resolve(
  asked: dict[str, Any], rule_settings: Mapping[str, Any] | None = None
) -> config_dict.ConfigDict:
  """All settings of a run.

  Args:
    asked: as `DEFAULTS`.
    rule_settings: what the rule to begin with was trained with, of an agent's
      settings; None for random η.

  Returns:
    Groups of settings (`meta`, `agent`, `critic`, `env` and `net` by name of
    the environment, `eval`), and single ones.
  """
  check_environments(asked['env'])
  envs = _environments(asked['env'], '--env')
  eval_envs = _environments(asked['eval_env'], '--eval-env')
  if eval_envs and not asked['eval_every']:
    raise ValueError('--eval-env says where; say when, too, by --eval-every')
  rule_settings = rule_settings or {}
  kind = rule_settings.get('update_rule_name', asked['rule'])
  if asked['rule'] not in (kind, DEFAULTS['rule']):
    raise ValueError(
      f'--init {asked["init"]} is of the kind {kind}, not {asked["rule"]}: '
      'leave out --rule'
    )
  agent = settings_lib.get_agent_settings(kind)
  agent_settings_lib.update_from_plain(agent, rule_settings)
  with agent.unlocked():
    agent.optimizer = optimizers.get_settings()
  networks = _by_name(
    {name: _network(agent, name, asked) for name in envs | eval_envs}
  )
  with agent.unlocked():
    del agent.net_settings
  config = config_dict.ConfigDict(
    dict(
      steps=asked['steps'],
      seed=asked['seed'],
      num_agents=asked['num_agents'],  # In each environment.
      devices=asked['devices'],
      agent_shards=1,  # Rows of devices over which agents are spread.
      checkpoint_every=25,  # Meta-updates.
      max_bad_in_a_row=10,
      env=_by_name(envs),
      net=networks,
      meta=dataclasses.asdict(config_lib.Config()),
      agent=agent,
      critic=dict(config_lib.default_critic()),
      # Of the fresh agents that a rule is evaluated with.
      eval=dict(
        every=asked['eval_every'],
        baseline='actor_critic',  # A hand-designed rule, or None.
        steps=300,
        num_seeds=2,
        learning_rate=1e-2,
        # None for those it is trained in.
        env=_by_name(eval_envs) if eval_envs else None,
        experiment=dataclasses.asdict(experiment.Config()),
      ),
    )
  )
  if asked['init'] != training.RANDOM:
    config.meta.learning_rate = config_lib.FINE_TUNING_LEARNING_RATE
  may_be_none = {
    'eval.baseline',
    *overrides.may_be_none(config_lib.Config, 'meta'),
    *overrides.may_be_none(experiment.Config, 'eval.experiment'),
  }
  overrides.apply(config, asked['set'], may_be_none)
  checks.check_at_least(
    config,
    steps=1,
    num_agents=1,
    devices=1,
    agent_shards=1,
    checkpoint_every=1,
    max_bad_in_a_row=1,
  )
  checks.check_at_least(config.eval, every=0, steps=1, num_seeds=1)
  if config.eval.every:
    evaluation.check_num_iterations(
      config.eval.steps,
      experiment.Config(**config.eval.experiment),
      'eval.steps',
    )
  return config


def evaluation_environments(settings: config_dict.ConfigDict) -> dict[str, Any]:
  """The environments of evaluations on the way, by name, with settings."""
  return dict(settings.eval.env or settings.env)


def agent_settings(
  settings: config_dict.ConfigDict, env: str
) -> config_dict.ConfigDict:
  """The settings of the agents in one environment.

  Args:
    settings: of the run.
    env: the environment's name.

  Returns:
    A copy, with the network of that environment.
  """
  agent = settings.agent.copy_and_resolve_references()
  with agent.unlocked():
    agent.net_settings = settings.net[env]
  return agent


def make_trainer(settings: config_dict.ConfigDict) -> trainer_lib.Trainer:
  """The trainer that the settings describe."""
  meta = settings.meta.to_dict()
  meta['weights'] = config_lib.MetaLossWeights(**meta['weights'])
  meta['lifetimes'] = tuple(meta['lifetimes'])
  groups = [
    trainer_lib.Group(
      registry.environment_fn(name, **env_settings),
      agent_settings(settings, name),
      settings.num_agents,
      types.ValueFnConfig(**settings.critic.to_dict()),
      name=name,
    )
    for name, env_settings in settings.env.items()
  ]
  return trainer_lib.Trainer(
    groups,
    config_lib.Config(**meta),
    devices=run_config.choose_devices(settings.devices),
    num_agent_shards=settings.agent_shards,
  )


def _network(
  agent: config_dict.ConfigDict, env: str, asked: dict[str, Any]
) -> config_dict.ConfigDict:
  """The network of the agents in one environment."""
  agent = agent.copy_and_resolve_references()
  network = asked['net'] or registry.suggested_network(env)
  network_settings.choose(agent, network, asked['core'])
  return agent.net_settings


def _environments(names: list[str], option: str) -> dict[str, Any]:
  """Environments by name, with their settings."""
  envs: dict[str, Any] = {}
  for name in names:
    if name in envs:
      raise ValueError(f'{option} {name} is given twice')
    envs[name] = settings_lib.get_env_settings(name)
  return envs


def _by_name(groups: dict[str, Any]) -> config_dict.ConfigDict:
  """Groups of settings; the names of some environments have dots in them."""
  return config_dict.ConfigDict(groups, allow_dotted_keys=True)
