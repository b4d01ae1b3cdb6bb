"""MuJoCo Playground: the same trajectories, rewards that are products, ends by time, nothing is downloaded by name."""

import jax
import numpy as np
import pytest
from integrations.jax_cases import TINY, keys_of, play, random_actions

import factorax as fx
from factorax.integrations import from_playground
from factorax.problems.registry import find_problem

pytestmark = [pytest.mark.jaxenvs, pytest.mark.filterwarnings("ignore")]
playground = pytest.importorskip(
    "mujoco_playground", reason="MuJoCo Playground is an extra: factorax[jax-envs]", exc_type=ImportError
)

CARTPOLE = "CartpoleBalance"


@pytest.fixture(scope="module")
def cartpole():
    """With its terms, so that no run tells whether they add up; and the same of the package."""
    problem = from_playground(CARTPOLE, terms=True, episode_length=3)
    actions = random_actions(problem, 3)
    for_reset, _ = keys_of(actions)
    env = playground.registry.load(CARTPOLE, config_overrides={"impl": "jax"})
    step, state = jax.jit(env.step), jax.jit(env.reset)(jax.random.key_data(for_reset))
    first, states = state.obs, []
    for action in actions:
        states.append(state := step(state, action))
    return problem, play(problem, actions), (first, states)


@pytest.mark.slow
def test_trajectories_are_those_of_the_package(cartpole):
    _, (first, steps), (expected, states) = cartpole
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
    for new, state in zip(steps, states, strict=True):
        np.testing.assert_allclose(new.obs, state.obs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(new.psi.sum(), state.reward, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(new.psi[2], state.metrics["reward/centered"], rtol=1e-5)
    assert [bool(new.truncated) for new in steps] == [False, False, True]
    assert not any(new.terminated for new in steps)


def test_terms_and_what_they_leave():
    problem = from_playground(CARTPOLE, terms=True)
    assert problem.network.targets[2:] == ("centered", "small_control", "small_velocity", "upright", "other")
    assert problem.network.actions == ("slide",)
    assert repr(problem.action_space) == "Box(-1.0, 1.0, (1,), float32)"


@pytest.mark.slow
def test_a_product_of_terms_is_one_target(cartpole):
    problem = from_playground(CARTPOLE, episode_length=3)
    assert problem.network.targets == ("reward",)
    _, (_, steps), _ = cartpole
    _, alone = play(problem, random_actions(problem, 3))
    np.testing.assert_allclose([new.psi[0] for new in alone], [new.psi.sum() for new in steps], rtol=1e-5)


@pytest.mark.slow
def test_it_trains():
    problem = find_problem(f"playground:{CARTPOLE},episode_length=3,terms=false")
    assert fx.FactoredPPO(problem, **TINY).learn(8, progress_bar=False).num_timesteps == 8


def test_nothing_is_downloaded_for_a_name(monkeypatch):
    from mujoco_playground._src import mjx_env

    def download():
        raise AssertionError("downloads")

    monkeypatch.setattr(mjx_env, "ensure_menagerie_exists", download)
    monkeypatch.setattr(mjx_env, "MENAGERIE_PATH", mjx_env.ROOT_PATH / "nothing")
    with pytest.raises(ValueError, match=r"needs the models of MuJoCo Menagerie, .*; run mujoco_playground\.registry"):
        find_problem("playground:Go1JoystickFlatTerrain")
