"""Parallel environments whose agents die: who acted, whose rewards are over, what is counted. No PettingZoo needed."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from integrations.environments import Agents

import factorax as fx
from factorax.ppo import FactoredPPO
from factorax.spec import Spec

EYE = fx.InfluenceNetwork.identity(3)


def play(env, seed=0):
    env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = []
    while not seen or not (seen[-1][2] or seen[-1][3]):
        seen.append(env.step(env.action_space.sample()))
    return seen


def rows(seen, name):
    return np.array([info[name] for *_, info in seen])


def test_agents_are_factors_and_their_rewards_targets():
    env = fx.wrap(Agents(), EYE)
    seen = play(env)
    np.testing.assert_array_equal(
        rows(seen, "vector_reward"), [[11, 21, 31], [12, 22, 32], [0, 23, 33], [0, 24, 34], [0, 0, 35], [0, 0, 36]]
    )
    acted = [[1, 1, 1], [1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(rows(seen, "factor_mask"), acted)
    over = [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0]]  # the last is cut short, and has a future
    np.testing.assert_array_equal(rows(seen, "target_terminated"), over)
    assert [reward for _, reward, *_ in seen] == rows(seen, "vector_reward").sum(axis=1).tolist()
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in seen] == [(False, False)] * 5 + [
        (False, True)
    ]
    assert [sorted(given) for given in env.env.given[:5:2]] == [
        ["agent_0", "agent_1", "agent_2"],
        ["agent_1", "agent_2"],
        ["agent_2"],
    ]
    assert env.network is EYE


@pytest.mark.parametrize(
    ("options", "flags", "over"),
    [
        ({"lives": (2, 3, 3)}, (True, False), [1, 1, 1]),
        ({"lives": (2, 3, 3), "truncates": (0,)}, (True, False), [1, 1, 1]),
        ({"lives": (3, 3, 3), "truncates": (1,)}, (False, True), [1, 0, 1]),
        ({"lives": (9, 9, 9), "cut": 3}, (False, True), [0, 0, 0]),
    ],
    ids=["all die", "one cut before the rest", "one cut as the rest die", "all cut"],
)
def test_ends(options, flags, over):
    _, _, terminated, truncated, info = play(fx.wrap(Agents(**options), EYE))[-1]
    assert (terminated, truncated) == flags
    np.testing.assert_array_equal(info["target_terminated"], over)


def test_observations_are_padded_and_local():
    env = fx.wrap(Agents(), EYE)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (9,)
    local = env.local(np.stack([obs, obs]))
    assert local.shape == (2, 3, 3)
    np.testing.assert_array_equal(local[0] != 0, [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    last = play(env)[-1][0]
    np.testing.assert_array_equal(env.local(last) != 0, [[0, 0, 0], [0, 0, 0], [1, 1, 1]])  # noughts for the dead
    assert env.observation_space.contains(last)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*maximum and minimum values are equal")  # padding is always nought
def test_it_passes_the_checks_and_is_learnt_from():
    check_env(fx.wrap(Agents(), EYE), skip_render_check=True)
    make = fx.wrap(Agents, EYE, weights=[1.0, 0.5, 0.1])
    fx.check_problem(make, steps=20)
    settings = {"n_envs": 2, "n_steps": 12, "batch_size": 24, "n_epochs": 1, "hidden": (8,), "policy": "shared"}
    ppo = FactoredPPO(make, **settings).learn(24, progress_bar=False)
    assert ppo.learner.rule.local(np.zeros(9, np.float32)).shape == (3, 3)
    want = np.array([23, 90, 201.0])
    np.testing.assert_allclose(ppo.evaluate(2)["targets"], want)
    np.testing.assert_allclose(ppo.evaluate(2)["return"], want @ [1.0, 0.5, 0.1])


def test_shared_rewards_are_counted_once():
    with pytest.warns(fx.structure.StructureWarning, match="one target for all actions"):
        env = fx.wrap(Agents(equal=True), reward="collapse")
    seen = play(env)
    assert [reward for _, reward, *_ in seen] == [7.0] * 6
    np.testing.assert_array_equal(rows(seen, "target_terminated"), np.zeros((6, 1)))
    assert env.network.shape == (3, 1)
    env = fx.wrap(Agents(), fx.InfluenceNetwork.complete(3, 1), reward="collapse")
    with pytest.raises(
        ValueError, match='reward: got "collapse", but the agents have different rewards, from 11 to 31'
    ):
        play(env)


class Arms(Agents):
    """Of two elements each."""

    def action_space(self, agent):
        return self.arms.setdefault(agent, gym.spaces.Box(-1, 1, (2,), np.float32))

    arms: dict = {}  # noqa: RUF012


def test_agents_with_several_elements():
    env = fx.wrap(Arms(), EYE)
    assert env.network.factorisation.groups == ((0, 1), (2, 3), (4, 5))
    assert env.network.actions == ("agent_0", "agent_1", "agent_2")
    assert env.local(np.zeros(9)).shape == (3, 3)
    elements = fx.wrap(Arms(), fx.InfluenceNetwork(np.repeat(np.eye(3), 2, axis=0)), factors="elements")
    seen = play(elements)
    np.testing.assert_array_equal(seen[2][4]["factor_mask"], [0, 0, 1, 1, 1, 1])
    assert elements.local(np.zeros((4, 9))).shape == (4, 6, 3)
    merged = fx.wrap(Arms(), fx.InfluenceNetwork([[1, 1, 0], [1, 1, 0], [0, 0, 1]]), factors="minimum")
    np.testing.assert_array_equal(play(merged)[2][4]["factor_mask"], [1, 1])  # the second of the pair is alive
    assert merged.local is None
    assert Spec.of(lambda: merged).n_factors == 2


def test_mistakes():
    with pytest.raises(ValueError, match="network: has actions 'left', 'mid', 'right', which the environment lacks"):
        fx.wrap(Agents(), EYE.relabel(actions=["left", "mid", "right"]))
    with pytest.raises(
        ValueError, match=r"network: got shape \(3, 2\), want 3 × 3: the reward has 3 parts \('agent_0'"
    ):
        fx.wrap(Agents(), fx.InfluenceNetwork.complete(3, 2))
    with pytest.raises(ValueError, match="for a PettingZoo environment, want None"):
        fx.wrap(Agents(), EYE, reward="info:a")
    env = fx.wrap(Agents(), EYE)
    env.env.reset = lambda **_: (env.env.__dict__.update(agents=["stranger"]), ({}, {}))[1]
    with pytest.raises(ValueError, match="agents: 'stranger' is not in possible_agents"):
        env.reset()
    reordered = fx.InfluenceNetwork.from_edges([("agent_2", "agent_0"), ("agent_0", "agent_1"), ("agent_1", "agent_2")])
    np.testing.assert_array_equal(fx.wrap(Agents(), reordered).network.to_dense(), np.eye(3)[[1, 2, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda *r: r[:4], r"step: got 4 values, want five"),
        (lambda obs, rewards, ended, cut, infos: (obs, rewards, ended, cut, None), "info: got None, want a dict"),
        (lambda obs, rewards, ended, cut, infos: (obs, 1.0, ended, cut, infos), "reward: got float, want a dict with"),
        (lambda obs, *rest: (None, *rest), "observation: got NoneType, want a dict with one entry per agent"),
        (
            lambda obs, rewards, ended, cut, infos: (obs, rewards, dict.fromkeys(ended, "False"), cut, infos),
            "terminated: got 'False', want True or False",
        ),
        (
            lambda obs, rewards, ended, cut, infos: (obs, dict.fromkeys(rewards, 1j), ended, cut, infos),
            r"reward: got \[1j, 1j, 1j\], want real numbers",
        ),
        (
            lambda obs, rewards, ended, cut, infos: (dict.fromkeys(obs, "x"), rewards, ended, cut, infos),
            "observation: got 'x', want real numbers",
        ),
    ],
)
def test_agents_that_misbehave(change, message):
    class Misbehaving(Agents):
        def step(self, actions):
            return change(*super().step(actions))

    env = fx.wrap(Misbehaving(), EYE)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(env.action_space.sample())
