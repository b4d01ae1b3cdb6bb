"""`wrap` on environments made for the purpose: every source of parts, every promise, every mistake."""

import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from integrations.environments import EYE, Agents, Plain

import factorax as fx
from factorax.ppo import FactoredPPO
from factorax.spec import Spec

PARTS = {
    "array": ({"vector": True}, None),
    "info": ({}, "info:a,b.c"),
    "info, an array": ({}, "info:b.both"),
    "function": ({}, lambda obs, action, reward, info: -(obs**2)),
}
every = pytest.mark.parametrize(("options", "reward"), PARTS.values(), ids=PARTS)


def steps(env, n, action=(0.5, -0.25)):
    return [env.step(np.float32(action)) for _ in range(n)]


@every
def test_the_scalar_is_the_weighted_sum_of_the_parts(options, reward):
    env = fx.wrap(Plain(**options), EYE, reward=reward, weights=[2.0, 3.0], check_sum=False)
    first, _ = env.reset(seed=1)
    obs = first
    for t, (seen, total, terminated, truncated, info) in enumerate(steps(env, 5)):
        obs = 0.5 * obs + np.float32([0.5, -0.25])
        np.testing.assert_allclose(info["vector_reward"], -(obs.astype(float) ** 2), rtol=1e-5)
        np.testing.assert_allclose(total, info["vector_reward"] @ [2.0, 3.0], rtol=1e-15)
        np.testing.assert_allclose(seen, obs, rtol=1e-6)
        assert isinstance(total, float)
        assert (terminated, truncated) == (False, t == 4)
        assert env.reward_space.contains(info["vector_reward"])
    assert env.unwrapped is env
    assert env.network is EYE


@every
def test_it_passes_gymnasiums_own_checks_and_ours(options, reward):
    check_env(fx.wrap(Plain(**options), EYE, reward=reward), skip_render_check=True)
    fx.check_problem(fx.wrap(lambda: Plain(**options), EYE, reward=reward), steps=12)


def test_what_packages_change_later_is_copied():
    env = fx.wrap(Plain(vector=True, mutates=True), EYE)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    action = np.float32([0.5, 0.5])
    obs, _, _, _, info = env.step(action)
    parts, seen = info["vector_reward"].copy(), obs.copy()
    env.step(action)
    np.testing.assert_array_equal(action, [0.5, 0.5])
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(obs, seen)
    np.testing.assert_array_equal(info["vector_reward"], parts)


def test_large_penalties_are_summed_in_64_bits():
    space = gym.spaces.MultiBinary(3)
    env = fx.wrap(
        Plain(action_space=space),
        fx.InfluenceNetwork.identity(3),
        reward=lambda *step: np.float32([1e8, 1.0, -1e8]),
        check_sum=False,
    )
    env.reset(seed=0)
    assert env.step(space.sample())[1] == 1.0


@pytest.mark.parametrize("mode", gym.vector.AutoresetMode)
@pytest.mark.parametrize("options", [{"ends": 3}, {"cut": 3}], ids=["ends", "cut"])
def test_stock_vectorisers_keep_parts_and_flags(mode, options):
    """Same numbers as one environment alone; the reset step of the next-step mode is a dummy, and says so."""
    make = fx.wrap(lambda: Plain(**options), EYE, reward="info:a,b.c", weights=[1.0, 1.0])
    envs = gym.vector.SyncVectorEnv([make, make], autoreset_mode=mode)
    alone = make()
    envs.reset(seed=4)
    alone.reset(seed=4)
    action = np.float32([0.5, -0.25])
    for t in range(1, 4):
        _, total, terminated, truncated, info = envs.step(np.stack([action, action]))
        _, want, *flags, one = alone.step(action)
        np.testing.assert_allclose(total[0], want, rtol=1e-12)
        assert [terminated[0], truncated[0]] == flags == [t == 3 and "ends" in options, t == 3 and "cut" in options]
        inside = info["final_info"] if t == 3 and mode == gym.vector.AutoresetMode.SAME_STEP else info
        np.testing.assert_array_equal(inside["vector_reward"][0], one["vector_reward"])


