"""Arguments of the library are checked like options of the commands."""

import pathlib

import jax
from ml_collections import config_dict
import numpy as np
import optax
import pytest

import disco_rl
from disco_rl.config import batching
from disco_rl.config import meta_training
from disco_rl.environments import registry


def _evaluate(env='catch', **arguments):
  return disco_rl.evaluate(env, 'actor_critic', **arguments)


@pytest.mark.parametrize(
  ('function', 'arguments', 'message'),
  [
    (_evaluate, dict(num_iterations='x'), 'num_iterations must be a whole'),
    (_evaluate, dict(num_seeds=10**9), 'num_seeds must be a whole number bet'),
    # The number is accepted, as in a setting.
    (_evaluate, dict(num_seeds=2.0, net='x'), "unknown network 'x'"),
    (_evaluate, dict(seeds=['a']), 'seeds must be a list of items'),
    (_evaluate, dict(seeds=5), 'seeds must be a list of items'),
    (_evaluate, dict(seeds=np.asarray([1.5])), 'seeds must be a list of item'),
    (_evaluate, dict(seeds=[2**33]), 'seeds must be a list of items'),
    (_evaluate, dict(settings=5), 'settings must be settings by name'),
    (_evaluate, dict(settings={5: 1}), 'settings must be settings by name'),
    (_evaluate, dict(env_settings=3), 'env_settings must be settings by name'),
    (_evaluate, dict(env_settings=dict(rows='x')), 'env.rows must be a whole'),
    (_evaluate, dict(chunk_size='x'), 'chunk_size must be a whole number'),
    (_evaluate, dict(batching=5), 'batching must be a config.batching.Batchi'),
    (_evaluate, dict(net=5), 'net must be a text, or none'),
    (_evaluate, dict(core=['x']), 'core must be a text, or none'),
    (_evaluate, dict(preset=3), 'preset must be a text, or none'),
    (_evaluate, dict(env=5), 'an environment is given by its name'),
    (
      _evaluate,
      dict(num_iterations=40, settings=dict(steps=50)),
      'num_iterations and settings both give steps: leave one out',
    ),
    (
      _evaluate,
      dict(env_settings=dict(rows=5), settings={'env.rows': 6}),
      'settings and env_settings both give env.rows: leave one out',
    ),
    (
      _evaluate,
      dict(
        batching=batching.Batching(batch_size=8),
        settings={'batching.batch_size': 16},
      ),
      'settings and batching both give batching.batch_size: leave one out',
    ),
    (
      _evaluate,
      dict(chunk_size=3, settings=dict(chunk_size=4)),
      'chunk_size and settings both give chunk_size: leave one out',
    ),
    (
      _evaluate,
      dict(seeds=[3], settings=dict(seeds=[4])),
      'seeds and settings both give seeds: leave one out',
    ),
    # Also values that are the defaults.
    (
      _evaluate,
      dict(seeds=[0], settings=dict(seeds=[1])),
      'seeds and settings both give seeds: leave one out',
    ),
    (
      _evaluate,
      dict(num_seeds=1, settings=dict(seeds=[1])),
      'num_seeds and settings both give seeds: leave one out',
    ),
    (_evaluate, dict(num_seeds=1, seeds=[3]), 'give seeds or num_seeds, not b'),
    (
      _evaluate,
      dict(num_iterations=1000, settings=dict(steps=50)),
      'num_iterations and settings both give steps: leave one out',
    ),
    (
      _evaluate,
      dict(batching=batching.Batching(), settings={'batching.num_envs': 4}),
      'settings and batching both give batching.num_envs: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(num_agents=2, settings=dict(num_agents=3)),
      'num_agents and settings both give num_agents: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(seed=0, settings=dict(seed=3)),
      'seed and settings both give seed: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(eval_every=0, settings={'eval.every': 3}),
      'eval_every and settings both give eval.every: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(
        config=meta_training.Config(), settings={'meta.learning_rate': 1e-3}
      ),
      'settings and config both give meta.learning_rate: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(num_updates=3, settings=dict(steps=4)),
      'num_updates and settings both give steps: leave one out',
    ),
    (
      disco_rl.meta_train,
      dict(
        config=meta_training.Config(num_inner_updates=3),
        settings={'meta.num_inner_updates': 4},
      ),
      'settings and config both give meta.num_inner_updates: leave one out',
    ),
    (batching.Batching, dict(batch_size='x'), 'batch_size must be a whole'),
    (
      batching.Batching,
      dict(rollout_length=10**9),
      'rollout_length must be a whole number between 2 and 1000000',
    ),
    (disco_rl.meta_train, dict(num_updates=0), 'num_updates must be a whole'),
    (disco_rl.meta_train, dict(num_agents='x'), 'num_agents must be a whole'),
    (disco_rl.meta_train, dict(preset=5), 'preset must be a text'),
    (disco_rl.meta_train, dict(preset='disco57', scale='2'), 'must be 1/N'),
    (disco_rl.meta_train, dict(seed=2**40), 'seed must be a whole number'),
    (disco_rl.meta_train, dict(eval_every=-1), 'eval_every must be a whole'),
    (disco_rl.meta_train, dict(eval_envs=5), 'eval_env must be a list'),
    (disco_rl.meta_train, dict(init=''), 'a rule must be a name'),
    (
      disco_rl.meta_train,
      dict(settings={'meta.learning_rate': float('inf')}),
      'meta.learning_rate must be a number above 0',
    ),
    (disco_rl.load_rule, dict(rule=None), 'a rule must be a name'),
    (disco_rl.load_rule, dict(rule='a\0b'), 'a rule must be a name'),
    (disco_rl.load_rule, dict(rule='x' * 5000), '[Ff]ile name too long'),
    (
      disco_rl.make_learner,
      dict(rule='actor_critic', network=None, learning_rate=-1),
      'learning_rate must be a number above 0',
    ),
    (
      registry.get_environment,
      dict(name='catch', batch_size=8, rows='x'),
      'catch.rows must be a whole number',
    ),
  ],
)
def test_mistakes_are_refused_by_name(function, arguments, message):
  if function is disco_rl.meta_train:
    arguments = dict(envs='catch', **arguments)
  with pytest.raises(ValueError, match=message) as error:
    function(**arguments)
  assert len(str(error.value)) < 500 and 'Errno' not in str(error.value)


