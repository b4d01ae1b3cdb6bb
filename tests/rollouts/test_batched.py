"""Vector environments give the transitions of their environments stepped one by one, in every autoreset mode."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from rollouts.environments import Drift
from rollouts.helping import assert_same, inline, iterations
from rollouts.vectors import N, Own, sync, vector_plan

from factorax.rollouts import Environments, InlineBackend
from factorax.spaces import ActionSpace

MODES = list(AutoresetMode)
KINDS = ("categorical", "gaussian", "mixed", "bernoulli")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_batches_as_environments_stepped_one_by_one(mode, kind):
    """Bit for bit, with masks, over several rollouts, episodes that end in between, and a policy with local views."""
    for policy in ("joint", "shared") if kind == "categorical" else ("joint",):
        alone = inline(vector_plan(partial(Drift, kind, masks=True), policy=policy))
        batched = inline(vector_plan(partial(sync, mode, kind=kind, masks=True), policy=policy))
        assert_same(batched, alone)
        assert sum(t.truncated.sum() for t in alone) > 4
        assert any(t.factor_mask is not None for t in alone)


def test_log_probabilities_and_the_number_of_vectors_do_not_change_anything():
    alone = inline(vector_plan(Drift, log_probs=True))
    for n in (1, 2, 6):
        assert_same(inline(vector_plan(partial(sync, n=n), log_probs=True)), alone)


@pytest.mark.parametrize("mode", [MODES[0], *(pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:])])
def test_environments_in_processes_of_their_own(mode):
    made = []

    def make():
        made.append(AsyncVectorEnv([Drift], autoreset_mode=mode, context="spawn"))
        return made[-1]

    plan = replace(vector_plan(partial(sync, n=1), n_envs=1), make=make)
    assert_same(inline(plan), inline(vector_plan(Drift, n_envs=1)))
    assert [env.closed for env in made] == [True]


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_that_resets_in_its_own_way_gives_what_really_happened(mode):
    """Every transition is one of the environments', none is left out within a rollout, and none is a reset."""
    Own.made = ()
    plan = vector_plan(partial(Own, mode), log_probs=True)
    backend = InlineBackend(plan)
    made = np.zeros((2, N), int)
    for iteration in iterations(plan, 4):
        got = backend.collect(iteration)
        for v, vector in enumerate(Own.made[-2:]):
            for i in range(N):
                truth = vector.truth[i][made[v, i] : made[v, i] + plan.n_steps]
                column = v * N + i
                fields = (got.obs, got.next_obs, got.psi, got.terminated, got.truncated)
                for field, want in zip(fields, zip(*truth, strict=True), strict=True):
                    np.testing.assert_array_equal(field[:, column], np.asarray(want, field.dtype))
                elements = np.stack(vector.actions[i][made[v, i] : made[v, i] + plan.n_steps])
                np.testing.assert_array_equal(plan.policy.space.to_environments(got.action[:, column]), elements)
                made[v, i] = len(vector.truth[i])
        # What acted is what the log-probabilities are of.
        policy, arrays = plan.policy, iteration.parameters
        for i in range(plan.n_envs):
            outputs = np.stack([policy.network(arrays, 1)(obs[None])[0] for obs in got.obs[:, i]])
            want = policy.log_prob(arrays, outputs, got.action[:, i])
            np.testing.assert_allclose(got.log_prob[:, i], want, atol=1e-5)
    surplus = made - 4 * plan.n_steps
    assert (surplus.max() > 0) == (mode is AutoresetMode.NEXT_STEP)
    backend.close()


def test_episodes_are_whole_even_if_they_end_in_steps_of_which_nothing_is_learnt():
    """Returns and lengths count every transition, and an evaluation sees all episodes."""
    Own.made = ()
    space = ActionSpace.of(Drift().action_space)
    hosts = Environments(Own, N, space, 3, n_factors=3)
    hosts.init(5)
    rng, episodes = np.random.default_rng(0), [[] for _ in range(N)]
    for _ in range(60):
        transitions = hosts.collect(lambda obs: rng.integers(2, size=(N, 3)).astype(np.float32), 1)
        ends = transitions.episode_length[0] > 0
        for i, psi in [*((i, transitions.episode_psi[0, i]) for i in np.flatnonzero(ends)), *hosts.late]:
            episodes[i].append(psi)
        assert (ends <= (transitions.terminated | transitions.truncated)[0]).all()
    for i, truth in enumerate(Own.made[-1].truth):
        ends = np.flatnonzero([cut for *_, cut in truth]) + 1
        psi = np.stack([step[2] for step in truth])
        want = [part.sum(axis=0) for part in np.split(psi, ends)[: len(ends)]]
        np.testing.assert_allclose(episodes[i], want, rtol=1e-12)
        assert len(want) > 2


def test_one_step_at_a_time_is_the_same_as_with_single_environments():
    """As trainers do that choose actions themselves."""
    space = ActionSpace.of(Drift().action_space)
    both = [Environments(Drift, N, space, 3), Environments(partial(sync, MODES[0]), N, space, 3)]
    rng = np.random.default_rng(1)
    for environments in both:
        environments.init(3)
    for _ in range(30):
        actions = rng.integers(2, size=(N, 3)).astype(np.float32)
        assert_same(*([environments.step(actions)] for environments in both))
        np.testing.assert_array_equal(both[0].obs, both[1].obs)
    for environments in both:
        environments.close()


def test_how_many_environments_there_may_be():
    with pytest.raises(ValueError, match=r"n_envs: got 4, .* num_envs = 3; want n_envs=3 .* a multiple such as 6"):
        Environments(sync, 4, ActionSpace.of(Drift().action_space), 3)