def test_seeds_reach_the_environment_and_are_checked_on_demand():
    make = fx.wrap(Plain, EYE, reward="info:a,b.c", check_seed=True)
    a, b, c = (make().reset(seed=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(a, b)
    assert (a != c).all()
    loose = np.random.default_rng(0)
    bad = {"observe": lambda obs: obs + np.float32(loose.normal())}
    with pytest.raises(
        ValueError,
        match=r"check_seed: two episodes .* differ in the first observation; want all random numbers only from",
    ):
        fx.wrap(Plain(**bad), EYE, reward="info:a,b.c", check_seed=True)
    noise = {"vector": True, "observe": lambda obs: np.zeros(2, np.float32)}
    unseeded = Plain(**noise)
    unseeded.reset = lambda **_: (unseeded.__dict__.update(time=0), (np.zeros(2, np.float32), {}))[1]
    with pytest.raises(ValueError, match="differ in step 1"):
        fx.wrap(unseeded, EYE, reward="info:b.both", check_seed=True)


SPACES = {
    "discrete": (gym.spaces.Discrete(3, start=2), lambda obs: np.int64(3), [0, 1, 0]),
    "dict": (
        gym.spaces.Dict({"x": gym.spaces.Box(-9, 9, (2,), np.float32), "y": gym.spaces.Discrete(2)}),
        lambda obs: {"x": np.float32([1, 2]), "y": 1},
        [1, 2, 0, 1],
    ),
    "tuple": (
        gym.spaces.Tuple([gym.spaces.MultiBinary(2), gym.spaces.MultiDiscrete([2, 2])]),
        lambda obs: (np.int8([1, 0]), np.array([0, 1])),
        [1, 0, 1, 0, 0, 1],
    ),
}


@pytest.mark.parametrize(("space", "observe", "flat"), SPACES.values(), ids=SPACES)
def test_observations_keep_their_structure_and_are_seen_as_vectors(space, observe, flat):
    make = fx.wrap(lambda: Plain(observation_space=space, observe=observe), EYE, reward="info:a,b.c", check_seed=True)
    obs, _ = make().reset(seed=0)
    assert make().observation_space == space
    assert space.contains(obs)
    observations = Spec.of(make).observations
    np.testing.assert_array_equal(observations.encoded(observations.row(obs), np), flat)


LEAVES = gym.spaces.Dict(
    {"arm": gym.spaces.Box(-1, 1, (2,), np.float32), "leg": gym.spaces.Dict({"left": gym.spaces.Discrete(3)})}
)


def factored(network, factors, space=LEAVES, **options):
    env = fx.wrap(Plain(action_space=space), network, reward="info:a,b.c", factors=factors, **options)
    return env.network


def test_factors_are_elements_leaves_or_the_minimum():
    three = fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]])
    assert factored(three, None) is three
    for given in (three, EYE):  # a row for each element, or for each leaf
        net = factored(given, "leaves")
        assert net.actions == ("arm", "leg.left")
        assert net.factorisation.groups == ((0, 1), (2,))
        np.testing.assert_array_equal(net.to_dense(), np.eye(2))
    net = factored(three, "minimum")
    assert net.factorisation.groups == ((0, 1), (2,))
    again = factored(net, None)
    assert again.factorisation.groups == ((0, 1), (2,))
    plain = factored(three, "leaves", space=gym.spaces.Box(-1, 1, (3,), np.float32))
    assert plain.factorisation.groups == ((0, 1, 2),)
    spec = Spec.of(lambda: fx.wrap(Plain(action_space=LEAVES), EYE, reward="info:a,b.c", factors="leaves"))
    np.testing.assert_array_equal(spec.factors, [0, 0, 1])


def test_names_are_brought_into_the_order_of_the_environment():
    net = fx.InfluenceNetwork.from_edges([("leg.left", "b.c"), ("arm", "a")])
    fitted = factored(net, "leaves")
    assert (fitted.actions, fitted.targets) == (("arm", "leg.left"), ("a", "b.c"))
    np.testing.assert_array_equal(fitted.to_dense(), np.eye(2))


