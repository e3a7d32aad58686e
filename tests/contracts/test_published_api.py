"""The package has the public API of the published one.

`contracts/published_api.json` lists it: by module, the functions with their
parameters in order, the classes with their bases, methods and attributes, and
the values. More than that may be there: further names, and further parameters
that have defaults.
"""

import importlib
import inspect
import json
import pathlib
from typing import Any

import haiku as hk
import jax
import pytest

from disco_rl import agent
from disco_rl import types
from disco_rl.environments import catch
from disco_rl.environments import jittable_envs
from disco_rl.environments.wrappers import single_stream_env
from disco_rl.update_rules import input_transforms
from disco_rl.value_fns import value_fn
from tests.support import small
from tests.support import small_meta

_FILE = pathlib.Path(__file__).parent / 'published_api.json'
PUBLISHED: dict[str, Any] = json.loads(_FILE.read_text(encoding='utf-8'))


def _ema_norm():
  made = []

  def apply(x):
    made.append(input_transforms.EmaNorm(0.99, axis=(0, 1)))
    return made[-1](x)

  jax.eval_shape(
    hk.transform_with_state(apply).init, None, jax.numpy.ones((2, 2))
  )
  return made[-1]


# Objects in which attributes set by a constructor are looked up.
EXAMPLES = {
  'Agent': lambda: small.make_agent('actor_critic'),
  'Environment': lambda: small.environment(2),
  'BatchedJittableEnvironment': lambda: small.environment(2),
  'BatchedSingleStreamEnvironment': lambda: catch.CatchEnvironment(
    2, catch.get_config()
  ),
  'EmaNorm': _ema_norm,
  'ValueFunction': lambda: value_fn.ValueFunction(
    types.ValueFnConfig(**small_meta.critic()), 'i'
  ),
}


def _signature_problems(function: Any, wanted: dict[str, Any]) -> list[str]:
  """Lists the reasons for which a call with the published signature fails."""
  parameters = list(inspect.signature(function).parameters.values())
  by_name = {p.name: p for p in parameters}
  problems = []
  named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
  names = wanted['parameters']
  if named[: len(names)] != names:
    problems.append(f'has parameters {named}, not {names}')
  for name in wanted['keyword_only']:
    if name not in by_name or by_name[name].kind not in (
      inspect.Parameter.KEYWORD_ONLY,
      inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
      problems.append(f'takes no keyword {name}')
  for name in wanted['have_defaults']:
    if name in by_name and by_name[name].default is inspect.Parameter.empty:
      problems.append(f'{name} has no default')
  is_open = {p.kind for p in parameters} & {
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
  }
  if wanted.get('open') and len(is_open) < 2:
    problems.append('does not take any further arguments')
  for p in parameters:
    is_known = p.name in names or p.name in wanted['keyword_only']
    is_variable = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    if not is_known and not is_variable and p.default is p.empty:
      problems.append(f'requires {p.name}')
  return problems


def _without_self(cls: type, name: str) -> Any:
  """Returns a method with the signature that its callers use."""
  method = inspect.getattr_static(cls, name)
  if isinstance(method, staticmethod | classmethod):
    return getattr(cls, name)
  function = getattr(cls, name)
  signature = inspect.signature(function)
  first, *rest = signature.parameters.values()
  assert first.name == 'self', (cls, name)
  bound = lambda *args, **kwargs: function(*args, **kwargs)
  bound.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
  return bound


def _class_problems(cls: Any, wanted: dict[str, Any]) -> list[str]:
  problems = []
  families = {base.__name__ for base in cls.__mro__}
  for base in set(wanted['bases']) - families:
    problems.append(f'does not derive from {base}')
  for name, value in wanted.items():
    if name == 'bases':
      continue
    if value == 'attribute':
      fields = [
        *getattr(cls, '__dataclass_fields__', ()),
        *getattr(cls, '_fields', ()),
      ]
      is_property = isinstance(
        inspect.getattr_static(cls, name, None), property
      )
      if name in fields or is_property:
        continue
      if cls.__name__ not in EXAMPLES:
        problems.append(f'has no field {name}')
      elif not hasattr(EXAMPLES[cls.__name__](), name):
        problems.append(f'has no attribute {name}')
    elif not callable(getattr(cls, name, None)):
      problems.append(f'has no method {name}')
    else:
      found = _signature_problems(_without_self(cls, name), value)
      problems += [f'{name}: {problem}' for problem in found]
  return problems


def _problems(module: Any, wanted: dict[str, Any]) -> list[str]:
  problems = []
  for name, value in wanted.items():
    thing = getattr(module, name, None)
    if thing is None:
      found = ['is missing']
    elif value == 'value':
      found = []
    elif 'bases' in value:
      found = (
        _class_problems(thing, value)
        if inspect.isclass(thing)
        else ['is not a class']
      )
    else:
      found = _signature_problems(thing, value)
    problems += [f'{name} {problem}' for problem in found]
  return problems


@pytest.mark.parametrize('name', sorted(PUBLISHED))
def test_module_has_all_that_is_published(name):
  module = importlib.import_module(f'disco_rl.{name}')
  assert not _problems(module, PUBLISHED[name])


def test_the_list_is_whole():
  assert len(PUBLISHED) == 20
  assert sum(len(names) for names in PUBLISHED.values()) == 95


@pytest.mark.parametrize(
  ('change', 'problem'),
  [
    (lambda c: c.update(more={}), 'more'),
    (lambda c: c.update(bases=['Module']), 'derive from Module'),
    (lambda c: c.update(more='attribute'), 'no attribute more'),
    (lambda c: c['unroll_net']['parameters'].reverse(), 'has parameters'),
    (lambda c: c['unroll_net']['have_defaults'].append('rollout'), 'default'),
    (lambda c: c['unroll_net']['parameters'].pop(), 'requires rollout'),
    (lambda c: c['__init__']['keyword_only'].append('more'), 'keyword more'),
  ],
)
def test_differences_are_found(change, problem):
  wanted = json.loads(json.dumps(PUBLISHED['agent']['Agent']))
  change(wanted)
  assert problem in ' '.join(_problems(agent, {'Agent': wanted}))


def test_one_stream_is_an_environment():
  """It handles its own batch; its timesteps have no batch axis."""
  stream = single_stream_env.SingleStreamEnv(
    catch.SingleStreamCatch(env_settings=catch.get_config())
  )
  state, timestep = stream.reset(rng_key=None)
  assert isinstance(state, single_stream_env.UnusedEnvState)
  assert timestep.observation.shape == (8, 8)
  state, timestep = stream.step(state=state, action=1)
  assert isinstance(state, single_stream_env.UnusedEnvState)
  assert timestep.reward.shape == ()
  assert stream.batch_size == 1
  assert stream.batched_action_spec().shape == (1,)


def test_transforms_are_what_the_table_holds():
  table = input_transforms.TRANSFORMS
  assert table['select_a'] is input_transforms.SelectByAction
  assert table['pi_weighted_avg'] is input_transforms.PiWeightedAvg
  assert table['normalize'] is input_transforms.Normalize
  for factory in table.values():
    assert issubclass(factory, input_transforms.InputTransform)


def test_keywords_of_the_published_environments():
  settings = jittable_envs.get_config_catch()
  env = jittable_envs.CatchJittableEnvironment(
    batch_size=2, env_settings=settings
  )
  state, _ = env.reset(rng_key=jax.random.PRNGKey(0))
  assert set(state.keys()) == {'rng', 'state'}
  state, _ = env.step(state=state, actions=jax.numpy.zeros(2, jax.numpy.int32))
  assert state.state.ball_row.tolist() == [1, 1]
