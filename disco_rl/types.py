"""Defines the type aliases and records that are used throughout the library.

Shape symbols: `T` transitions (so a trajectory has `T + 1` steps), `B` batch,
`A` discrete actions. Arrays are time-major.

Experience records are registered as pytrees and behave as mappings. Treat them
as immutable: nothing in the library assigns to their fields, and
`.replace(...)` makes a changed copy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, dataclass_transform, Self, TYPE_CHECKING

import chex
import dm_env
from dm_env import specs as dm_env_specs
import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array | np.ndarray
ArraySpec = jax.ShapeDtypeStruct
ActionSpec = dm_env_specs.BoundedArray
Specs = Mapping[str, ArraySpec]
SpecsTree = chex.ArrayTree  # A pytree whose leaves are `ArraySpec`s.

MetaState = dict[str, Any]  # A rule's state, carried from update to update.
UpdateRuleLog = dict[str, jax.Array]  # Scalars.
LogDict = dict[str, Any]
HaikuState = Any
RNNState = Any
AgentOuts = Mapping[str, Array]
UpdateRuleOuts = Mapping[str, Any]  # The targets a rule produces.
HyperParams = Mapping[str, Any]
OptState = Any
AgentParams = Any  # θ, any pytree of arrays.
MetaParams = Any  # η, any pytree of arrays.
MetaParamsEMA = Any  # A moving average of η, of the same structure.

# (params, state, observations [B, ...], should_reset [B])
#   -> (agent_outs [B, ...], new_state)
AgentStepFn = Callable[
  [AgentParams, HaikuState, Any, Array], tuple[AgentOuts, HaikuState]
]
# (params, state, observations [T+1, B, ...], should_reset [T+1, B])
#   -> (agent_outs [T+1, B, ...], new_state)
AgentUnrollFn = Callable[
  [AgentParams, HaikuState, Any, Array], tuple[AgentOuts, HaikuState]
]
# (rng, logits [B, A]) -> actions [B]
SampleActionFn = Callable[[chex.PRNGKey, Array], Array]


@dataclass_transform()
def chex_dataclass(cls: type | None = None, /, **options: bool) -> Any:
  """Makes a `chex.dataclass`, declared for type checkers."""
  return chex.dataclass(cls, **options)


class Record:
  """Declares the methods that `chex.dataclass` adds, for type checkers."""

  if TYPE_CHECKING:

    def replace(self, **changes: Any) -> Self:
      """Returns a copy with some fields changed."""

    def keys(self) -> Iterable[str]:
      """Returns the names of the fields."""

    def __getitem__(self, name: str) -> Any: ...

    def __iter__(self) -> Iterator[str]: ...


@chex_dataclass
class ValueFnConfig(Record):
  """Settings of a critic, see `value_fns.value_fn.ValueFunction`.

  Attributes:
    net: network name, see `networks.nets.get_network`.
    net_args: keyword arguments of that network.
    learning_rate: step size of the critic's optimiser.
    max_abs_update: element-wise bound on an update before the learning rate.
    discount_factor: γ.
    td_lambda: λ of V-trace.
    outer_value_cost: weight of the value loss.
    ema_decay: decay of the advantage and TD moving averages.
    ema_eps: added to the standard deviations when normalising.
  """

  net: str
  net_args: Any
  learning_rate: float
  max_abs_update: float
  discount_factor: float
  td_lambda: float
  outer_value_cost: float
  ema_decay: float = 0.99
  ema_eps: float = 1e-6


@chex_dataclass
class EmaState(Record):
  """First and second moments of a moving average, not yet debiased."""

  moment1: Any  # One scalar per leaf of the averaged tree.
  moment2: Any  # Likewise.
  decay_product: Array  # [], the product of all decays applied so far.


@chex_dataclass
class ValueState(Record):
  """The critic's state, carried from one update to the next."""

  params: AgentParams
  state: HaikuState
  opt_state: OptState
  adv_ema_state: EmaState
  td_ema_state: EmaState


@chex_dataclass
class TransformConfig(Record):
  """One input of the meta-network: its source and its transforms.

  Attributes:
    source: path into `UpdateRuleInputs`, e.g. `'agent_out/logits'`.
    transforms: names from `input_transforms.TRANSFORMS`, or `y_net` / `z_net`.
  """

  source: str
  transforms: Sequence[str]


@chex_dataclass
class MetaNetInputOption(Record):
  """All inputs of the meta-network, in order."""

  base: Sequence[TransformConfig]  # Each becomes [T, B, -1].
  action_conditional: Sequence[TransformConfig]  # Each becomes [T, B, A, -1].


@chex_dataclass(frozen=True, mappable_dataclass=False)
class PolicyNetwork:
  """An agent network as pure functions.

  Attributes:
    init: `(rng, observations [B, ...], should_reset [B]) -> (params, state)`.
    one_step: an `AgentStepFn`.
    unroll: an `AgentUnrollFn`.
    embed: like `unroll`, but returns an embedding, [T+1, B, D], instead of the
      outputs. None, here and below, for a network without stages.
    predict: `(params, embedding [..., D], actions [...] or None) -> outputs`,
      which computes every row separately. `unroll` is `predict` after `embed`,
      without actions. With actions, outputs per action are computed only for
      those, without the axis of actions. With both stages, learning computes
      outputs in blocks, and only those it needs.
  """

  init: Callable[..., tuple[AgentParams, HaikuState]]
  one_step: AgentStepFn
  unroll: AgentUnrollFn
  embed: Callable[..., tuple[Array, HaikuState]] | None = None
  predict: Callable[..., AgentOuts] | None = None


