"""`from_batched`: simulators that compute many cases in one call."""

import re

import gymnasium as gym
import numpy as np
import pytest

import factorax as fx
from factorax.networks import policy_arrays
from factorax.ppo import FactoredPPO
from factorax.rollouts import InlineBackend, Iteration, LostWarning
from factorax.spec import Spec

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
NET = fx.InfluenceNetwork(np.eye(3), targets=["x", "y", "z"])
SETTINGS = {"n_steps": 8, "batch_size": 16, "hidden": (8,), "n_epochs": 2, "check_network": False}


def squares(actions):
    return -((actions - 0.3) ** 2)


class Walks:
    """Cases of different lengths, with noise that comes from the seed of each; a context in the observation."""

    action_space, network, weights = BOX, NET, np.array([1.0, 2.0, 0.5])
    targets = ("x", "y", "z")
    closed = 0

    def reset(self, seeds, cases):
        if len(cases) > getattr(self, "n", 0):
            self.n = len(cases)
            self.rngs, self.place, self.time = [None] * self.n, np.zeros((self.n, 4)), np.zeros(self.n, int)
        for seed, case in zip(seeds, cases, strict=True):
            self.rngs[case] = np.random.default_rng(seed)
            self.place[case], self.time[case] = self.rngs[case].normal(size=4), 0
        return self.place[cases]

    def step(self, actions):
        assert actions.shape == (self.n, 3)
        self.place[:, :3] += 0.1 * actions
        self.place += 0.05 * np.stack([rng.normal(size=4) for rng in self.rngs])
        self.time += 1
        return self.place, -(self.place[:, :3] ** 2), self.place[:, 3] > 0.5, self.time >= 6

    def close(self):
        Walks.closed += 1


class Alone(gym.Env):
    """One case of `Walks` as an ordinary environment."""

    observation_space, action_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32), BOX
    network, weights = NET, Walks.weights

    def __init__(self):
        self.walks = Walks()

    def reset(self, *, seed=None, options=None):
        return np.float32(self.walks.reset([seed], [0])[0]), {}

    def step(self, action):
        obs, rewards, terminated, truncated = self.walks.step(action[None])
        psi = rewards[0]
        return np.float32(obs[0]), float(psi @ self.weights), terminated[0], truncated[0], {"vector_reward": psi}


