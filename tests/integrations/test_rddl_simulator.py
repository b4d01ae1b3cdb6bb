"""Replacements in the RDDL simulator: no action shifts random numbers of another fluent or object, and episodes with
cached constants are the same bit for bit."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import factorax as fx
from factorax.integrations import rddl
from factorax.integrations._rddl_simulator import Streams
from factorax.problems import find_problem

PARAMETERS = {
    "poisson": {"lam": (0.5, 30.0)},
    "gamma": {"shape": (0.3, 4.0), "scale": (1.0, 2.0)},
    "binomial": {"n": (5, 60), "p": (0.2, 0.7)},
    "negative_binomial": {"n": (3, 9), "p": (0.4, 0.8)},
    "beta": {"a": (0.5, 3.0), "b": (2.0, 0.7)},
    "geometric": {"p": (0.1, 0.6)},
    "chisquare": {"df": (1.0, 6.0)},
    "standard_t": {"df": (2.0, 9.0)},
    "normal": {"loc": (0.0, 3.0), "scale": (1.0, 0.1)},
    "uniform": {"low": (0.0, -4.0), "high": (1.0, 9.0)},
    "exponential": {"scale": (1.0, 5.0)},
    "weibull": {"a": (0.7, 2.0)},
    "gumbel": {"loc": (0.0, 1.0), "scale": (1.0, 3.0)},
    "laplace": {"loc": (0.0, 1.0), "scale": (1.0, 3.0)},
    "pareto": {"a": (1.0, 3.0)},
}


class Drawing:
    """Stands for a simulator of one random expression."""

    def __init__(self, seed=0):
        self.rng, self.time = np.random.default_rng(seed), 0
        self._sample_random = self._sample_random_vector = lambda expr, subs: getattr(self.rng, expr.name)(**subs)
        self.streams = Streams(self, lambda: self.time)
        self.streams.start()

    def draw(self, name, parameters, place=7):
        return self._sample_random(SimpleNamespace(id=place, name=name), parameters)


def rows(name, *which):
    return {key: np.array([pair[k] for k in which]) for key, pair in PARAMETERS[name].items()}


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_an_object_does_not_shift_the_next(name):
    one, two = Drawing(), Drawing()
    for one.time in range(20):
        two.time = one.time
        first, second = one.draw(name, rows(name, 0, 0, 0)), two.draw(name, rows(name, 0, 1, 0))
        assert first.dtype == second.dtype == np.asarray(getattr(one.rng, name)(**rows(name, 0))).dtype
        assert first[0] == second[0]
        assert first[2] == second[2]


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_draws_have_their_distribution(name):
    """Two objects over 1,000 steps against NumPy's own draws: Kolmogorov and Smirnov, p > 10⁻⁴ for each."""
    drawing, rng = Drawing(), np.random.default_rng(1)
    drawn = []
    for drawing.time in range(1000):
        drawn.append(drawing.draw(name, rows(name, 0, 1)))
    samples = np.array(drawn)
    for k in (0, 1):
        expected = getattr(rng, name)(**{key: pair[k] for key, pair in PARAMETERS[name].items()}, size=4000)
        assert stats.ks_2samp(samples[:, k], expected).pvalue > 1e-4
    assert abs(stats.spearmanr(samples[:, 0], samples[:, 1]).statistic) < 4 / np.sqrt(1000)
    assert abs(stats.spearmanr(samples[:-1, 0], samples[1:, 0]).statistic) < 4 / np.sqrt(1000)


def test_vectors_scalars_and_nested_draws():
    drawing = Drawing()
    pvals = np.array([[0.2, 0.8], [0.5, 0.5]])
    counts = drawing.draw("multinomial", {"n": np.array([10, 20]), "pvals": pvals})
    assert counts.sum(axis=1).tolist() == [10, 20]
    assert np.ndim(drawing.draw("poisson", {"lam": 3.0})) == 0
    assert drawing.draw("uniform", {"size": (2, 3)}).shape == (2, 3)
    # A parameter that is random itself is drawn from its own stream, and does not move the outer one.
    outer = drawing.draw("normal", {"loc": 0.0})
    simulator = drawing

    def nested(expr, subs):
        if expr.id == 8:
            inner = sample(SimpleNamespace(id=9, name="normal"), {})
            return inner, simulator.rng.normal(loc=0.0)
        return simulator.rng.normal(loc=0.0)

    sample = simulator._sample_random
    inner, after = simulator.streams._keyed(nested, SimpleNamespace(id=8), {})
    alone = simulator.streams._keyed(lambda expr, subs: simulator.rng.normal(loc=0.0), SimpleNamespace(id=8), {})
    assert after == alone != inner
    assert outer not in (inner, after)