def mid_or_last(is_last: Array) -> Array:
  """Encodes ends of episodes as step types.

  Args:
    is_last: bool, any shape.

  Returns:
    `dm_env.StepType` LAST or MID, int32, of the same shape; a NumPy array if
    `is_last` is one.
  """
  last, mid = int(dm_env.StepType.LAST), int(dm_env.StepType.MID)
  if isinstance(is_last, np.ndarray):
    return np.where(is_last, last, mid).astype(np.int32)
  return jnp.where(is_last, last, mid).astype(jnp.int32)


@chex_dataclass
class EnvironmentTimestep(Record):
  """The timestep that an environment returns, for every stream of the batch.

  The last step of an episode is LAST, also if a time limit ended it.
  """

  observation: Any  # Tree of [B, ...].
  step_type: Array  # [B], of `dm_env.StepType` values.
  reward: Array  # [B], received on arriving at this step.
  # [B, A], bool, True for the actions that are legal in this observation; None
  # from environments in which all are.
  action_mask: Any = None

  @property
  def is_last(self) -> Array:
    """[B], whether this step is the last of its episode."""
    return self.step_type == int(dm_env.StepType.LAST)


@chex_dataclass
class ActorTimestep(Record):
  """One step of experience: observations, actions, rewards, agent outputs."""

  observations: Any  # Tree of [B, ...].
  actions: Array  # [B]
  rewards: Array  # [B], received on arriving at this step.
  discounts: Array  # [B], False exactly on the last step of an episode.
  agent_outs: AgentOuts  # Tree of [B, ...].
  states: HaikuState  # The network state *before* this step.
  logits: Array  # [B, A], of the policy that acted (μ).
  action_mask: Any = None  # [B, A], bool, True for legal actions, or None.

  @property
  def is_last(self) -> Array:
    """[B], whether this step is the last of its episode.

    That step shows the first observation of the next episode, so a network with
    memory is reset there.
    """
    return self.discounts == 0

  @classmethod
  def from_rollout(cls, rollout: 'ActorRollout') -> 'ActorTimestep':
    """Returns a timestep with the same fields, [T+1, B, ...]."""
    return cls(**{name: rollout[name] for name in rollout})

  def to_env_timestep(self) -> EnvironmentTimestep:
    """Returns the environment's timestep at this step."""
    return EnvironmentTimestep(
      observation=self.observations,
      step_type=mid_or_last(jnp.asarray(self.is_last)),
      reward=self.rewards,
      action_mask=self.action_mask,
    )


@chex_dataclass
class ActorRollout(ActorTimestep):
  """A trajectory: an `ActorTimestep` with stacked leaves, [T+1, B, ...].

  Every leaf of `states` has a leading axis of time too: T+1, or 1 if only the
  state before the first step is kept.
  """

  @classmethod
  def from_timestep(cls, timestep: ActorTimestep) -> 'ActorRollout':
    """Returns a rollout with the same fields, which are already stacked."""
    return cls(**{name: timestep[name] for name in timestep})

  def first_state(self, time_axis: int) -> HaikuState:
    """Returns the network state at index 0 of `time_axis`."""
    return jax.tree.map(
      lambda x: jax.lax.index_in_dim(x, 0, time_axis, keepdims=False),
      self.states,
    )


@chex_dataclass
class ValueOuts(Record):
  """Values, targets and advantages of a trajectory.

  The action-value fields are None, or zeros, where no Q was given.
  """

  value: Any = 0.0  # [T+1, B], V of the online network.
  target_value: Any = 0.0  # [T+1, B], V of the target network.
  rho: Any = 0.0  # [T, B], π(a)/μ(a).
  adv: Any = 0.0  # [T, B]
  normalized_adv: Any = 0.0  # [T, B]
  value_target: Any = 0.0  # [T, B]
  td: Any = 0.0  # [T, B], value_target - value.
  normalized_td: Any = 0.0  # [T, B]
  qv_adv: Any = None  # [T+1, B, A], Q_target - V_target.
  normalized_qv_adv: Any = None  # [T+1, B, A]
  q_value: Any = None  # [T+1, B, A]
  target_q_value: Any = None  # [T+1, B, A]
  q_target: Any = None  # [T, B]
  q_td: Any = None  # [T, B], q_target - q(a).
  normalized_q_td: Any = None  # [T, B]


@chex_dataclass
class UpdateRuleInputs(Record):
  """The inputs of an update rule: one trajectory."""

  observations: Any  # Tree of [T+1, B, ...].
  actions: Array  # [T+1, B]
  rewards: Array  # [T, B]
  is_terminal: Array  # [T, B]
  agent_out: AgentOuts  # Tree of [T+1, B, ...].
  behaviour_agent_out: AgentOuts | None = None  # Tree of [T+1, B, ...].
  value_out: ValueOuts | None = None
  extra_from_rule: Mapping[str, Any] | None = None
  # [T+1, B, A], bool, True for legal actions, or None.
  action_mask: Any = None

  @property
  def should_reset_mask_fwd(self) -> Array:
    """[T+1, B]: True at the first observation of a new episode."""
    is_terminal = jnp.asarray(self.is_terminal)
    return jnp.concatenate([jnp.zeros_like(is_terminal[:1]), is_terminal])

  @property
  def should_reset_mask_bwd(self) -> Array:
    """[T+1, B]: True where a backward recursion must be reset."""
    is_terminal = jnp.asarray(self.is_terminal)
    return jnp.concatenate([is_terminal, jnp.zeros_like(is_terminal[:1])])
