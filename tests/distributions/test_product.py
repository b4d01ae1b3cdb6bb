"""The product over components of several kinds, and a kind of one's own."""

from functools import cache

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy import special, stats

from factorax import InfluenceNetwork
from factorax.distributions import (
    DISTRIBUTIONS,
    KINDS,
    Distribution,
    Gaussian,
    GaussianChoice,
    Product,
    Spread,
    register,
)
from factorax.distributions.functions import namespace
from factorax.spaces import ActionSpace
from factorax.spec import Spec

MIXED = spaces.Tuple(
    [
        spaces.Discrete(4),
        spaces.Box(-1.0, 1.0, (2,)),
        spaces.MultiBinary(2),
        spaces.Box(0, np.inf, (1,)),
        spaces.Discrete(2),
    ]
)
how = pytest.mark.parametrize("bounded", ["scale", "clip", "tanh", "beta"])


def draw(actions, seed=0, batch=(), scale=1.0):
    """Random parameters and spread."""
    rng = np.random.default_rng(seed)
    spread = Spread(0.5 * rng.normal(size=len(actions)).astype(np.float32), np.zeros((0, 0, 0), np.float32))
    return scale * rng.normal(size=(*batch, len(actions), actions.width)).astype(np.float32), spread


@cache
def drawn_actions(bounded):
    """Actions of the mixed space, two sets of parameters and spreads, and what is drawn with the first."""
    actions = ActionSpace.of(MIXED, bounded)
    old, new = draw(actions, 0, (6,)), draw(actions, 1, (6,))
    return actions, old, new, np.asarray(jax.jit(actions.sample)(jax.random.key(0), *old))


@how
def test_figures_are_those_of_each_kind_in_the_order_of_the_components(bounded):
    actions, (old, spread), (new, other), action = drawn_actions(bounded)
    figures = {
        "log_prob": actions.log_prob(old, spread, action),
        "entropy": actions.entropy(old, spread),
        "kl": actions.kl((old, spread), (new, other)),
        "mode": actions.mode(old),
    }
    for k, name in enumerate(actions.kinds):
        one = KINDS[name](low=actions.low[[k]], high=actions.high[[k]], choices=actions.choices[[k]])
        x, y = old[:, [k], : one.width], new[:, [k], : one.width]
        s, r = spread.log_std[[k]], other.log_std[[k]]
        want = {
            "log_prob": one.log_prob(x, action[:, [k]], s),
            "entropy": one.entropy(x, s),
            "kl": one.kl((x, s), (y, r)),
            "mode": one.mode(x),
        }
        for figure, value in want.items():
            np.testing.assert_allclose(figures[figure][:, [k]], value, rtol=1e-5, atol=1e-6, err_msg=f"{name} {figure}")


@how
def test_numpy_is_jax(bounded):
    actions, (old, spread), (new, other), action = drawn_actions(bounded)

    def figures(old, new, spread, other, action):
        return (
            actions.log_prob(old, spread, action),
            actions.entropy(old, spread),
            actions.kl((old, spread), (new, other)),
            actions.mode(old),
            actions.within(action, namespace(action)),
        )

    ours = figures(old, new, spread, other, action)
    theirs = jax.jit(figures)(old, new, spread, other, action)
    for x, y in zip(ours, theirs, strict=True):
        assert isinstance(x, np.ndarray)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@how
def test_draws_have_the_moments_of_their_distribution_and_are_independent(bounded):
    """Means of 20,000 draws, of JAX and of NumPy, within 4.5 standard errors; correlations, too."""
    actions = ActionSpace.of(MIXED, bounded)
    parameters, spread = draw(actions, 2, scale=0.7)
    many = np.broadcast_to(parameters, (20_000, *parameters.shape))
    noise = actions.noise(np.random.default_rng(0), 20_000, spread.log_std)
    beta = 1 + np.logaddexp(parameters[:, :2].astype(float), 0)
    mean = {
        "gaussian": lambda k: parameters[k, 0],
        "scaled": lambda k: parameters[k, 0],
        "squashed": lambda k: parameters[k, 0],
        "beta": lambda k: beta[k, 0] / beta[k].sum(),
        "bernoulli": lambda k: special.expit(parameters[k, 0]),
        "categorical": lambda k: special.softmax(parameters[k, : actions.choices[k]]) @ np.arange(actions.choices[k]),
    }
    want = np.array([mean[name](k) for k, name in enumerate(actions.kinds)])
    for drawn in (actions.sample(jax.random.key(2), jnp.asarray(many), spread), actions.choose(many, noise)):
        drawn = np.asarray(drawn, float)
        error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
        assert (np.abs(drawn.mean(axis=0) - want) / error).max() < 4.5
        off = np.corrcoef(drawn.T) - np.eye(len(actions))
        assert np.abs(off).max() < 4.5 / np.sqrt(len(drawn))