def _meta_train(**arguments):
  return disco_rl.meta_train('catch', **arguments)


def _save(path='x.npz', rule=None, **arguments):
  eta = {'a': {'b': np.zeros(1)}} if rule is None else rule
  return disco_rl.save_rule(path, eta, **arguments)


def _learner(**arguments):
  return disco_rl.make_learner(
    **{'rule': 'actor_critic', 'network': print, **arguments}
  )


@pytest.mark.parametrize(
  ('function', 'arguments', 'message'),
  [
    (_evaluate, dict(devices=1), 'devices must be a list of devices of JAX'),
    (_evaluate, dict(devices=['cpu']), 'devices must be a list of devices of'),
    (_evaluate, dict(devices=jax.devices()[:1] * 2), 'devices must be differ'),
    (_evaluate, dict(resume='no'), "resume must be True or False, got 'no'"),
    (_evaluate, dict(show_progress=2), 'show_progress must be True or False'),
    (_meta_train, dict(resume=1), 'resume must be True or False, got 1'),
    (_learner, dict(with_outputs='x'), 'with_outputs must be True or False'),
    (_learner, dict(learning_rate=np.ones(2)), 'learning_rate must be one nu'),
    (_learner, dict(hyper_params=5), 'hyper_params must be settings by name'),
    (
      _learner,
      dict(hyper_params=dict(discount_factor=5)),
      'agent.hyper_params.discount_factor must be a number',
    ),
    (
      _learner,
      dict(hyper_params=dict(value_cost=float('nan'))),
      'agent.hyper_params.value_cost must be',
    ),
    (_evaluate, dict(out=5), 'out must be a path, got 5'),
    (_evaluate, dict(out=''), "out must be a path, got ''"),
    (_evaluate, dict(out='a\0b'), 'out must be a path, got'),
    (_evaluate, dict(out=b'x'), "out must be a path, got b'x'"),
    (_evaluate, dict(agent_settings={'a': 1}), 'agent_settings must be a Con'),
    (
      _evaluate,
      dict(agent_settings=config_dict.ConfigDict()),
      'agent_settings must name a rule in update_rule_name',
    ),
    (_evaluate, dict(net=''), "net must be a text, or none, got ''"),
    (disco_rl.evaluate, dict(env='catch', rule=5), 'a rule must be a name'),
    (_meta_train, dict(init=None), 'a rule must be a name, .* got None'),
    (_meta_train, dict(init=pathlib.Path('no.npz')), 'no rule file at no.npz'),
    (_meta_train, dict(config=dict(a=1)), 'config must be a config.meta_trai'),
    (_meta_train, dict(env_settings=dict(catch=5)), 'env_settings of catch mu'),
    (_meta_train, dict(agent_settings=5), 'agent_settings must be a ConfigDi'),
    (_meta_train, dict(critic=5), 'critic must be a disco_rl.types.ValueFnC'),
    (_meta_train, dict(critic=dict(net='mlp')), 'critic .* has no net_args'),
    (_meta_train, dict(regularizer=5), 'regularizer must be a function, got 5'),
    (_meta_train, dict(agent_optimizer=5), 'agent_optimizer must be an optax'),
    (_meta_train, dict(meta_optimizer='adam'), 'meta_optimizer must be an opt'),
    (
      _meta_train,
      dict(
        agent_optimizer=optax.sgd(1.0), settings={'agent.learning_rate': 0.1}
      ),
      r'agent.learning_rate \(0.1\) would have no effect beside agent_optimi',
    ),
    (
      _meta_train,
      dict(
        meta_optimizer=optax.sgd(1.0), settings={'meta.learning_rate': 5e-4}
      ),
      r'meta.learning_rate \(0.0005\) would have no effect beside meta_opt',
    ),
    (_meta_train, dict(devices=5), 'devices must be a list of devices of JAX'),
    (_meta_train, dict(out=b'x'), "out must be a path, got b'x'"),
    (_save, dict(path=5), 'path must be a path, got 5'),
    (_save, dict(path='a\0.npz'), 'path must be a path, got'),
    (_save, dict(metadata=[1]), r'metadata must be entries by name, got \[1\]'),
    (_save, dict(settings=5), 'settings must be entries by name, got 5'),
    # Whatever is saved can be loaded.
    (_save, dict(settings=dict(update_rule_name='no')), "of the kind 'no', w"),
    (_save, dict(settings=dict(update_rule=5)), 'setting update_rule is 5, no'),
    (_save, dict(metadata={'1': 1, 1: 2}), "its metadata: its JSON has '1' tw"),
    (_save, dict(rule={}), 'it holds no parameters'),
    (_save, dict(rule={'': np.zeros(1)}), "the key '' is not of the form"),
    (_save, dict(rule={'a': {'b/c': np.zeros(1)}}), "'b/c' in 'a' has a slash"),
    (
      _save,
      dict(rule={'a': np.zeros(1), 'a/b': {'c': np.zeros(1)}, 'a/b/c': 1.0}),
      "'a/b/c' is not a text, or there are two of it",
    ),
    (disco_rl.load_run, dict(path=None), 'the folder of a run must be a path'),
    (disco_rl.load_run, dict(path=''), 'the folder of a run must be a path'),
    (_learner, dict(rule=5), 'a rule must be a name'),
    (_learner, dict(rule=None), 'a rule must be a name'),
    (_learner, dict(network=None), 'network is None, but a .* or an unroll fu'),
    (_learner, dict(optimizer='adam'), 'optimizer must be an optax.Gradient'),
    (_learner, dict(critic=5), 'critic must be a disco_rl.types.ValueFnConfig'),
    (meta_training.Config, dict(batching=5), 'batching must be a config.batch'),
    (meta_training.Config, dict(weights=5), 'weights must be settings by name'),
    (meta_training.Config, dict(weights=dict(a=np.nan)), 'weights.a must be a'),
  ],
)
def test_other_objects_are_refused_at_once(
  function, arguments, message, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(ValueError, match=message):
    function(**arguments)
  assert not list(tmp_path.iterdir())
