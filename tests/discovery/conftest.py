"""Trained policies on bounded actions."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

from factorax.learning import FactoredPPO
from factorax.problems import chain

SMALL = {"n_envs": 4, "n_steps": 4, "batch_size": 16, "hidden": (8,)}


@pytest.fixture(params=["scale", "clip", "tanh", "beta"])
def bounded_model(request):
    problem = dataclasses.replace(chain(3, horizon=8), action_space=gym.spaces.Box(-1.0, 1.0, (3,), np.float32))
    return FactoredPPO(problem, bounded=request.param, **SMALL)
