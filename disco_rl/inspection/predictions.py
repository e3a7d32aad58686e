"""Computes an agent's predictions along long trajectories, on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disco_rl import agent as agent_lib
from disco_rl import types
from disco_rl import utils
from disco_rl.inspection import values
from disco_rl.update_rules import categorical

# Streams that are unrolled at a time: outputs per action are large.
_STREAMS = 8


def along(
  an_agent: agent_lib.Agent,
  learner: agent_lib.LearnerState,
  rollout: types.ActorRollout,
) -> dict[str, np.ndarray]:
  """Computes what an agent predicts at every step.

  Args:
    an_agent: the agent.
    learner: its learner.
    rollout: leaves [N, B, ...], with `states` of [1, B, ...].

  Returns:
    Those that the agent has of: `policy` [N, B, A] (probabilities), `entropy`
    [N, B] of it, `y` [N, B, Y] and `z` [N, B, Y] (probabilities; z of the
    action taken), `value` [N, B], `action values` [N, B, A], and `torso` [N, B,
    D].
  """
  head = values.head_of(an_agent)

  @jax.jit
  def predict(params: Any, rollout: types.ActorRollout) -> dict[str, Any]:
    state = rollout.first_state(time_axis=0)
    outs, _ = an_agent.unroll_net(params, state, rollout)
    logits = outs['logits']
    found = {
      'policy': jax.nn.softmax(logits),
      'entropy': categorical.entropy(logits),
    }
    if 'y' in outs:
      found['y'] = jax.nn.softmax(outs['y'])
    if 'z' in outs:
      taken = utils.batch_lookup(outs['z'], rollout.actions)
      found['z'] = jax.nn.softmax(taken)
    if head is not None:
      found['value'] = values.state_values(head, outs)
      if head.name == 'q':
        found['action values'] = head.decode(outs['q'])
    torso = an_agent.embed(params, state, rollout)
    if torso is not None:
      found['torso'] = jnp.asarray(torso)
    return found

  num_streams = rollout.rewards.shape[1]
  blocks = []
  for start in range(0, num_streams, _STREAMS):
    # Each block has as many streams, so that one program is compiled.
    rows = np.arange(start, start + _STREAMS) % num_streams
    block = jax.tree.map(lambda x, rows=rows: x[:, rows], rollout)
    found = jax.tree.map(np.asarray, predict(learner.params, block))
    kept = min(_STREAMS, num_streams - start)
    blocks.append(jax.tree.map(lambda x, kept=kept: x[:, :kept], found))
  return jax.tree.map(lambda *xs: np.concatenate(xs, axis=1), *blocks)
