"""Episodes that a simulator loses: discarded, replaced by another, never learnt from; the same way every time."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Drift, Hopeless, Sensitive
from rollouts.helping import N_ENVS, N_STEPS, assert_same, inline, plan_of
from rollouts.vectors import N, Own, vector_plan

from factorax.problems import EpisodeLost
from factorax.rollouts import LostWarning, NumpyPolicy
from factorax.rollouts.player import Player


def test_a_lost_fragment_is_played_again_by_a_new_environment():
    with pytest.warns(LostWarning, match=r"environment \d lost its episode and was reset: step \d+: fell") as warned:
        transitions = inline(plan_of(Sensitive))
    assert len(warned) > 1
    quiet = inline(plan_of(Drift))
    numbers = {int(str(w.message).split()[1]) for w in warned}
    assert numbers < set(range(N_ENVS))
    for i in range(N_ENVS):
        same = all(np.array_equal(a.obs[:, i], b.obs[:, i]) for a, b in zip(transitions, quiet, strict=True))
        assert same == (i not in numbers)  # the others noticed nothing
    for part in transitions:
        assert part.obs.shape == (N_STEPS, N_ENVS, 5)
        assert (part.next_obs[..., 1] <= 1.25).all()  # no transition of a lost one
        inside = ~(part.terminated | part.truncated)[:-1]
        np.testing.assert_array_equal(part.obs[1:][inside], part.next_obs[:-1][inside])
    with pytest.warns(LostWarning):
        assert_same(inline(plan_of(Sensitive)), transitions)


def test_returns_are_those_of_whole_episodes():
    """A lost episode counts in no statistic; the one that follows counts from its first step."""
    with pytest.warns(LostWarning):
        transitions = inline(plan_of(Sensitive), 6)
    ended = np.concatenate([part.truncated for part in transitions])
    lengths = np.concatenate([part.episode_length for part in transitions])
    np.testing.assert_array_equal(lengths > 0, ended)
    psi, returns = (np.concatenate([getattr(part, name) for part in transitions]) for name in ("psi", "episode_psi"))
    for t, i in np.argwhere(lengths > 0):
        if lengths[t, i] <= t % N_STEPS + 1:  # the whole of it is in this fragment
            np.testing.assert_allclose(returns[t, i], psi[t + 1 - lengths[t, i] : t + 1, i].sum(axis=0), rtol=1e-5)


def test_what_always_fails_is_given_up():
    with pytest.raises(EpisodeLost, match="environment 0 lost 10 episodes in a row, the last because of: never"):
        inline(plan_of(Hopeless))


def test_a_recurrent_policy_with_a_vector_that_skips_steps_names_the_way_out():
    class Remembers(NumpyPolicy):
        memory = 1

    plan = vector_plan(partial(Own, AutoresetMode.NEXT_STEP))
    plan = replace(plan, policy=Remembers(plan.policy.space, "joint"))
    with pytest.raises(ValueError, match=r"SAME_STEP or DISABLED, or a vector .* vectorization_mode=\"sync\"\)"):
        Player(plan, 0, N)
