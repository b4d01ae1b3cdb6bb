"""Trained policies on bounded actions."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from small_settings import SMALL

from factorax.ppo import FactoredPPO
from factorax.problems import chain


@pytest.fixture(params=["scale", "clip", "tanh", "beta"])
def bounded_model(request):
    problem = dataclasses.replace(chain(3, horizon=8), action_space=gym.spaces.Box(-1.0, 1.0, (3,), np.float32))
    return FactoredPPO(problem, distribution=request.param, **SMALL)