def test_what_the_environment_says_of_itself_is_used():
    space = gym.spaces.Box(-np.inf, 0.0, (2,), np.float32)
    env = fx.wrap(Plain(vector=True, network=EYE, weights=np.array([1.0, 4.0]), reward_space=space))
    assert env.network is EYE
    np.testing.assert_array_equal(env.weights, [1, 4])
    np.testing.assert_array_equal(env.reward_space.high, [0, 0])
    twice = fx.wrap(env)
    twice.reset(seed=0)
    assert twice.network is EYE
    _, total, _, _, info = twice.step(np.zeros(2, np.float32))
    assert total == info["vector_reward"] @ [1, 4]


def test_a_scalar_is_one_target_with_a_warning():
    with pytest.warns(fx.structure.StructureWarning, match="reward: is one number, .* factoring has no effect"):
        env = fx.wrap(gym.make("CartPole-v1"))
    assert env.network.shape == (1, 1)
    env.reset(seed=0)
    assert env.step(0)[4]["vector_reward"] == [1.0]
    with pytest.warns(fx.structure.StructureWarning, match="network: got none, .* all 2 targets"):
        fx.wrap(Plain(), reward="info:a,b.c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.wrap(gym.make("CartPole-v1"), fx.InfluenceNetwork.complete(1, 1))


@pytest.mark.slow
def test_a_wrapped_factory_is_learnt_from():
    make = fx.wrap(lambda: Plain(cut=6), EYE, reward="info:a,b.c")
    small = {"n_envs": 2, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}
    with pytest.warns(fx.structure.StructureWarning, match="policy: all actors read the full observation"):
        ppo = FactoredPPO(make, **small).learn(24, progress_bar=False)
    assert np.isfinite(ppo.evaluate(2)["return"])
    assert ppo.spec.network is EYE
    Spec.of(lambda: gym.wrappers.TimeLimit(make(), 3))


MISTAKES = {
    "parts that do not sum": (
        {"reward": 5.0},
        {"reward": "info:a,b.c"},
        r"reward: the parts do not add up. In step 1 of the episode the reward of the environment is 5, but weights "
        r"@ parts",
    ),
    "a row a machine": (
        {"action_space": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32)},
        {"reward": "info:a,b.c"},
        r"want one row per component; if a row stands for 2 actions, pass np.repeat\(matrix, 2, axis=0\) and factors=",
    ),
    "targets' labels": (
        {},
        {"reward": "info:a,b.c", "network": fx.InfluenceNetwork([[1, 0], [0, 1]], targets=["a", "c"])},
        r"network: has targets 'c', which the environment lacks; it has 'a', 'b.c'. Use these names, or net.relabel",
    ),
    "a network that varies": (
        {},
        {"network": fx.NetworkSchedule(EYE, EYE, steps=1)},
        "network: got NetworkSchedule, want an InfluenceNetwork; or its matrix; pass networks that vary to FactoredPPO",
    ),
    "one number": (
        {},
        {},
        "reward: the environment returns one number, but the network has 2 columns; want the location",
    ),
    "unknown key": (
        {},
        {"reward": "info:a,b.d"},
        r"there is no 'd'; info\['b'\] has 'c', 'both'. Every step must have it",
    ),
    "a dictionary": ({}, {"reward": "info:b"}, "'b' is a dictionary with 'c', 'both'; add a dot"),
    "twice": ({}, {"reward": "info:a,a"}, "want distinct paths separated by commas"),
    "collapse": ({}, {"reward": "collapse"}, "want it only for PettingZoo agents with equal rewards"),
    "weights' length": ({}, {"reward": "info:a,b.c", "weights": [1.0]}, r"weights: got \[1.0\], want 2 finite numbers"),
    "text": ({}, {"reward": lambda *step: ["much", "little"]}, r"reward: got \['much', 'little'\], want real numbers"),
    "observations": (
        {"observation_space": gym.spaces.Sequence(gym.spaces.Discrete(2))},
        {"reward": "info:a,b.c"},
        "observation space: got Sequence.*, want a Box, Discrete, MultiDiscrete",
    ),
    "factored over others": (
        {},
        {
            "reward": "info:a,b.c",
            "network": fx.InfluenceNetwork([[1, 0], [1, 0], [0, 1]]).factor([["a1", "a2"], ["a3"]]),
        },
        "network: is factored over 3 actions, but the action space has 2 components",
    ),
}