@how
def test_standardised_actions_have_variance_one_and_uniform_ranks(bounded):
    actions = ActionSpace.of(MIXED, bounded)
    parameters, spread = draw(actions, 3)
    many = np.broadcast_to(parameters, (20_000, *parameters.shape))
    drawn = actions.choose(many, actions.noise(np.random.default_rng(1), 20_000, spread.log_std)).astype(float)
    scores, uniforms = actions.standardised(many, spread, drawn, np.random.default_rng(2).random(drawn.shape))
    assert np.abs(scores.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    np.testing.assert_allclose(scores.std(axis=0), 1, atol=0.06)
    assert min(stats.kstest(column, "uniform").pvalue for column in uniforms.T) > 1e-5


def test_directions_and_the_neutral_policy():
    actions = ActionSpace.of(MIXED, "beta")
    want = np.zeros((7, 4))
    want[[0, 6]] = np.linspace(-1, 1, 4)  # the last has two choices; its other parameters have no gradient
    want[[1, 2], :2] = 1, -1
    want[[3, 4, 5], 0] = 1
    np.testing.assert_allclose(actions.directions, want, atol=1e-6)
    parameters, spread = actions.neutral()
    assert not parameters.any()
    assert not spread.log_std.any()
    clipped, spread = ActionSpace.of(spaces.Box(-1.0, 5.0, (1,)), "clip").neutral()
    assert float(clipped[0, 0]) == 2
    np.testing.assert_allclose(np.exp(spread.log_std), 1.5)


def laplace():
    """A kind of one's own: a mean, and a scale that depends on the state, log b, as the second parameter."""

    @register
    class Laplace(Distribution):
        name = "laplace"
        bounded = "laplace"

        @property
        def width(self):
            return 2

        def log_prob(self, parameters, action, log_std):
            mean, log_b = parameters[..., 0], parameters[..., 1]
            xp = namespace(parameters)
            return -xp.abs(action - mean) * xp.exp(-log_b) - log_b - np.log(2)

        def entropy(self, parameters, log_std):
            return 1 + np.log(2) + parameters[..., 1]

        def kl(self, old, new):
            (m, s), (n, r) = ((x[0][..., 0], x[0][..., 1]) for x in (old, new))
            xp = namespace(old[0])
            distance, ratio = xp.abs(m - n), xp.exp(s - r)
            return r - s + ratio * xp.exp(-distance * xp.exp(-s)) + distance * xp.exp(-r) - 1

        def mode(self, parameters):
            return parameters[..., 0]

        def sample(self, key, parameters, log_std):
            return parameters[..., 0] + jnp.exp(parameters[..., 1]) * jax.random.laplace(key, parameters.shape[:-1])

        def noise(self, rng, n_steps, log_std):
            return rng.laplace(size=(n_steps, len(self), 2)).astype(np.float32)

        def choose(self, parameters, noise):
            return parameters[..., 0] + np.exp(parameters[..., 1]) * noise[..., 0]

        def standardised(self, parameters, action, between, log_std):
            scaled = (action - parameters[..., 0]) * np.exp(-parameters[..., 1])
            return scaled / np.sqrt(2), stats.laplace.cdf(scaled)

    return Laplace


@pytest.fixture
def _laplace():
    laplace()
    yield
    del KINDS["laplace"], DISTRIBUTIONS.kinds["laplace"]


@pytest.mark.slow
@pytest.mark.usefixtures("_laplace")
def test_a_new_kind_is_one_class():
    """A Laplace distribution next to a categorical one, through all that a product does."""
    actions = Product(
        kinds=("laplace", "categorical", "laplace"),
        choices=np.array([0, 3, 0]),
        low=np.float32([-np.inf, 0, -1]),
        high=np.float32([np.inf, 2, 1]),
    )
    assert actions.width == 3
    np.testing.assert_array_equal(actions.discrete, [False, True, False])
    parameters, spread = draw(actions, 0, scale=0.5)
    many = np.broadcast_to(parameters, (20_000, 3, 3))
    m, b = parameters[[0, 2], 0].astype(float), np.exp(parameters[[0, 2], 1].astype(float))
    for drawn in (
        actions.sample(jax.random.key(0), jnp.asarray(many), spread),
        actions.choose(many, actions.noise(np.random.default_rng(0), 20_000, spread.log_std)),
    ):
        for k in (0, 1):
            assert stats.kstest(np.asarray(drawn)[:, 2 * k], stats.laplace(m[k], b[k]).cdf).pvalue > 1e-5
        np.testing.assert_allclose(actions.within(np.asarray(drawn), np)[:, 2], np.clip(np.asarray(drawn)[:, 2], -1, 1))
        log_prob = actions.log_prob(many, spread, np.asarray(drawn))
        np.testing.assert_allclose(
            log_prob[:, [0, 2]], stats.laplace.logpdf(np.asarray(drawn)[:, [0, 2]], m, b), atol=1e-4
        )
    np.testing.assert_allclose(actions.entropy(parameters, spread)[[0, 2]], stats.laplace.entropy(m, b), rtol=1e-5)
    np.testing.assert_allclose(actions.kl((parameters, spread), (parameters, spread)), 0, atol=1e-6)
    gradient = jax.grad(lambda x: actions.log_prob(x, spread, jnp.ones(3)).sum())(jnp.asarray(parameters))
    assert np.isfinite(gradient).all()
    assert not np.asarray(gradient)[[0, 2], 2].any()  # of the third parameter it has none


@pytest.mark.usefixtures("_laplace")
def test_a_new_kind_is_a_value_of_the_setting_distribution():
    """As text and as an object, in the spec of a problem, and in a process that has not imported its module."""
    box = spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf]))
    problem = Spec.of_spaces(spaces.Box(-1, 1, (3,)), box, InfluenceNetwork.identity(2), distribution="laplace")
    assert problem.components.kinds == ActionSpace.of(box, DISTRIBUTIONS.kinds["laplace"]()).kinds
    assert problem.components.kinds == ("laplace", "gaussian")
    assert problem.components.settings == GaussianChoice()
    pickled, kind = cloudpickle.dumps(problem.components), KINDS.pop("laplace")
    received = cloudpickle.loads(pickled)
    assert received.mode(np.ones((2, 2))).tolist() == [1, 1]
    KINDS["laplace"] = kind
    with pytest.raises(ValueError, match="distribution: got the setting std for laplace, but laplace has no settings"):
        ActionSpace.of(box, "laplace,std=shared")


