"""Packages that nobody here wrote: stepped to the end several times, with sums, masks, flags and seeds."""

import warnings

import numpy as np
import pytest

import factorax as fx
from factorax.spec import Spec

pytestmark = [
    pytest.mark.marl,
    pytest.mark.filterwarnings("ignore"),  # of their own they have many
]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mo_gymnasium = pytest.importorskip("mo_gymnasium", reason="MO-Gymnasium is an extra: factorax[conformance]")
    pettingzoo = pytest.importorskip("pettingzoo", reason="PettingZoo is an extra: factorax[conformance]")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo keeps a log in the current folder


def needs(*packages):
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is an extra: factorax[conformance]")


def play(env, seed, steps=10_000):
    """An episode of random actions: everything that every step gave."""
    obs, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = [(obs, 0.0, False, False, {"vector_reward": np.zeros(env.reward_dim)})]
    while not (seen[-1][2] or seen[-1][3]) and len(seen) <= steps:
        seen.append(env.step(env.action_space.sample()))
        obs, reward, terminated, truncated, info = seen[-1]
        assert env.observation_space.contains(obs)
        assert env.reward_space.contains(info["vector_reward"])
        assert reward == env.weights @ info["vector_reward"]
        assert type(terminated) is type(truncated) is bool
    return seen


def same(a, b):
    return len(a) == len(b) and all(
        np.array_equal(x[0], y[0]) and np.array_equal(x[4]["vector_reward"], y[4]["vector_reward"])
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("name", ["mo-halfcheetah-v5", "mo-hopper-v5", "mo-walker2d-v5"])
def test_mo_gymnasium_mujoco(name):
    needs("mujoco", "imageio")

    def make():
        return mo_gymnasium.make(name, max_episode_steps=60)

    bare = make()
    n, m = bare.action_space.shape[0], bare.unwrapped.reward_dim
    factory = fx.wrap(make, fx.InfluenceNetwork.complete(n, m), weights=np.arange(1.0, m + 1), check_seed=True)
    env = factory()
    episodes = [play(env, seed) for seed in (0, 0, 1)]
    assert same(episodes[0], episodes[1])
    assert not same(episodes[0], episodes[2])
    bare.reset(seed=1)
    bare.action_space.seed(1)
    for _, _, terminated, truncated, info in episodes[2][1:]:
        _, reward, *flags, _ = bare.step(bare.action_space.sample())
        np.testing.assert_array_equal(info["vector_reward"], np.asarray(reward, np.float64))
        assert [terminated, truncated] == flags
    assert episodes[2][-1][3] == (len(episodes[2]) == 61)
    fx.check_problem(factory, steps=30)
    assert Spec.of(factory).n_targets == m


def parallel(name, **options):
    if name.startswith("mpe/"):
        import mpe2.all_modules as modules  # pyright: ignore[reportMissingImports]

        return modules.mpe_environments[name].parallel_env(**options)
    return pettingzoo.make("parallel", name, **options)


AGENTS = {
    "mpe/simple_spread_v3": ({"N": 3}, "mpe2"),
    "mpe/simple_adversary_v3": ({}, "mpe2"),
    "sisl/multiwalker-v9": ({"max_cycles": 150}, "Box2D"),
    "butterfly/knights_archers_zombies-v11": ({"max_cycles": 250}, "pymunk"),
}


@pytest.mark.parametrize(("name", "options", "package"), [(name, *rest) for name, rest in AGENTS.items()], ids=AGENTS)
def test_pettingzoo(name, options, package):
    needs(package)

    def make():
        return parallel(name, **options)

    agents = make().possible_agents
    n = len(agents)
    net = fx.InfluenceNetwork.complete(n, n).relabel(agents, agents)
    factory = fx.wrap(make, net)
    env = factory()
    episodes = [play(env, seed) for seed in (0, 1, 2)]
    assert same(play(factory(), 0), episodes[0])
    for seen in episodes:
        assert seen[-1][2] != seen[-1][3]
        acted = np.array([info["factor_mask"] for *_, info in seen[1:]])
        over = np.array([info["target_terminated"] for *_, info in seen[1:]])
        assert acted[0].all()
        assert (acted[1:] <= acted[:-1]).all()  # nobody comes back
        np.testing.assert_array_equal(acted[1:], ~over[:-1])  # who is over does not act again
        assert not over[-1].all() if seen[-1][3] else over[-1].all()
        parts = np.array([info["vector_reward"] for *_, info in seen[1:]])
        assert (parts[1:][~acted[1:]] == 0).all()
        assert env.local(seen[-1][0]).shape[0] == n
    fx.check_problem(factory, steps=40)
    assert Spec.of(factory).n_factors == n


def test_somebody_dies_among_the_knights():
    """The test above means something only if somebody does, while others go on."""
    needs("pymunk")
    make = fx.wrap(lambda: parallel("butterfly/knights_archers_zombies-v11"), fx.InfluenceNetwork.identity(4))
    env = make()
    deaths = 0
    for seed in range(4):
        seen = play(env, seed)
        deaths += any(info["target_terminated"].any() and not info["target_terminated"].all() for *_, info in seen[1:])
    assert deaths


def test_an_environment_that_a_seed_does_not_reset():
    """The knights' second episode depends on their first, whatever the seed."""
    needs("pymunk")
    with pytest.raises(ValueError, match=r"check_seed: two episodes .* differ in step"):
        fx.wrap(parallel("butterfly/knights_archers_zombies-v11"), fx.InfluenceNetwork.identity(4), check_seed=True)


def test_rewards_that_all_share():
    needs("mpe2")
    net = fx.InfluenceNetwork.complete(3, 1)
    env = fx.wrap(parallel("mpe/simple_spread_v3", local_ratio=0.0), net, reward="collapse")
    rewards = [reward for _, reward, *_ in play(env, 0)[1:]]
    bare = parallel("mpe/simple_spread_v3", local_ratio=0.0)
    bare.reset(seed=0)
    env.action_space.seed(0)
    for reward in rewards:
        given = bare.step(env.action_space.sample())[1]
        np.testing.assert_allclose(reward, given["agent_0"], rtol=1e-6)
