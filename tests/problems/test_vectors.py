"""What vector environments say about themselves."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Drift
from rollouts.vectors import Own, cartpole, sync

import factorax as fx
from factorax.problems.vectors import OneOfMany, autoreset_mode, create, takes_seeds


class Remote(gym.vector.AsyncVectorEnv):
    """As it is without its processes."""

    def __init__(self, mode, shared_memory):
        self.shared_memory, self.closed = shared_memory, True
        self.metadata = {"autoreset_mode": mode}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_which_of_them_take_a_seed_for_each_environment(mode):
    assert autoreset_mode(sync(mode)) is mode
    assert takes_seeds(sync(mode))
    assert takes_seeds(gym.wrappers.vector.RecordEpisodeStatistics(sync(mode)))
    assert takes_seeds(Remote(mode, shared_memory=True))
    assert takes_seeds(Remote(mode, shared_memory=False)) == (mode is not AutoresetMode.NEXT_STEP)
    own = Own(mode)
    assert not takes_seeds(own)
    own.metadata["seed_per_env"] = True
    assert takes_seeds(own)


def test_one_of_them_is_what_a_spec_describes():
    spec = fx.Spec.of(sync)
    assert (spec.num_envs, spec.n_inputs, spec.n_factors, spec.n_targets) == (3, 5, 3, 3)
    np.testing.assert_array_equal(spec.network.static.to_dense(), np.eye(3))
    assert spec.local(np.zeros(5)).shape == (3, 2)
    assert fx.Spec.of(Own).network == spec.network
    assert fx.Spec.of(lambda: cartpole("NextStep")).network_is_default
    one = OneOfMany(sync())
    assert one.single_action_space is one.action_space
    with pytest.raises(AttributeError):
        one.nothing  # noqa: B018


def test_interventions_want_single_ones():
    with pytest.raises(TypeError, match="problem: got a function that returns a vector environment, SyncVectorEnv"):
        fx.discover(sync)


def test_what_is_missing_is_named():
    own = Own()
    own.metadata = {}
    message = r"metadata\['autoreset_mode'\]: got None from Own, want one of AutoresetMode.NEXT_STEP, .*"
    with pytest.raises(ValueError, match=message):
        fx.Spec.of(lambda: own)
    for name, value in (("num_envs", 0), ("single_action_space", None), ("single_observation_space", "Box")):
        own = Own()
        setattr(own, name, value)
        with pytest.raises(TypeError, match=rf"problem: Own.{name} is {value!r}, want"):
            fx.Spec.of(lambda own=own: own)


def test_factory_of_a_factory_and_of_a_class_is_accepted_everywhere(monkeypatch, tmp_path):
    def make():
        return fx.wrap(Drift, np.eye(3), check_sum=False)

    settings = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "check_network": False}
    fx.check_problem(make, steps=3)
    model = fx.FactoredPPO(make, **settings)
    assert model.network.shape == (3, 3)
    model.learn(16, progress_bar=False)
    assert len(model.evaluate(2)["episodes"]) == 2
    assert fx.discover(make, horizon=2, trials=1).network().shape == (3, 3)
    assert fx.wrap(make, np.ones((3, 3)))().network.n_edges == 9
    assert fx.integrations.to_gymnasium(make).network.n_edges == 3
    assert create(lambda: Drift).size == 5
    (tmp_path / "made_by_a_factory.py").write_text(
        "import factorax as fx\nfrom rollouts.environments import Drift\ndef make():\n    return fx.wrap(Drift)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert fx.FactoredPPO("made_by_a_factory:make", **settings).network.shape == (3, 3)


def test_function_that_returns_a_jax_problem_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match="problem: got a function that returns a Problem, want the Problem itself"):
        fx.FactoredPPO(lambda: fx.problems.chain(3))
