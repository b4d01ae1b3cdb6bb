"""Action spaces as flat components and back: sampled actions lie in the space, in the order it has them."""

import functools
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from factorax.spaces import ActionSpace

NESTED = spaces.Dict(
    {
        "valve": spaces.Tuple([spaces.Box(-2.0, 3.0, (2,)), spaces.Discrete(3, start=5)]),
        "lamp": spaces.MultiBinary(2),
        "gear": spaces.Dict({"front": spaces.Discrete(2), "back": spaces.MultiDiscrete([2, 4], start=[1, -1])}),
    }
)
SPACES = {
    "unbounded": spaces.Box(-np.inf, np.inf, (3,)),
    "bounded": spaces.Box(np.float32([-1.0, 0.0, 2.0]), np.float32([1.0, 0.1, 5.0])),
    "double": spaces.Box(-0.1, 0.1, (2,), np.float64),
    "half open": spaces.Box(np.float32([0.0, -np.inf]), np.float32([np.inf, 1.0])),
    "a matrix": spaces.Box(-1.0, 1.0, (2, 2)),
    "discrete": spaces.Discrete(4, start=-2),
    "choices": spaces.MultiDiscrete([2, 5, 3], start=[0, 10, -1]),
    "short choices": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    "a matrix of choices": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "binary": spaces.MultiBinary(3),
    "a matrix of bits": spaces.MultiBinary([2, 3]),
    "nested": NESTED,
    "a tuple in a tuple": spaces.Tuple(
        [
            spaces.Discrete(2),
            spaces.Tuple([spaces.Box(np.float32([-1, -np.inf]), np.float32([1, 2])), spaces.MultiBinary(2)]),
        ]
    ),
}
every = pytest.mark.parametrize("name", SPACES)
how = pytest.mark.parametrize("bounded", ["scale", "clip", "tanh", "beta"])


def same(a, b):
    if isinstance(a, dict | tuple):
        keys = a if isinstance(a, dict) else range(len(a))
        return type(a) is type(b) and len(a) == len(b) and all(same(a[k], b[k]) for k in keys)
    return type(a) is type(b) and np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype


def draw(actions, seed=0, batch=(), scale=2.0):
    """Random parameters and spread."""
    one, two = jax.random.split(jax.random.key(seed))
    shape = (*batch, len(actions), actions.width)
    spread = actions.spread(0.0)._replace(log_std=0.5 * jax.random.normal(two, (len(actions),)))
    return scale * jax.random.normal(one, shape), spread


@functools.cache
def sampled(name, bounded):
    """The components of a space, and samples and modes of random parameters, compiled once for all tests."""
    actions = ActionSpace.of(SPACES[name], bounded)

    @jax.jit
    def drawn():
        parameters, spread = draw(actions, batch=(50,))
        return actions.sample(jax.random.key(1), parameters, spread), actions.mode(parameters)

    return actions, drawn()


@pytest.mark.slow
@every
@how
def test_sampled_actions_lie_in_the_space(name, bounded):
    actions, drawn = sampled(name, bounded)
    assert drawn[0].shape == drawn[1].shape == (50, len(actions))
    for row in np.concatenate(drawn):
        assert SPACES[name].contains(actions.to_environment(row)), actions.to_environment(row)


@pytest.mark.slow
@every
@how
def test_numpy_and_jax_make_the_same_action(name, bounded):
    actions, (samples, _) = sampled(name, bounded)
    flat = np.asarray(samples)[0]
    by_numpy = actions.to_environment(flat)
    assert SPACES[name].contains(by_numpy)
    by_jax = jax.jit(lambda a: actions.to_environment(a, jnp))(flat)
    leaves = [jax.tree.leaves(dict(tree) if isinstance(tree, dict) else tree) for tree in (by_numpy, by_jax)]
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_components_keep_the_order_of_the_space():
    actions = ActionSpace.of(NESTED, "tanh")
    flat = {"gear": {"back": [1, 3], "front": [0]}, "lamp": [1, 0], "valve": ([0.0, -20.0], [2])}
    row = np.concatenate([np.ravel(x) for name in NESTED.spaces for x in leaves(NESTED[name], flat[name])])
    element = actions.to_environment(row.astype(np.float32))
    np.testing.assert_array_equal(element["gear"]["back"], [2, 2])
    assert element["gear"]["front"] == 0
    np.testing.assert_array_equal(element["lamp"], [1, 0])
    np.testing.assert_allclose(element["valve"][0], [0.5, -2.0])
    assert element["valve"][1] == 7
    assert sorted(actions.kinds) == ["bernoulli"] * 2 + ["categorical"] * 4 + ["squashed"] * 2


def leaves(space, tree):
    if isinstance(space, spaces.Dict):
        return [x for name in space.spaces for x in leaves(space[name], tree[name])]
    if isinstance(space, spaces.Tuple):
        return [x for part, branch in zip(space.spaces, tree, strict=True) for x in leaves(part, branch)]
    return [tree]


def test_log_prob_is_that_of_the_unclipped_action():
    """The density is that of the Gaussian drawn, not of what the bounds leave of it."""
    actions = ActionSpace.of(spaces.Box(-1.0, 1.0, (1,)))
    np.testing.assert_array_equal(actions.to_environment(np.float32([7.0])), [1.0])
    got = jax.jit(actions.log_prob)(np.zeros((1, 1)), actions.spread(0.0), np.array([7.0]))
    np.testing.assert_allclose(got, stats.norm.logpdf(7.0), rtol=1e-6)


