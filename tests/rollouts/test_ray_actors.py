"""Rollouts by Ray: the same as by this process, when actors and nodes come and go."""

import contextlib
import ipaddress
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Broken, Drift, Mortal, Once, Sensitive, Slow
from rollouts.helping import assert_same, factory, inline, iterations, plan_of, play
from rollouts.vectors import sync, vector_plan

from factorax.ppo import FactoredPPO
from factorax.rollouts import LostWarning, WorkerDied

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # as `connect` does before it imports Ray
ray = pytest.importorskip("ray", reason="Ray is an extra: factorax[ray]")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings(
        "ignore::FutureWarning",
        "ignore::DeprecationWarning",
        "ignore::ResourceWarning",
        "ignore:os.fork",  # JAX warns of it; the child process starts another program at once
    ),
]


@pytest.fixture(scope="module")
def actors():
    """Ray on this machine, with room for two workers."""
    from factorax.rollouts.ray_actors import RayBackend, connect

    connect("")
    yield RayBackend
    ray.shutdown()


def test_vectors_of_environments(actors):
    plan = vector_plan(partial(sync, AutoresetMode.SAME_STEP))
    assert_same(play(actors(plan, 2, 60.0), plan), inline(vector_plan(Drift)))


def test_ray_listens_on_the_loopback_alone(actors):
    assert listening({"gcs_server", "raylet"}) == {"127.0.0.1"}


def listening(names):
    """Addresses at which processes of these names listen."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # processes end
            if (folder / "comm").read_text().strip() in names:
                sockets = {os.readlink(handle) for handle in (folder / "fd").iterdir()}
                for table in ("tcp", "tcp6"):
                    rows = [line.split() for line in (folder / "net" / table).read_text().splitlines()[1:]]
                    ours = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
                    found |= {str(address(text.partition(":")[0])) for text in ours}
    return found


def address(text):
    """From the kernel's hexadecimal words."""
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    found = ipaddress.ip_address(b"".join(words))
    return getattr(found, "ipv4_mapped", None) or found


@pytest.mark.parametrize("workers", [1, 3])
def test_ray_gives_what_this_process_gives(actors, workers):
    plan = plan_of(factory(Drift, "mixed", masks=True), "shared")
    assert_same(play(actors(plan, workers, 60.0, cpus=0.5), plan), inline(plan))


def test_lost_episodes_and_errors(actors):
    plan = plan_of(Sensitive)
    with pytest.warns(LostWarning, match="fell over the edge"):
        want = inline(plan)
    with pytest.warns(LostWarning, match="fell over the edge"):
        assert_same(play(actors(plan, 2, 60.0, cpus=0.5), plan), want)
    plan = plan_of(Broken)
    with pytest.raises(KeyError, match="lane 7") as caught:
        play(actors(plan, 1, 60.0), plan)
    assert caught.value.__notes__ == ["in environment 0 (Broken), step 1 of its episode with seed 3"]


@pytest.mark.parametrize("what", ["die", "hang"])
def test_an_actor_lost_in_the_middle_of_a_fragment_leaves_no_trace(actors, what, tmp_path):
    plan = plan_of(factory(Once, str(tmp_path / "mark"), what))
    with pytest.warns(LostWarning, match=r"worker \d \(environments \d to \d\) was replaced"):
        transitions = play(actors(plan, 2, 4.0, cpus=0.5), plan, 4)
    assert_same(transitions, inline(plan_of(Drift), 4))


def test_an_actor_that_dies_again_and_again_is_an_error(actors):
    plan = plan_of(Mortal)
    with pytest.raises(WorkerDied, match=r"worker 0 .* was lost 3 times over one fragment; the last time it was"):
        play(actors(plan, 1, 60.0), plan)


def test_training_by_ray(actors):
    settings = {"n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden": (8,), "check_network": False}
    models = [FactoredPPO(Drift, rollouts=r, **settings) for r in ("inline", "ray,cpus=0.5")]
    for model in models:
        model.learn(32, progress_bar=False)
        model.close()
    ours, theirs = (model.learner.behaviour(model.state).arrays().kernels for model in models)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nodes_come_and_go():
    """Two nodes of one processor each, a worker on either. One is taken away, and later there is a new one."""
    from ray.cluster_utils import Cluster

    from factorax.rollouts.ray_actors import RayBackend

    ray.shutdown()
    # By default, it takes half a minute until a node that is gone is missed.
    checks = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 6}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": checks}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        plan = plan_of(Slow)
        rollouts = RayBackend(plan, 2, 60.0, address=cluster.address)
        play_on = iter(iterations(plan, 5))
        transitions = [rollouts.collect(next(play_on))]
        homes = nodes(rollouts)
        assert len(set(homes)) == 2
        rollouts.begin(next(play_on))
        cluster.remove_node(second, allow_graceful=False)  # in the middle of a fragment
        with pytest.warns(LostWarning, match="was replaced"):
            transitions.append(rollouts.finish())
        transitions.append(rollouts.collect(next(play_on)))
        assert len(set(nodes(rollouts))) == 1  # both on what is left
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        transitions.append(rollouts.collect(next(play_on)))
        transitions.append(rollouts.collect(next(play_on)))
        assert len(set(nodes(rollouts))) == 2
        rollouts.close()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert_same(transitions, inline(plan_of(Drift), 5))


def nodes(rollouts):
    """Where the workers are."""

    def where(self):
        return ray.get_runtime_context().get_node_id()

    return ray.get([worker.handle.actor.__ray_call__.remote(where) for worker in rollouts.workers])
