"""Resolves all settings of a run from a request.

A request consists of names (rule, environment, network, preset), a few numbers,
and single settings. Names decide which settings exist; their values come in
layers, each of which overrides those before it: defaults, settings of the rule,
settings for the environment, preset, settings of the user.

`Layers.origins` records which layer a value came from.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from ml_collections import config_dict

from disco_rl import fields
from disco_rl import optimizers
from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import batching as batching_lib
from disco_rl.config import budgets
from disco_rl.config import checks
from disco_rl.config import experiments
from disco_rl.config import layers as layers_lib
from disco_rl.config import meta_training as meta_lib
from disco_rl.config import networks
from disco_rl.config import populations
from disco_rl.config import presets
from disco_rl.config import requests
from disco_rl.config import rule_settings
from disco_rl.environments import registry
from disco_rl.rule_zoo import rule as rule_lib

RANDOM = 'random'  # The initial rule of meta-training with random η.

# The entries of a request, with their defaults.
EVALUATION: Mapping[str, Any] = dict(
  rule=rule_lib.DEFAULT,
  env=None,  # None for that of the preset, or else Catch.
  steps=None,  # None for those of the preset, or else 1000.
  env_steps=None,  # Of one agent, instead of `steps`.
  seed=0,
  num_seeds=1,
  devices=0,  # 0: as many as the environments can be sharded over.
  checkpoint_replay='always',
  net=None,
  core=None,
  preset=None,
  use=[],
  set=[],  # Texts `path=value`, of the command line.
  settings={},  # Path to value, from Python.
)
META_TRAINING: Mapping[str, Any] = dict(
  rule='disco',
  init=RANDOM,
  env=None,  # A list; None for those of the preset, or else Catch.
  steps=800,
  env_steps=None,  # Of one agent, instead of `steps`.
  num_agents=None,  # None for those of the preset, or else two.
  eval_every=0,
  eval_env=[],
  seed=0,
  devices=1,
  checkpoint_replay='always',
  net=None,
  core=None,
  preset=None,
  scale=None,
  use=[],
  set=[],  # Texts `path=value`, of the command line.
  settings={},  # Path to value, from Python.
)

# Learning rates tuned on Catch, for evaluations.
_LEARNING_RATES = {
  'disco': 1e-2,
  'actor_critic': 1e-2,
  'policy_gradient': 1e-3,
}


def agent_settings(
  rule: rule_lib.Rule, env: str | None = None
) -> config_dict.ConfigDict:
  """Makes the settings of an agent that is evaluated with a rule.

  Args:
    rule: from `disco_rl.load_rule`; the settings it was trained with are kept.
    env: name of the environment, for the network that suits it; None for an
      MLP.

  Returns:
    The settings, with a learning rate that was tuned on Catch.
  """
  config = agents.for_rule(rule)
  config.learning_rate = _LEARNING_RATES.get(rule.kind, config.learning_rate)
  if env is not None:
    networks.choose(config, registry.suggested_network(env))
  return config


def evaluation(
  request: Mapping[str, Any],
  rule: rule_lib.Rule,
  *,
  agent: config_dict.ConfigDict | None = None,
  has_env_name: bool = True,
) -> layers_lib.Layers:
  """Resolves the settings of an evaluation.

  Args:
    request: see `EVALUATION`.
    rule: the rule that is evaluated.
    agent: settings of the agents; None for those of the rule and the
      environment.
    has_env_name: whether `request['env']` is a name of the registry; otherwise
      the environment has no settings.

  Returns:
    The settings: groups (`agent`, `batching`, `env`), and single ones.
  """
  request = presets.complete(request)
  env = request['env'] if has_env_name else None
  env_settings = registry.default_settings(env) if env else {}
  preset = request['preset']
  by_rule = {} if agent is not None else rule.settings
  network = None
  if agent is None:
    agent = agent_settings(rule)
    with agent.unlocked():
      agent.optimizer = optimizers.get_settings()
    network = (
      request['net']
      or presets.network(preset)
      or (env and registry.suggested_network(env))
    )
    networks.choose(agent, network, request['core'])
  else:
    if request['net'] or request['core']:
      raise ValueError('agent settings have a network: leave out net and core')
    agent = agent.copy_and_resolve_references()
  layers = layers_lib.Layers(
    dict(
      steps=request['steps'],
      seeds=requests.seeds(request),
      devices=request['devices'],
      lanes_at_once=None,
      overlap_acting=False,
      chunk_size=20,  # Iterations per compiled program.
      checkpoint_every=100,  # Iterations.
      checkpoint_replay=request['checkpoint_replay'],
      env=env_settings,
      batching=dataclasses.asdict(batching_lib.Batching()),
      agent=agent,
    ),
    declared=checks.declared_fields('env', env) if env else {},
    custom=networks.custom_groups(agent),
  )
  layers.mark(f'rule {rule.name}', by_rule, 'agent')
  if network is not None:
    origin = '--net' if request['net'] else f'preset {preset}'
    if not request['net'] and not presets.network(preset):
      origin = f'environment {env}'
    layers.origins['agent.net_settings.name'] = origin
  if request['core'] is not None:
    layers.origins['agent.net_settings.net_args.core'] = '--core'
  if preset is not None:
    own = presets.values(preset, layers, rule.kind)
    layers.apply(f'preset {preset}', own)
  _apply_user(layers, request)
  if preset is not None:
    layers.apply(f'preset {preset}', presets.derived_values(preset, layers))
  layers.check()
  checks.check_seeds(layers.settings.seeds)
  checks.check_env_seeds('env', layers.settings.env, layers.settings.seeds)
  checks.check_rule_name(layers.settings.agent, rule.kind)
  networks.check_arguments(layers.settings.agent.net_settings, 'agent')
  sizes = batching_lib.from_settings(layers.settings.batching, 'batching')
  budgets.apply(layers, request, sizes.env_steps)
  batching_lib.check_steps(layers.settings.steps, sizes, 'steps')
  if env:
    num_seeds = len(layers.settings.seeds)
    checks.check_streams('env', env, layers.settings.env, sizes, num_seeds)
  budgets.end_schedule(layers, sizes)
  return layers


def meta_training(
  request: Mapping[str, Any],
  rule: rule_lib.Rule | None,
  *,
  agent: config_dict.ConfigDict | None = None,
  critic: types.ValueFnConfig | None = None,
  env_objects: Mapping[str, Any] | None = None,
) -> layers_lib.Layers:
  """Resolves the settings of meta-training.

  Args:
    request: see `META_TRAINING`.
    rule: the initial rule; None for random η.
    agent: settings of all agents, with their network; None for those of the
      rule and the environments.
    critic: settings of the agents' critics; None for the default.
    env_objects: the environments in `request['env']` that are not in the
      registry, by name.

  Returns:
    The settings: groups (`meta`, `batching`, `agent`, `eval`), groups by name
    of the environment (`env`, `net`, `critic_net`), and single ones.
  """
  request = populations.complete(request)
  objects = env_objects or {}
  envs = populations.environments(request['env'], objects)
  eval_envs = populations.environments(request['eval_env'], objects)
  if agent is not None and (request['net'] or request['core']):
    raise ValueError('agent settings have a network: leave out net and core')
  preset = experiments.of_request(request)
  networks_by_env, critics_by_env = {}, {}
  base_agent = _meta_agent(request, rule, agent, critic)
  for name in envs | eval_envs:
    own = base_agent.copy_and_resolve_references()
    if agent is None:
      suggested = None if name in objects else registry.suggested_network(name)
      suggested = preset.network(suggested)[0] if preset else suggested
      networks.choose(own, request['net'] or suggested, request['core'])
    networks.match_critic(own)
    if critic is not None:  # Its own torso is kept.
      own.value_fn.update(critic)
    networks_by_env[name] = own.net_settings
    critics_by_env[name] = dict(
      net=own.value_fn.net, net_args=own.value_fn.net_args
    )
  declared: dict[str, fields.Field] = {}
  for group, names in (('env', envs), ('eval.env', eval_envs)):
    for name in names:
      if name not in objects:
        declared |= checks.declared_fields(f'{group}.{name}', name)
  with base_agent.unlocked():
    del base_agent['net_settings']
    for name in ('net', 'net_args'):
      del base_agent.value_fn[name]
  meta = dataclasses.asdict(meta_lib.Config())
  batching = meta.pop('batching')
  layers = layers_lib.Layers(
    dict(
      steps=request['steps'],
      seed=request['seed'],
      num_agents=request['num_agents'],  # In each environment, or None for
      total_agents=None,  # as many in all of them; the first have more.
      devices=request['devices'],
      lane_shards=None,  # Rows of devices; None for as many as divide agents.
      lanes_at_once=None,
      # Of environments on the host: whether agents act while the devices
      # differentiate others, with the same results; and where their networks
      # are evaluated, on the agents' devices or on the CPU.
      overlap_acting=True,
      act_on='devices',
      checkpoint_every=25,  # Meta-updates.
      checkpoint_replay=request['checkpoint_replay'],
      max_nonfinite_updates=10,  # In a row.
      env=populations.by_name(envs),
      net=populations.by_name(networks_by_env),
      critic_net=populations.by_name(critics_by_env),
      meta=meta,
      batching=batching,
      agent=base_agent,
      # The fresh agents that a rule is evaluated with.
      eval=dict(
        every=request['eval_every'],
        baseline='actor_critic',  # A hand-designed rule, or None.
        steps=300,
        num_seeds=2,
        learning_rate=1e-2,
        # None for the environments of meta-training.
        env=populations.by_name(eval_envs) if eval_envs else None,
        batching=dataclasses.asdict(batching_lib.Batching()),
      ),
    ),
    declared=declared,
    custom=networks.custom_groups(base_agent, networks_by_env, critics_by_env),
  )
  for name in networks_by_env if agent is None else ():
    path = f'net.{name}.name'
    if request['net'] is not None:
      layers.origins[path] = '--net'
    elif name not in objects and registry.suggested_network(name):
      layers.origins[path] = f'environment {name}'
      if preset and preset.network(registry.suggested_network(name))[1]:
        layers.origins[path] = preset.origin
  if rule is not None:
    if agent is None:
      layers.mark(f'rule {rule.name}', rule.settings, 'agent')
    rate = meta_lib.FINE_TUNING_LEARNING_RATE
    layers.apply(f'rule {rule.name}', {'meta.learning_rate': rate})
  if preset is not None:
    preset.apply(
      layers,
      chooses_agents=request['num_agents'] is None,
      chooses_networks=agent is None and critic is None,
    )
  _apply_user(layers, request)
  populations.choose_num_agents(layers)
  if preset:
    preset.apply_derived(layers)
  layers.check()
  checks.check_rule_name(layers.settings.agent, base_agent.update_rule_name)
  for name in networks_by_env:
    networks.check_arguments(layers.settings.net[name], f'net.{name}')
  if layers.settings.devices < 1:
    raise ValueError('devices must be at least 1, got 0')
  counts = populations.agents_by_env(layers.settings, request['env'])
  checks.check_host_environments(layers.settings, counts, objects)
  if eval_envs and not layers.settings.eval.every:
    raise ValueError(
      'environments for evaluations (--eval-env; in Python: eval_envs=...) '
      'need a period (--eval-every; in Python: eval_every=...)'
    )
  if layers.settings.eval.every:
    checks.check_evaluations(layers.settings, objects)
  if request['env_steps'] is not None:
    per_update = meta_config(layers.settings).env_steps
    budgets.apply(layers, request, per_update)
  return layers


def meta_agent_settings(
  settings: config_dict.ConfigDict, env: str
) -> config_dict.ConfigDict:
  """Makes the settings of the agents in one environment of meta-training.

  Args:
    settings: from `meta_training`.
    env: the environment's name.

  Returns:
    A copy, with the networks of that environment.
  """
  agent = settings.agent.copy_and_resolve_references()
  with agent.unlocked():
    agent.net_settings = settings.net[env]
    agent.value_fn.update(settings.critic_net[env])
  return agent


def meta_config(settings: config_dict.ConfigDict) -> meta_lib.Config:
  """Makes the config of meta-training from the settings of a run."""
  meta = settings.meta.to_dict()
  weights = meta_lib.MetaLossWeights(**meta.pop('weights'))
  batching = batching_lib.from_settings(settings.batching, 'batching')
  return meta_lib.Config(batching=batching, weights=weights, **meta)


def _apply_user(layers: layers_lib.Layers, request: Mapping[str, Any]) -> None:
  """Applies the user's settings, which override all others."""
  layers.apply('settings', request['settings'])
  layers.apply_texts('--set', request['set'])


def _meta_agent(
  request: Mapping[str, Any],
  rule: rule_lib.Rule | None,
  agent: config_dict.ConfigDict | None,
  critic: types.ValueFnConfig | None,
) -> config_dict.ConfigDict:
  """Makes the settings that the agents of all environments share."""
  if agent is None:
    kind = request['rule'] if rule is None else rule.kind
    if request['rule'] not in (kind, META_TRAINING['rule']):
      raise ValueError(
        f'the initial rule {request["init"]} is of the kind {kind}, not '
        f'{request["rule"]}: leave out that kind (--rule)'
      )
    agent = meta_lib.get_agent_settings(kind)
    if rule is not None:
      where = f'the rule {rule.name}'
      rule_settings.update(agent, rule.settings, where)
  agent = agent.copy_and_resolve_references()
  with agent.unlocked():
    if 'optimizer' not in agent:
      agent.optimizer = config_dict.ConfigDict(optimizers.get_settings())
    if critic is not None:
      agent.value_fn = config_dict.ConfigDict(dict(critic))
    elif agent.get('value_fn') is None:
      defaults = types.ValueFnConfig(**agents.get_settings_critic())
      agent.value_fn = config_dict.ConfigDict(dict(defaults))
  return agent