DOMAIN = (Path(__file__).parents[2] / "benchmarks" / "tanks.rddl").read_text(encoding="utf-8")
INSTANCE = """
non-fluents three { domain = tanks; objects { tank : {t1, t2, t3}; }; non-fluents { NEXT(t1, t2); }; }
instance three_tanks {
    domain = tanks; non-fluents = three; max-nondef-actions = pos-inf; horizon = 6; discount = 1.0;
}
"""


@pytest.fixture
def tanks(tmp_path):
    """Three tanks whose rain takes more or fewer random numbers, depending on what is open and pumped."""
    pytest.importorskip("pyRDDLGym", reason="needs pyRDDLGym: pip install '.[rddl]'")
    for name, text in (("domain", DOMAIN), ("instance", INSTANCE)):
        (tmp_path / f"{name}.rddl").write_text(text, encoding="utf-8")
    return lambda: rddl.make(str(tmp_path / "domain.rddl"), str(tmp_path / "instance.rddl"))


def with_one_stream(make):
    """The environment as pyRDDLGym samples it: all fluents from one generator."""
    env = make()
    sampler = env.rddl.sampler
    for name in ("_sample_random", "_sample_random_vector"):
        setattr(sampler, name, getattr(type(sampler), name).__get__(sampler))
    return env


@pytest.mark.rddl
def test_interventions_find_the_network_that_the_model_has(tanks):
    found = fx.discover(tanks, horizon=6, trials=10, one_step=False)
    assert found.streams == "held"
    assert found.network() == tanks().influence.dynamics_network


@pytest.mark.rddl
def test_one_stream_for_all_fluents_is_found_out(tanks):
    truth = tanks().influence.dynamics_network.to_dense()
    fooled = fx.discover(lambda: with_one_stream(tanks), horizon=6, trials=10, one_step=False, streams="trust")
    assert (fooled.found() & ~truth).sum() > 3
    with pytest.warns(
        fx.structure.StructureWarning, match=r"shift with the actions: .*compared: .*env\.rddl\.sampler\.rng"
    ):
        found = fx.discover(lambda: with_one_stream(tanks), horizon=6, trials=30, one_step=False)
    assert found.streams == "shifted"
    assert not (found.found(0.01) & ~truth).any()
    assert (found.found(0.01) & truth).sum() >= 0.8 * truth.sum()


@pytest.mark.rddl
def test_episodes_without_a_seed_differ(tanks):
    env = tanks()
    action = {"open": np.zeros(3), "pump": np.ones(3)}
    env.reset(seed=0)
    first = env.step(action)[0]
    env.reset()
    second = env.step(action)[0]
    env.reset(seed=0)
    assert (env.step(action)[0] == first).all()
    env.reset()
    assert (env.step(action)[0] == second).all()
    assert (first != second).any()


def play(environment, actions):
    rows = [environment.reset(seed=3)[0]]
    for action in actions:
        obs, _, terminated, truncated, info = environment.step(action)
        rows.append(np.concatenate([obs, info["vector_reward"]]))
        if terminated or truncated:
            break
    return rows


@pytest.mark.rddl
@pytest.mark.parametrize("name", ["UAV_ippc2023/1", "HVAC_ippc2023/1"])
def test_cached_constants_leave_episodes_unchanged(name):
    pytest.importorskip("pyRDDLGym", reason="needs pyRDDLGym: pip install '.[rddl]'")
    make = find_problem(f"rddl:{name}")
    ours, plain = make(), make()
    plain.rddl.sampler.__dict__.pop("_sample")  # the method of the class
    ours.action_space.seed(0)
    actions = [ours.action_space.sample() for _ in range(20)]
    for a, b in zip(play(ours, actions), play(plain, actions), strict=True):
        np.testing.assert_array_equal(a, b)
