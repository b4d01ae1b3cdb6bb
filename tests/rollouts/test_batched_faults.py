"""Vectors that are killed, hang or lose their episodes: replayed if their episodes have seeds, else begun anew."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from rollouts.environments import Broken, Drift, Forgetful, Hopeless, Sensitive
from rollouts.helping import assert_same, inline, iterations, play
from rollouts.vectors import N, Own, sync, vector_plan

from factorax.problems import EpisodeLost
from factorax.rollouts import InlineBackend, LostWarning, ProcessBackend

MODES = list(AutoresetMode)


def test_workers_hold_whole_vectors():
    plan = vector_plan(sync)
    rollouts = ProcessBackend(plan, 2, 60.0)
    rollouts.close()
    assert [(worker.first, worker.end) for worker in rollouts.workers] == [(0, N), (N, 2 * N)]
    assert len(ProcessBackend(plan, 3, 60.0).workers) == 2


@pytest.mark.parametrize("mode", MODES)
def test_episodes_of_different_lengths_are_replayed_so_that_they_end_together(mode):
    """As after a kill and in a run that is resumed: seeds and actions are all that is left."""
    plan = vector_plan(partial(sync, mode), n_steps=7)
    whole = inline(plan, 5)
    one, other = InlineBackend(plan), InlineBackend(plan)
    begun = [one.collect(iteration) for iteration in iterations(plan, 5)[:3]]
    lengths = {episode.length for episode in one.episodes}
    assert len(lengths) > 2
    assert max(lengths) > plan.n_steps
    other.episodes = one.episodes
    begun += [other.collect(iteration) for iteration in iterations(plan, 5)[3:]]
    one.close()
    other.close()
    assert_same(begun, whole)


def test_what_is_played_in_waiting_does_not_matter():
    """An environment that ends in every step is reset while it waits for the others."""

    class Brief(Drift):
        def step(self, action):
            obs, reward, _, cut, info = super().step(action)
            return obs, reward, bool(obs[0] > 0.4), cut, info

    plan, alone = vector_plan(partial(sync, AutoresetMode.DISABLED, Brief), n_steps=5), vector_plan(Brief, n_steps=5)
    one, other = InlineBackend(plan), InlineBackend(plan)
    first, *later = iterations(plan, 3)
    begun = [one.collect(first)]
    other.episodes = one.episodes
    assert_same(begun + [other.collect(iteration) for iteration in later], inline(alone))


def test_a_vector_that_draws_its_own_seeds_begins_new_episodes():
    plan = vector_plan(Own, n_envs=N)
    one, other = InlineBackend(plan), InlineBackend(plan)
    first, second = iterations(plan, 2)
    one.collect(first)
    other.episodes = one.episodes
    with pytest.warns(LostWarning, match="the vector of environments 0 to 2 lost .*: Own resets .* cannot be replayed"):
        transitions = other.collect(second)
    inside = ~(transitions.terminated | transitions.truncated)[:-1]
    np.testing.assert_array_equal(transitions.obs[1:][inside], transitions.next_obs[:-1][inside])
    assert transitions.obs.any(axis=(0, 2)).all()
    other.collect(iterations(plan, 3)[2])  # and continues


def test_a_vector_that_does_not_repeat_itself_begins_new_episodes():
    plan = vector_plan(partial(sync, make=Forgetful), n_envs=N)
    one, other = InlineBackend(plan), InlineBackend(plan)
    first, second = iterations(plan, 2)
    one.collect(first)
    other.episodes = one.episodes
    with pytest.warns(LostWarning, match="a replay with seed .* gave different observations"):
        other.collect(second)


def test_a_lost_episode_loses_those_of_its_vector_and_no_others():
    """Its fragment is played again by a new vector; the same for every number of workers."""
    plan = vector_plan(partial(sync, make=Sensitive), n_envs=3 * N, n_steps=4)
    with pytest.warns(LostWarning, match="fell over the edge") as warned:
        transitions = inline(plan)
    lost = {int(re.match(r"the vector of environments (\d) to \d lost", str(w.message))[1]) for w in warned}
    assert 0 < len(lost) < 3
    alone = inline(vector_plan(Drift, n_envs=3 * N, n_steps=4))
    kept = [i for first in {0, N, 2 * N} - lost for i in range(first, first + N)]
    for ours, theirs in zip(transitions, alone, strict=True):
        np.testing.assert_array_equal(ours.next_obs[:, kept], theirs.next_obs[:, kept])
    for t in transitions:
        inside = ~(t.terminated | t.truncated)[:-1]
        np.testing.assert_array_equal(t.obs[1:][inside], t.next_obs[:-1][inside])
    with pytest.warns(LostWarning):
        assert_same(play(ProcessBackend(plan, 2, 60.0), plan), transitions)


def test_what_is_always_lost_or_broken_is_an_error():
    with pytest.raises(
        EpisodeLost, match=r"the vector of environments 0 to 2 lost 10 episodes in a row, .* never works"
    ):
        inline(vector_plan(partial(sync, make=Hopeless), n_envs=N))
    with pytest.raises(KeyError, match="lane 7") as raised:
        inline(vector_plan(partial(sync, make=Broken)))
    assert raised.value.__notes__ == ["in environments 0 to 2 (SyncVectorEnv), step 1"]


@pytest.mark.slow
def test_a_process_of_an_environment_that_has_ended_is_a_lost_episode():
    made = []

    def make():
        made.append(AsyncVectorEnv([Drift], context="spawn"))
        return made[-1]

    plan = replace(vector_plan(partial(sync, n=1), n_envs=1), make=make)
    backend = InlineBackend(plan)
    first, second = iterations(plan, 2)
    backend.collect(first)
    made[0].processes[0].kill()
    made[0].processes[0].join()
    with pytest.warns(LostWarning, match="environments 0 to 0 lost .*: the process of its environment 0 has ended"):
        transitions = backend.collect(second)
    assert transitions.obs.any(axis=(0, 2)).all()
    assert [env.closed for env in made] == [True, False]
    backend.close()
