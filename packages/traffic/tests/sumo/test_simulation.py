"""One simulation per process, and what errors of SUMO do to an episode."""

import numpy as np
import pytest
from factorax_traffic import Traffic

from factorax.problems import EpisodeLost

pytestmark = pytest.mark.sumo


def test_a_second_simulation_raises(sumo):
    from factorax_traffic.sumo import SecondSimulation, TrafficEnv

    env = sumo(1, 1)
    env.reset(seed=0)
    second = TrafficEnv(Traffic(1, 1))
    with pytest.raises(SecondSimulation, match="already running in this process"):
        second.reset(seed=0)
    env.step(np.zeros(1))  # the first is unharmed
    env.close()
    second.reset(seed=0)
    second.close()


def test_an_error_of_sumo_names_seed_and_second(sumo):
    env = sumo(1, 1)
    env.reset(seed=5)
    env.step(np.zeros(1))

    def fail():
        raise RuntimeError("no more")

    env.simulation._step = fail
    with pytest.raises(EpisodeLost, match="SUMO, seed 5, second 3: no more"):
        env.step(np.zeros(1))
    env.reset(seed=5)  # it can be reset
    env.step(np.zeros(1))
    with pytest.raises(ValueError, match=r"action: got shape \(2,\), want \(1,\)"):
        env.step(np.zeros(2))


def test_a_collision_loses_the_episode(sumo, monkeypatch):
    from factorax_traffic.sumo import Simulation

    env = sumo(1, 1)
    env.reset(seed=5)
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "collided", True)
        with pytest.raises(EpisodeLost, match="SUMO, seed 5, second 3: cars collided"):
            env.step(np.zeros(1))
    env.reset(seed=5)
    env.step(np.zeros(1))


def test_cars_that_move_have_not_waited(sumo):
    """`delays` asks only cars that stand for their waiting time; SUMO has 0 for all others."""
    env = sumo(1, 1)
    env.reset(seed=0)
    longest = 0.0
    for _ in range(60):
        env.step(np.zeros(1))
        names, *_, waiting = env.simulation.delays()
        assert waiting.tolist() == [env.simulation.api.vehicle.getWaitingTime(name) for name in names]
        longest = max(longest, *waiting)
    assert longest > 10


def test_several_seconds_in_one_call_count_the_collisions_of_each(sumo):
    """Cars that ignore red lights and each other: counts and cars are as after single seconds."""
    env = sumo(2, 2)

    def played(at_once):
        env.reset(seed=3)
        simulation, total = env.simulation, np.zeros(2, int)
        for _ in range(12):
            for car in simulation.api.vehicle.getIDList():
                simulation.api.vehicle.setSpeedMode(car, 0)
                simulation.api.vehicle.setSpeed(car, 12.0)
            counts = [simulation.run(5)] if at_once else [simulation.run(1) for _ in range(5)]
            total += np.sum(counts, axis=0)
        names, roads, position, speed = simulation.cars()
        assert simulation.step_count == 62
        return total.tolist(), list(names), roads, position.tolist(), speed.tolist()

    single = played(at_once=False)
    assert single[0][0] > 1
    assert played(at_once=True) == single
