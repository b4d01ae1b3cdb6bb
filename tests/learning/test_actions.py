"""Action spaces: what is drawn lies in the space, and the distributions are those of the closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy import integrate, stats

from factorax.learning import ActionSpace

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
}
every = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def draw(actions, seed=0, batch=(), scale=2.0):
    """Random parameters and spread."""
    one, two = jax.random.split(jax.random.key(seed))
    shape = (*batch, len(actions), actions.width)
    spread = actions.spread(0.0)._replace(log_std=0.5 * jax.random.normal(two, (len(actions),)))
    return scale * jax.random.normal(one, shape), spread


@every
@pytest.mark.parametrize("squash", [False, True])
def test_what_is_drawn_lies_in_the_space(space, squash):
    actions = ActionSpace.of(space, squash=squash)
    parameters, spread = draw(actions, batch=(50,))
    drawn = jax.jit(lambda p, s: (actions.sample(jax.random.key(1), p, s), actions.mode(p)))(parameters, spread)
    assert drawn[0].shape == drawn[1].shape == (50, len(actions))
    for row in np.concatenate(drawn):
        assert space.contains(actions.to_environment(row)), actions.to_environment(row)


@every
def test_jax_gets_the_same_elements(space):
    actions = ActionSpace.of(space, squash=True)
    flat = actions.sample(jax.random.key(1), *draw(actions))
    here, there = actions.to_environment(np.asarray(flat)), jax.jit(lambda a: actions.to_environment(a, jnp))(flat)
    leaves = [jax.tree.leaves(dict(tree) if isinstance(tree, dict) else tree) for tree in (here, there)]
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_components_are_in_the_order_of_the_space():
    actions = ActionSpace.of(NESTED, squash=True)
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


def test_clipping_is_for_the_environment_alone():
    """The density is that of the Gaussian drawn, not of what the bounds leave of it."""
    actions = ActionSpace.of(spaces.Box(-1.0, 1.0, (1,)))
    np.testing.assert_array_equal(actions.to_environment(np.float32([7.0])), [1.0])
    got = actions.log_prob(jnp.zeros((1, 1)), actions.spread(0.0), jnp.array([7.0]))
    np.testing.assert_allclose(got, stats.norm.logpdf(7.0), rtol=1e-6)


def test_gaussians():
    actions = ActionSpace.of(spaces.Box(-np.inf, np.inf, (3,)))
    (mean, spread), (other, other_spread) = draw(actions), draw(actions, seed=1)
    a = jnp.array([0.3, -1.0, 2.0])
    m, s = np.asarray(mean[:, 0], float), np.exp(np.asarray(spread.log_std, float))
    np.testing.assert_allclose(actions.log_prob(mean, spread, a), stats.norm.logpdf(a, m, s), rtol=1e-4)
    np.testing.assert_allclose(actions.entropy(mean, spread), stats.norm.entropy(m, s), rtol=1e-5)
    np.testing.assert_array_equal(actions.mode(mean), mean[:, 0])
    n, r = np.asarray(other[:, 0], float), np.exp(np.asarray(other_spread.log_std, float))
    want = np.log(r / s) + (s**2 + (m - n) ** 2) / (2 * r**2) - 0.5
    np.testing.assert_allclose(actions.kl((mean, spread), (other, other_spread)), want, rtol=1e-4)


def choices(actions, parameters):
    """The probabilities of every component, from their definition."""
    for i, n in enumerate(actions.choices):
        weights = np.exp(np.asarray(parameters[i, :n], float))
        yield weights / weights.sum()


@pytest.mark.parametrize("name", ["discrete", "choices", "a matrix of choices"])
def test_categoricals(name):
    actions = ActionSpace.of(SPACES[name])
    (old, spread), (new, _) = draw(actions), draw(actions, seed=1)
    pairs = list(zip(choices(actions, old), choices(actions, new), strict=True))
    everything = jnp.stack(jnp.meshgrid(*[jnp.arange(n) for n in actions.choices], indexing="ij"), -1)
    everything = everything.reshape(-1, len(actions)).astype(jnp.float32)
    log_prob = np.asarray(actions.log_prob(jnp.broadcast_to(old, (len(everything), *old.shape)), spread, everything))
    np.testing.assert_allclose(np.exp(log_prob.sum(axis=1)).sum(), 1, rtol=1e-5)
    for i, (p, _) in enumerate(pairs):
        np.testing.assert_allclose(log_prob[:, i], np.log(p)[np.asarray(everything[:, i], int)], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actions.entropy(old, spread), [stats.entropy(p) for p, _ in pairs], rtol=1e-4)
    got = actions.kl((old, spread), (new, spread))
    np.testing.assert_allclose(got, [stats.entropy(p, q) for p, q in pairs], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(actions.mode(old), [p.argmax() for p, _ in pairs])


def test_a_choice_that_is_not_there_is_never_drawn():
    actions = ActionSpace.of(spaces.MultiDiscrete([2, 5]))
    tempting = jnp.zeros((2000, 2, 5)).at[:, 0, 2:].set(1e6)
    drawn = actions.sample(jax.random.key(0), tempting, actions.spread(0.0))
    assert set(np.unique(drawn[:, 0])) == {0, 1}
    assert set(np.unique(drawn[:, 1])) == {0, 1, 2, 3, 4}
    gradient = jax.grad(lambda x: actions.log_prob(x, actions.spread(0.0), jnp.array([1.0, 4.0])).sum())(tempting[0])
    np.testing.assert_allclose(gradient, [[-0.5, 0.5, 0, 0, 0], [-0.2, -0.2, -0.2, -0.2, 0.8]], atol=1e-6)


def test_bernoullis():
    actions = ActionSpace.of(spaces.MultiBinary(3))
    (old, spread), (new, _) = draw(actions), draw(actions, seed=1)
    p, q = (1 / (1 + np.exp(-np.asarray(x[:, 0], float))) for x in (old, new))
    for a in ([0, 1, 0], [1, 0, 1]):
        got = actions.log_prob(old, spread, jnp.array(a, jnp.float32))
        np.testing.assert_allclose(got, stats.bernoulli.logpmf(a, p), rtol=1e-4)
    np.testing.assert_allclose(actions.entropy(old, spread), stats.bernoulli.entropy(p), rtol=1e-4)
    want = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    np.testing.assert_allclose(actions.kl((old, spread), (new, spread)), want, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(actions.mode(old), p > 0.5)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (0.8, -0.7), (-1.5, 0.3)])
def test_the_squashed_density_integrates_to_one(mean, log_std):
    """Over the squashed action u = tanh(a) in (−1, 1), where a is what the learner keeps."""
    actions = ActionSpace.of(spaces.Box(-1.0, 1.0, (1,)), squash=True)
    u = np.tanh(np.linspace(-9, 9, 20001))
    a = jnp.asarray(np.linspace(-9, 9, 20001), jnp.float32)[:, None]
    parameters = jnp.full((len(a), 1, 1), mean)
    density = np.exp(np.asarray(actions.log_prob(parameters, actions.spread(log_std), a)[:, 0], float))
    np.testing.assert_allclose(integrate.trapezoid(density, u), 1, atol=1e-3)
    inside = np.abs(u) < 0.99
    want = stats.norm.pdf(np.arctanh(u[inside]), mean, np.exp(log_std)) / (1 - u[inside] ** 2)
    np.testing.assert_allclose(density[inside], want, rtol=1e-3, atol=1e-6)


def test_a_squashed_action_far_out_has_a_finite_density():
    actions = ActionSpace.of(spaces.Box(-1.0, 1.0, (1,)), squash=True)
    got = actions.log_prob(jnp.zeros((1, 1)), actions.spread(0.0), jnp.array([50.0]))
    np.testing.assert_allclose(got, stats.norm.logpdf(50.0) - 2 * (np.log(2) - 50), rtol=1e-5)


def test_only_bounded_boxes_are_squashed():
    mixed = spaces.Box(np.float32([0.0, -np.inf]), np.float32([1.0, 1.0]))
    assert ActionSpace.of(mixed, squash=True).kinds == ("squashed", "gaussian")
    assert ActionSpace.of(mixed).kinds == ("gaussian", "gaussian")


def test_samples_have_the_moments_of_their_distribution():
    """Means of 20,000 draws, within 4.5 standard errors; six components."""
    actions = ActionSpace.of(NESTED)
    parameters, spread = draw(actions, scale=0.7)
    drawn = np.asarray(actions.sample(jax.random.key(2), jnp.broadcast_to(parameters, (20_000, 8, 4)), spread), float)
    want = np.array(
        [
            {"gaussian": lambda x, p: x[0], "bernoulli": lambda x, p: 1 / (1 + np.exp(-x[0]))}.get(
                kind, lambda x, p: p @ np.arange(len(p))
            )(np.asarray(parameters[i], float), p)
            for i, (kind, p) in enumerate(zip(actions.kinds, choices(actions, parameters), strict=True))
        ]
    )
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - want) / error).max() < 4.5
    off = np.corrcoef(drawn.T) - np.eye(8)
    assert np.abs(off).max() < 4.5 / np.sqrt(len(drawn))  # a product distribution


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