def test_unbounded_components_are_gaussian_whatever_bounded_says():
    mixed = spaces.Box(np.float32([0.0, -np.inf]), np.float32([1.0, 1.0]))
    assert ActionSpace.of(mixed, "tanh").kinds == ("squashed", "gaussian")
    assert ActionSpace.of(mixed, "beta").kinds == ("beta", "gaussian")
    assert ActionSpace.of(mixed, "clip").kinds == ("gaussian", "gaussian")
    assert ActionSpace.of(mixed).kinds == ("scaled", "gaussian")
    with pytest.raises(ValueError, match=r"^distribution: got 'wrap', want .*'clip', .*'tanh'"):
        ActionSpace.of(mixed, "wrap")


def test_numbers_of_choices_and_parameters_per_component():
    actions = ActionSpace.of(NESTED, "beta")
    by_part = {"valve": [0, 0, 3], "lamp": [2, 2], "gear": [2, 2, 4]}
    assert sorted(actions.choices) == sorted(n for part in by_part.values() for n in part)
    np.testing.assert_array_equal(actions.discrete, actions.choices > 0)
    assert actions.width == 4
    assert ActionSpace.of(spaces.Box(-1.0, 1.0, (2,)), "beta").width == 2
    assert ActionSpace.of(spaces.MultiBinary(2)).width == 1


@pytest.mark.slow
@every
@how
def test_pickled_action_space_is_equal(name, bounded):
    """By plain pickling, also after what it caches has been used, and without what is cached."""
    actions, (samples, _) = sampled(name, bounded)
    flat = np.asarray(samples)[0]
    element = actions.to_environment(flat)
    received = pickle.loads(pickle.dumps(actions))
    assert set(received.__dict__) == {"space", "kinds", "choices", "low", "high", "blocks", "settings"}
    assert same(element, received.to_environment(flat))


def test_importing_spaces_and_distributions_does_not_import_jax():
    code = "import sys, factorax.spaces, factorax.distributions; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            spaces.Text(5),
            r"^action space: got Text.*want Box, Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict",
        ),
        (spaces.Tuple([spaces.Discrete(2), spaces.Text(5)]), r"^action space\[1\]: got Text"),
        (spaces.Dict({"x": spaces.Dict({"y": spaces.Text(3)})}), r"^action space\['x'\]\['y'\]: got Text"),
        (spaces.Box(0, 255, (2,), np.uint8), r"^action space: got Box.*want floats; for integers use MultiDiscrete"),
    ],
)
def test_an_unsupported_space_is_named_by_its_part(space, message):
    with pytest.raises(TypeError, match=message):
        ActionSpace.of(space)


@how
@every
def test_batch_of_actions_equals_single_actions(name, bounded):
    space = SPACES[name]
    flat = ActionSpace.of(space, bounded)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, len(flat))).astype(np.float32) * 2
    for k in np.flatnonzero(flat.discrete):
        rows[:, k] = rng.integers(0, flat.choices[k], 5)
    before = rows.copy()
    elements = list(flat.to_environments(rows))
    assert len(elements) == 5
    for row, element in zip(rows, elements, strict=True):
        assert space.contains(element)
        assert same(element, flat.to_environment(row))
    if isinstance(space, spaces.Box):
        elements[0][:] = 99  # an environment may do so
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.MultiDiscrete([2, 2, 2], start=[5, 6, 7])])
def test_writing_into_an_action_leaves_the_batch_unchanged(space, dtype):
    rows = np.array([[0, 1, 0], [1, 1, 0]], dtype)
    before = rows.copy()
    for element in ActionSpace.of(space).to_environments(rows):
        assert space.contains(element)
        element[...] = 1
    np.testing.assert_array_equal(rows, before)


def test_bounds_wider_than_1e9_count_as_none():
    """A width above 1e9 says what a float can hold: there is nothing to scale to."""
    for box in (
        spaces.Box(-3.4e38, 3.4e38, (2,)),
        spaces.Box(-1e308, 1e308, (2,), np.float64),
        spaces.Box(0.0, 2e9, (2,)),
        spaces.Box(np.float32([0, -np.inf]), np.float32([np.inf, 5])),
    ):
        for bounded in ("scale", "tanh", "beta"):
            actions = ActionSpace.of(box, bounded)
            assert actions.kinds == ("gaussian", "gaussian")
            np.testing.assert_array_equal(actions.unscaled, [0, 1])
    for bounded in ("scale", "clip"):
        wide = spaces.Tuple([spaces.Discrete(2), spaces.Box(np.float32([0, 0]), np.float32([1e9, np.inf]))])
        np.testing.assert_array_equal(ActionSpace.of(wide, bounded).unscaled, [2])


@pytest.mark.parametrize(
    ("space", "bounded", "text"),
    [
        (spaces.Box(0.0, 365.0, (4,)), "scale", "4 × Gaussian, scaled to the bounds [0, 365]"),
        (spaces.Box(0.0, 0.1, (2, 2)), "beta", "4 × Beta, scaled to the bounds [0, 0.1]"),
        (spaces.Box(0.0, np.inf, (2,)), "scale", "2 × Gaussian in raw units, clipped to the bounds [0, inf]"),
        (
            spaces.Tuple([spaces.Box(0.0, 1.0, (2,)), spaces.MultiDiscrete([3, 3]), spaces.Box(0.0, 9.0, (1,))]),
            "scale",
            "2 × Gaussian, scaled to the bounds [0, 1]; 2 × categorical with 3 choices; "
            "1 × Gaussian, scaled to the bounds [0, 9]",
        ),
    ],
)
def test_actions_are_described_in_one_line(space, bounded, text):
    assert ActionSpace.of(space, bounded).describe_actions() == text
