"""The package's types hold for a client that is checked strictly."""

import subprocess
import sys

import pytest

CLIENT = """
import jax
import jax.numpy as jnp

import disco_rl
from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl.config import agents
from disco_rl.config import meta_training as config
from disco_rl.environments import jittable_envs
from disco_rl.environments import registry
from disco_rl.runs import metrics
from disco_rl.runs import trackers
from disco_rl.update_rules import actor_critic


class MyRule(actor_critic.ActorCritic):
  def init_params(
    self, rng: jax.Array
  ) -> tuple[types.MetaParams, types.HaikuState]:
    del rng
    return {'entropy_cost': {'log': jnp.zeros(())}}, {}


class Printer(trackers.Tracker):
  def write(self, rows: list[metrics.Row]) -> None:
    print(rows[-1]['env_steps'])


def train() -> dict[int, float]:
  disco_rl.register_tracker('printer', Printer)
  disco_rl.register_rule('mine', MyRule, agents.get_settings_actor_critic)
  rule = disco_rl.load_rule('catch_small')
  sizes = disco_rl.Batching(batch_size=16, num_envs=8)
  result = disco_rl.evaluate('catch', rule, num_iterations=2, batching=sizes)
  result.plot('curve.png')
  disco_rl.evaluate(
    preset='catch', num_env_steps=1000, out='x', track=['tensorboard', Printer]
  )
  trained = disco_rl.meta_train(
    ['catch'],
    num_updates=1,
    config=config.Config(batching=sizes, num_inner_updates=1),
  )
  disco_rl.save_rule('mine.npz', trained)
  return result.final_returns()


def make_agent() -> agent_lib.Agent:
  env = registry.get_environment('catch', 4, rows=5)
  jittable_envs.CatchJittableEnvironment(2, jittable_envs.get_config_catch())
  return agent_lib.Agent(
    single_observation_spec=env.single_observation_spec(),
    single_action_spec=env.single_action_spec(),
    agent_settings=agent_lib.get_settings_actor_critic(),
    batch_axis_name=None,
  )
"""
WRONG = CLIENT.replace('num_iterations=2', "num_iterations='two'")


def _check(program, folder):
  path = folder / 'client.py'
  path.write_text(program, encoding='utf-8')
  # Outside of this project, whose settings of mypy are not for clients.
  return subprocess.run(
    [sys.executable, '-m', 'mypy', '--strict', str(path)],
    cwd=folder,
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.slow
def test_a_client_passes_strict_checks(tmp_path):
  result = _check(CLIENT, tmp_path)
  assert result.returncode == 0, result.stdout + result.stderr
  result = _check(WRONG, tmp_path)
  assert result.returncode == 1
  assert 'client.py' in result.stdout and 'num_iterations' in result.stdout
