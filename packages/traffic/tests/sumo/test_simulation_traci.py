"""SUMO in processes of their own, by traci: the same episodes, several at once, and the window of sumo-gui."""

import os
from contextlib import closing

import numpy as np
import pytest
from factorax_traffic import Traffic
from factorax_traffic.controllers import gap_out
from factorax_traffic.sumo import TrafficEnv

pytestmark = pytest.mark.sumo


def episode(env, seed, steps):
    """Observations and targets under a controller that looks at the cars."""
    controller = gap_out(env.grid)
    obs, _ = env.reset(seed=seed)
    seen, psi = [obs], []
    for t in range(steps):
        obs, *_ = env.step(controller.act(obs, t, ())[0])
        seen.append(obs)
        psi.append(env.traffic.targets(env.read()))
    return np.array(seen), np.array(psi)


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [(3, 3), (2, 6)])
def test_the_same_episodes_as_by_libsumo(size):
    with closing(TrafficEnv(Traffic(*size))) as ours, closing(TrafficEnv(Traffic(*size), backend="traci")) as theirs:
        for seed in (0, 1):  # the second after a reset of a running simulation
            same(episode(ours, seed, 60), episode(theirs, seed, 60))


def test_several_at_once():
    traffic = Traffic(1, 2)
    with closing(TrafficEnv(traffic, backend="traci")) as alone:
        expected = [episode(alone, seed, 30) for seed in (0, 1)]
    envs = [TrafficEnv(traffic, backend="traci") for _ in range(2)]
    seen = [[env.reset(seed=seed)[0]] for seed, env in enumerate(envs)]
    controller = gap_out(traffic.grid)
    for t in range(30):  # in turn
        for env, obs in zip(envs, seen, strict=True):
            obs.append(env.step(controller.act(obs[-1], t, ())[0])[0])
    envs[0].close()
    envs[1].step(np.zeros(2))  # lives on
    envs[1].close()
    for (obs, _), ours in zip(expected, seen, strict=True):
        np.testing.assert_array_equal(obs, ours)


def test_what_sumo_says_is_in_the_error():
    env = TrafficEnv(Traffic(1, 1), backend="traci")
    env.close()  # and its files are gone
    with pytest.raises(RuntimeError, match=r"SUMO, seed 3, second 0: Error: The route file .* is not accessible"):
        env.reset(seed=3)


def test_wrong_arguments(monkeypatch):
    with pytest.raises(ValueError, match="backend: got 'socket', want one of libsumo, traci"):
        TrafficEnv(Traffic(1, 1), backend="socket")  # pyright: ignore[reportArgumentType]
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(ValueError, match=r"gui: got True, but there is no display .* xvfb-run"):
        TrafficEnv(Traffic(1, 1), gui=True)


@pytest.mark.skipif(not os.environ.get("DISPLAY"), reason="needs a display: xvfb-run pytest")
def test_the_window_shows_the_same_episode():
    with closing(TrafficEnv(Traffic(1, 2))) as ours, closing(TrafficEnv(Traffic(1, 2), gui=True)) as shown:
        for seed in (0, 1):
            same(episode(ours, seed, 20), episode(shown, seed, 20))
        assert shown.simulation.api.gui.getIDList() == ("View #0",)
