"""Divides the state of a learner into the parts of its memory."""

from typing import Any

from disco_rl.learning import learner_step


def parts(learner: learner_step.LearnerState) -> dict[str, Any]:
  """Returns the parts of a learner's state by name, for reports of memory.

  Args:
    learner: the state of any number of learners, arrays or specs.

  Returns:
    Name to a tree. The rule's state contains its target network.
  """
  return {
    'parameters': learner.params,
    'optimisers': learner.opt_state,
    'states of the rule, critics': (learner.meta_state, learner.critic),
  }