@pytest.mark.usefixtures("_laplace")
def test_a_new_kind_of_gaussian_has_the_settings_of_gaussians():
    class Cubed(Gaussian):
        name, bounded, rescales = "cubed", "cube", True

        def rescale(self, action):
            return action**3

    box = spaces.Box(-1, 1, (2,))
    with pytest.raises(ValueError, match=r"distribution: got 'cube', want 'scale', .*'laplace'"):
        ActionSpace.of(box, "cube")
    register(Cubed)
    try:
        components = ActionSpace.of(box, "cube,std=shared,initial_log_std=-0.5")
        assert components.spread().log_std.tolist() == [-0.5]
        assert components.within(np.float32([0.5, 2.0]), np).tolist() == [0.125, 1.0]
    finally:
        del KINDS["cubed"], DISTRIBUTIONS.kinds["cube"]


@pytest.mark.usefixtures("_laplace")
def test_names_of_kinds_are_unique():
    class Other(KINDS["laplace"]):
        pass

    with pytest.raises(
        ValueError, match=r"^kind: got the name 'laplace', which .*Laplace has; want a unique name for .*Other"
    ):
        register(Other)
    Other.name = "other"
    with pytest.raises(ValueError, match=r"^kind: got the bounded 'laplace', which .*Laplace has"):
        register(Other)


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"^kinds: got 'cauchy', want one of .*bernoulli"):
        Product(kinds=("cauchy",), choices=np.array([0]), low=np.zeros(1), high=np.ones(1))
