"""Requests that are refused."""

import pytest

from disco_rl.config import requests
from disco_rl.config import resolve


def test_a_setting_that_a_request_gives_twice():
  request = dict(set=['agent.learning_rate=1', ' agent.learning_rate = 2'])
  message = 'both give agent.learning_rate: leave one out'
  with pytest.raises(ValueError, match=message):
    requests.prepare(request, resolve.EVALUATION)