def same(a, b):
    for x, y in zip(*(policy_arrays(model.state.agent.policy).kernels for model in (a, b)), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.slow
def test_three_lines_train():
    make = fx.integrations.from_batched(squares, NET, num_envs=8, action_space=BOX)
    model = FactoredPPO(make, learning_rate=0.02, **SETTINGS)
    before = model.evaluate(8, deterministic=False)["return"]
    model.learn(8 * 8 * 12, progress_bar=False)
    after = model.evaluate(8, deterministic=False)
    assert after["return"] > before
    assert model.network.targets == ("x", "y", "z")
    assert model.history[-1]["rollout/ep_len_mean"] == 1
    actions, _ = model.predict(np.zeros((5, 1)), deterministic=True)
    assert np.abs(actions - 0.3).mean() < 0.3


@pytest.mark.slow
def test_episodes_are_those_of_the_cases_one_by_one_also_after_a_checkpoint(tmp_path):
    """Bit for bit, though cases end at different times."""
    make = fx.integrations.from_batched(Walks, num_envs=4)
    batched, alone = FactoredPPO(make, **SETTINGS), FactoredPPO(Alone, n_envs=4, **SETTINGS)
    for model in (batched, alone):
        model.learn(96, progress_bar=False)
    same(batched, alone)
    np.testing.assert_array_equal(batched.evaluate(9)["episodes"], alone.evaluate(9)["episodes"])
    batched.save(tmp_path / "model")
    resumed = FactoredPPO.load(tmp_path / "model", make)
    for model in (batched, resumed):
        model.learn(64, reset_num_timesteps=False, progress_bar=False)
    same(batched, resumed)
    elsewhere = batched.on(make)
    np.testing.assert_array_equal(elsewhere.evaluate(9)["episodes"], batched.evaluate(9)["episodes"])


@pytest.mark.slow
def test_workers_hold_simulators_of_their_own():
    models = [
        FactoredPPO(fx.integrations.from_batched(Walks, num_envs=2), n_envs=4, rollouts=rollouts, **SETTINGS)
        for rollouts in ("inline", "processes,workers=2", "processes,workers=6")  # at most one for each simulator
    ]
    for model in models:
        model.learn(64, progress_bar=False).close()
    for each in models[1:]:
        same(models[0], each)


def test_a_check_of_the_problem_and_closing():
    Walks.closed = 0
    fx.check_problem(fx.integrations.from_batched(Walks, num_envs=3), steps=20)
    assert Walks.closed > 1
    fx.check_problem(fx.integrations.from_batched(squares, np.eye(3), num_envs=3, action_space=BOX), steps=3)


def test_targets_are_counted_and_named():
    with pytest.warns(fx.structure.StructureWarning, match="network: got none"):
        assert Spec.of(fx.integrations.from_batched(squares, num_envs=2, action_space=BOX)).n_targets == 3
    make = fx.integrations.from_batched(squares, num_envs=2, action_space=BOX, targets=["p", "q", "r"])
    with pytest.warns(fx.structure.StructureWarning, match="network: got none"):
        assert Spec.of(make).network.static.targets == ("p", "q", "r")
    make = fx.integrations.from_batched(squares, np.eye(3), num_envs=2, action_space=BOX, targets=["p", "q", "r"])
    assert Spec.of(make).network.static.targets == ("p", "q", "r")
    one = fx.integrations.from_batched(lambda yaw: yaw.sum(axis=1), np.ones((3, 1)), num_envs=2, action_space=BOX)
    assert rollout(FactoredPPO(one, **SETTINGS)).psi.shape == (8, 2, 1)


def test_a_context_that_all_cases_get_anew_together():
    class Contexts:
        action_space = BOX

        def reset(self, seeds):
            self.seen = np.stack([np.random.default_rng(seed).normal(size=2) for seed in seeds])
            return self.seen

        def step(self, actions):
            return -((actions[:, :2] - self.seen) ** 2)

    make = fx.integrations.from_batched(Contexts, np.ones((3, 2)), num_envs=4)
    model = FactoredPPO(make, **SETTINGS)
    assert model.spec.n_inputs == 2
    transitions = rollout(model)
    assert (transitions.episode_length == 1).all()
    assert len(np.unique(transitions.obs[..., 0])) == 32
    np.testing.assert_allclose(
        transitions.psi, -((transitions.action[..., :2].clip(-1, 1) - transitions.obs) ** 2), 1e-5
    )


def rollout(model):
    """One rollout, without an update."""
    arrays = model.learner.behaviour(model.state).arrays()
    return InlineBackend(model.compiled.collector.plan).collect(Iteration(arrays, (1, 2), 0))


def test_a_simulator_that_loses_its_cases():
    class Fragile(Walks):
        def step(self, actions):
            if self.place[0, 0] > 0.5:
                raise fx.problems.EpisodeLost("the solver did not converge")
            return super().step(actions)

    model = FactoredPPO(fx.integrations.from_batched(Fragile, num_envs=4), **SETTINGS)
    with pytest.warns(LostWarning, match="vector of environments 0 to 3 lost .*: the solver did not converge"):
        model.learn(96, progress_bar=False)


def bad(**changes):
    """`Walks` with other methods or attributes."""
    return type("Bad", (Walks,), changes)


STEPS = {
    "rewards: got shape (4, 2), want (4, 3)": lambda self, a: (self.place, np.zeros((4, 2)), *np.zeros((2, 4), bool)),
    "terminated: got 0.5, want 4 booleans": lambda self, a: (self.place, a, 0.5, np.zeros(4, bool)),
    "step: got 3 values, want only rewards (4, m), or (observations": lambda self, a: (a, a, a),
}


@pytest.mark.parametrize("message", STEPS)
def test_steps_that_return_something_else(message):
    model = FactoredPPO(fx.integrations.from_batched(bad(step=STEPS[message]), num_envs=4), **SETTINGS)
    with pytest.raises(ValueError, match=re.escape(f"environments 0 to 3 (Bad), step 1: {message}")):
        model.learn(32, progress_bar=False)


def test_arguments_that_do_not_fit():
    for arguments, message in (
        ((Walks(),), "simulator: got .* with a method step, .*; want a function from actions"),
        ((3,), "simulator: got 3; want a function from actions"),
        (
            (lambda: 3,),
            "a function without arguments that returns 3; want one that returns an object with a method step",
        ),
        ((squares,), "action_space: got None for squares, want the Gymnasium space of one case: pass"),
    ):
        with pytest.raises(TypeError, match=message):
            fx.integrations.from_batched(*arguments, num_envs=4)()
    for options, message in (
        ({"num_envs": 0}, "num_envs: got 0, want a whole number from 1"),
        ({"network": np.ones((2, 3)), "num_envs": 2}, r"network: got shape \(2, 3\), want 3 × 3"),
        ({"targets": ["x"], "num_envs": 2, "network": np.eye(3)}, "targets: got 1 name, want 3"),
    ):
        with pytest.raises(ValueError, match=message):
            fx.integrations.from_batched(squares, action_space=BOX, **options)()
    with pytest.raises(TypeError, match="action_space: got 'Box', want the Gymnasium space"):
        fx.integrations.from_batched(squares, num_envs=2, action_space="Box")


def test_it_is_a_vector_environment():
    """So that other tools can step it."""
    env = fx.integrations.from_batched(Walks, num_envs=3)()
    obs, _ = env.reset(seed=0)
    again, _ = env.reset(seed=[0, 1, 2])
    np.testing.assert_array_equal(obs, again)
    _, rewards, *_, info = env.step(env.action_space.sample())
    np.testing.assert_allclose(rewards, info["vector_reward"] @ Walks.weights)
    mask = np.array([False, True, False])
    after, _ = env.reset(seed=[9, 1, 9], options={"reset_mask": mask})
    np.testing.assert_array_equal(after[1], obs[1])
    assert (after[0] != obs[0]).any()
    env.reset()
    env.close()


def test_a_dictionary_may_come_with_it():
    class Masked(Walks):
        def step(self, actions):
            return *super().step(actions), {"factor_mask": np.tile([True, False, True], (self.n, 1))}

    model = FactoredPPO(fx.integrations.from_batched(Masked, num_envs=4), **SETTINGS)
    np.testing.assert_array_equal(rollout(model).factor_mask, np.broadcast_to([True, False, True], (8, 4, 3)))


class Parts(Walks):
    """`Walks` whose observation is a dict with a choice and a pair."""

    observation_space = gym.spaces.Dict(
        side=gym.spaces.Discrete(2),
        where=gym.spaces.Tuple([gym.spaces.Box(-9, 9, (4,), np.float32), gym.spaces.MultiBinary(3)]),
    )

    def parts(self, place):
        return {"side": (place[:, 0] > 0).astype(int), "where": (place, (place[:, :3] > 0).astype(np.int8))}

    def reset(self, seeds, cases):
        return self.parts(super().reset(seeds, cases))

    def step(self, actions):
        place, *others = super().step(actions)
        return self.parts(place), *others


def test_observations_may_have_parts():
    make = fx.integrations.from_batched(Parts, num_envs=4)
    env, plain = make(), fx.integrations.from_batched(Walks, num_envs=4)()
    pairs = [(env.reset(seed=0)[0], plain.reset(seed=0)[0])]
    action = np.full((4, 3), 0.5, np.float32)
    pairs += [(env.step(action)[0], plain.step(action)[0])]
    mask = {"reset_mask": np.array([False, True, False, True])}
    pairs += [tuple(each.reset(seed=[5, 6, 7, 8], options=dict(mask))[0] for each in (env, plain))]
    for parts, place in pairs:
        assert parts in env.observation_space
        np.testing.assert_array_equal(parts["where"][0], place)
        np.testing.assert_array_equal(parts["side"], place[:, 0] > 0)
        np.testing.assert_array_equal(parts["where"][1], place[:, :3] > 0)
    assert (pairs[0][1] != pairs[1][1]).all()  # earlier observations are not overwritten
    model = FactoredPPO(make, **SETTINGS)
    assert rollout(model).obs.shape == (8, 4, 1 + 4 + 3)
