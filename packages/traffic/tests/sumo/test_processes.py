"""SUMO in worker processes."""

import pytest
from rollouts.helping import assert_same, factory, iterations, play

from factorax.rollouts import LostWarning, ProcessBackend


@pytest.mark.sumo
def test_a_killed_simulation_of_sumo_leaves_no_trace():
    pytest.importorskip("libsumo", reason="SUMO is an extra: factorax-traffic[sumo]")
    from factorax_traffic import Traffic
    from factorax_traffic.sumo import TrafficEnv

    from factorax.rollouts import NumpyPolicy, Plan
    from factorax.spaces import ActionSpace

    traffic = Traffic(1, 1, horizon=30)
    plan = Plan(
        make=factory(TrafficEnv, traffic),
        policy=NumpyPolicy(ActionSpace.of(traffic.action_space), "joint"),
        n_envs=2,
        n_steps=20,
        n_inputs=traffic.observation_space.shape[0],
        n_factors=1,
        n_targets=traffic.n_targets,
    )
    undisturbed = play(ProcessBackend(plan, 2, 60.0), plan, 2)
    rollouts = ProcessBackend(plan, 2, 60.0)
    first, second = iterations(plan, 2)
    try:
        transitions = [rollouts.collect(first)]
        rollouts.begin(second)
        rollouts.workers[0].handle.process.kill()
        with pytest.warns(LostWarning, match="worker 0"):
            transitions.append(rollouts.finish())
    finally:
        rollouts.close()
    assert_same(transitions, undisturbed)
