"""All cases, from the smallest to the whole.

The first one that departs thus shows where to look.
"""

from disco_rl.conformance import average_cases
from disco_rl.conformance import case as case_lib
from disco_rl.conformance import input_cases
from disco_rl.conformance import learner_cases
from disco_rl.conformance import loss_cases
from disco_rl.conformance import meta_cases
from disco_rl.conformance import network_cases
from disco_rl.conformance import optimizer_cases
from disco_rl.conformance import scalar_cases
from disco_rl.conformance import value_cases

CASES: dict[str, case_lib.Case] = {
  case.name: case
  for case in (
    *scalar_cases.CASES,
    *input_cases.CASES,
    *value_cases.CASES,
    *average_cases.CASES,
    *network_cases.CASES,
    *loss_cases.CASES,
    *optimizer_cases.CASES,
    *learner_cases.CASES,
    *meta_cases.CASES,
  )
}