@pytest.mark.parametrize(("options", "arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_wrong_arguments_are_named(options, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fx.wrap(Plain(**options), **{"network": EYE} | arguments)


def test_a_key_that_is_missing_in_some_step():
    env = fx.wrap(Plain(without=(3,)), EYE, reward="info:a,b.c")
    env.reset(seed=0)
    steps(env, 2)
    with pytest.raises(ValueError, match="there is no 'b'; info has 'a', 'list'") as caught:
        steps(env, 1)
    assert caught.value.__notes__ == ["in step 3 of the episode"]


def test_a_vector_that_changes_its_length():
    env = fx.wrap(Plain(), EYE, reward=lambda obs, action, reward, info: [reward / 2] * (2 if obs[0] < 9 else 3))
    env.reset(seed=0)
    steps(env, 1)
    env.env.obs[:] = 99
    with pytest.raises(ValueError, match="step 2 of the episode gave 3 parts, want 2"):
        steps(env, 1)


def test_objects_that_are_no_environment_are_refused():
    cases = {
        "env: got str, want a gymnasium.Env": "CartPole-v1",
        "env: got a Problem": fx.problems.contextual_bandit(2),
        "has the wrapper Autoreset, which hides the last observation": gym.wrappers.Autoreset(Plain()),
    }
    for message, env in cases.items():
        with pytest.raises(TypeError, match=message):
            fx.wrap(env, EYE)
    with pytest.raises(TypeError, match="env: got int"):
        fx.wrap(lambda: 3, EYE)()
    turns = Agents()
    turns.agent_selection = "agent_0"
    with pytest.raises(
        TypeError, match=r"turn-based \(AEC\) environment, want a parallel one; convert it with .*aec_to_parallel"
    ):
        fx.wrap(turns, EYE)


@pytest.mark.parametrize(
    ("shape", "reward", "want"),
    [
        ((3, 2), "info:a,b.c", "want 2 × 2: the action space has 2 components; want one row per component"),
        ((2, 3), "info:a,b.c", r"want 2 × 2: the reward has 2 parts \('a', 'b.c'\); want one column per part"),
        ((2, 1), lambda obs, action, reward, info: -(obs**2), "want 2 × 2: the reward has 2 parts; want one column"),
        ((5, 3), None, "want 2 × 2: the reward has 2 parts; want one column per part"),
    ],
    ids=["rows", "columns", "columns of a function", "both, of a vector reward"],
)
def test_a_network_of_the_wrong_size_fails_with_the_first_environment(shape, reward, want):
    opened = []

    def make():
        opened.append(Plain(vector=reward is None))
        opened[-1].close = lambda: opened.append("closed")
        return opened[-1]

    with pytest.raises(ValueError, match=rf"network: got shape \({shape[0]}, {shape[1]}\), {want}"):
        fx.wrap(make, np.ones(shape), reward=reward)()
    assert opened[1:] == ["closed"]


def test_a_factory_creates_nothing_before_it_is_called():
    made = []
    make = fx.wrap(lambda: made.append(Plain()) or made[-1], [[1, 0], [0, 1]], reward="info:a,b.c")
    assert not made
    assert make().env is made[0]
    assert make().env is made[1]
    assert make().network == fx.InfluenceNetwork([[1, 0], [0, 1]], targets=["a", "b.c"]).relabel(
        targets=["psi1", "psi2"]
    )
    assert len(made) == 3
    again = pickle.loads(pickle.dumps(fx.wrap(Plain, EYE, reward="info:a,b.c")))  # a worker makes its own
    assert again().network == EYE


def test_a_missing_network_is_warned_of_once_wherever_the_first_environment_is_measured():
    make = fx.wrap(Plain, reward="info:a,b.c")
    make.measure_in_worker(60.0)
    assert make.measured.targets == 2
    with pytest.warns(fx.structure.StructureWarning, match="network: got none, .* all 2 targets"):
        make()
    make()
