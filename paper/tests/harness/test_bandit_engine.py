"""The engine against the formulas in plain NumPy, its expectations against closed forms, and run by run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.harness import bandit_engine
from factorax_paper.harness.bandit_engine import AS_PRINTED, METHODS, BanditLearner, BanditMethod
from factorax_paper.harness.noise import gaussian_pair
from scipy import stats

from factorax.problems import draw_centre, relu_bandit, search_bandit, separable_bandit

VPG, VPG_S, VPG_SA, FPG, FPG_S = METHODS
LABELS = [method.label for method in METHODS]
ETAS, STEPS = (0.02, 0.1), 400  # the same in many tests, so that they share what was compiled

every_method = pytest.mark.parametrize("method", METHODS, ids=LABELS)


def compiled(make, method, tolerance=None, measure=None):
    learner = BanditLearner(make, method, tolerance, measure)
    return learner, jax.jit(learner.advance, static_argnames="steps")


@functools.cache
def search(method, k=0, penalty=0.0, tolerance=None):
    return compiled(lambda centre: search_bandit(centre, k=k, penalty=penalty), method, tolerance)


def setting(n, seeds=3):
    """Keys and centres of the first few seeds."""
    keys = np.array([[4, r] for r in range(seeds)], np.uint32)
    return keys, np.stack([draw_centre(n, [4, r]) for r in range(seeds)]).astype(np.float32)


def learn(search, keys, centres, step_sizes, steps, start=0, runs=None):
    learner, advance = search
    runs = learner.init(centres, len(step_sizes)) if runs is None else runs
    return jax.tree.map(np.asarray, advance(runs, keys, centres, np.float32(step_sizes), start, steps=steps))


@functools.partial(jax.jit, static_argnames=("steps", "n"))
def noise_of(key, steps, n):
    """The engine's own noise, ``(steps, n)``."""
    pairs = jax.vmap(lambda pair: jnp.stack(gaussian_pair(key, pair, n)))(jnp.arange(steps // 2))
    return pairs.reshape(steps, n)


def plain(method, noise, eta, own, best, *, k=0, penalty=0.0, tolerance=None):
    """One run, straight from the formulas, in double precision; `own` gives the targets ψ₁ … ψₙ of an action.

    **Returns** the mean, what the baseline has learnt, the gap after every step, and the first one within tolerance.
    """
    noise = np.asarray(noise, np.float64)
    n = noise.shape[1]
    touched = np.arange(n) < k
    eta = float(np.float32(eta))

    def reward(a):
        return own(a).sum() - penalty * np.linalg.norm(a[:k]) / n

    mu, value, scalar, w = np.zeros(n), np.zeros(n + (k > 0)), 0.0, np.zeros(n)
    gaps, reached = [], -1
    for step, eps in enumerate(noise, start=1):
        a = mu + eps
        match method.label:
            case "VPG":
                credit = np.full(n, reward(a))
            case "VPG b(s)":
                credit = np.full(n, reward(a) - scalar)
                scalar += 0.1 * (reward(a) - scalar)
            case "VPG b(s,a)":
                b = lambda a, w=w: -np.abs(a - w).sum() / n  # noqa: E731
                exchanged = np.where(np.eye(n, dtype=bool), mu, a)  # row i: aᵢ replaced by μᵢ
                credit = np.array([reward(a) - b(row) for row in exchanged])
                w = w + 0.1 * (reward(a) - b(a)) * np.sign(a - w)
            case "FPG" | "FPG b(s)":
                psi = np.append(own(a), [-np.linalg.norm(a[:k]) / n] * (k > 0))
                advantage = psi - value if method.baseline == "b(s)" else psi
                credit = advantage[:n] + touched * penalty * (advantage[n] if k else 0.0)
                value = value + 0.1 * (psi - value)
        if reached < 0:
            mu = mu + eta * eps * credit
        gaps.append(reward(best) - reward(mu))
        if reached < 0 and tolerance is not None and gaps[-1] <= tolerance:
            reached = step
    learnt = {"VPG b(s)": [scalar], "VPG b(s,a)": w, "FPG b(s)": value}.get(method.label, [])
    return mu, np.asarray(learnt), np.array(gaps), reached


def plain_search(method, key, centre, eta, steps, **penalty):
    centre = centre.astype(np.float64)
    own = lambda a: -np.abs(a - centre) / len(centre)  # noqa: E731
    return plain(method, noise_of(key, steps, len(centre)), eta, own, centre, **penalty)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize(("n", "k", "penalty"), [(6, 0, 0.0), (7, 3, 0.5)])
def test_every_method_does_as_its_formula_says(method, n, k, penalty):
    keys, centres = setting(n)
    runs, gap, measure = learn(search(method, k, penalty), keys, centres, ETAS, STEPS)
    for s, g in np.ndindex(gap.shape):
        mu, learnt, gaps, _ = plain_search(method, keys[s], centres[s], ETAS[g], STEPS, k=k, penalty=penalty)
        assert np.abs(mu).max() > 1  # it moved, against rounding below 1e-5
        np.testing.assert_allclose(runs.mu[s, g], mu, rtol=0, atol=3e-5)
        np.testing.assert_allclose(runs.baseline[s, g], learnt, rtol=0, atol=3e-5)
        np.testing.assert_allclose(gap[s, g], gaps[-1], rtol=0, atol=3e-5)
    np.testing.assert_array_equal(measure, gap)
    assert runs.active.all()
    assert (runs.reached == -1).all()


def test_to_one_action_both_estimators_are_the_same():
    keys, centres = setting(1)
    runs, _, _ = learn(search(FPG), keys, centres, ETAS, STEPS)
    for method in (VPG, FPG):
        mu, *_ = plain_search(method, keys[0], centres[0], 0.1, STEPS)
        np.testing.assert_allclose(runs.mu[0, 1], mu, rtol=0, atol=3e-5)


def first_updates(method, mu, centre, n_seeds, baseline=None, **penalty):
    """The first update of many runs at η = 1: no tolerance is exceeded, so that every run ends there."""
    learner, advance = search(method, tolerance=float("inf"), **penalty)
    keys = np.stack([np.full(n_seeds, 11), np.arange(n_seeds)], axis=1).astype(np.uint32)
    centres = np.tile(np.float32(centre), (n_seeds, 1))
    runs = learner.init(centres, 1)
    runs = runs._replace(mu=jnp.broadcast_to(jnp.float32(mu), runs.mu.shape))
    if baseline is not None:
        runs = runs._replace(baseline=jnp.broadcast_to(jnp.float32(baseline), runs.baseline.shape))
    after, _, _ = advance(runs, keys, centres, np.ones(1, np.float32), 0, steps=2)
    assert (np.asarray(after.reached) == 1).all()
    return np.asarray(after.mu - runs.mu, np.float64)[:, 0]


@pytest.mark.parametrize(
    ("method", "baseline"),
    [(VPG, None), (VPG_S, [-0.7]), (VPG_SA, [2.0, 0.3, -1.0]), (FPG, None), (FPG_S, [-0.5, 0.2, -0.3, 0.8])],
    ids=LABELS,
)
def test_the_expected_update_is_the_gradient(method, baseline):
    """∂/∂μᵢ E[−|μᵢ + ε − cᵢ|] = 2Φ(cᵢ − μᵢ) − 1, and likewise for the penalty −λ|a₁|, whatever was learnt."""
    mu, centre, penalty = np.array([0.5, 0.2, -0.4]), np.array([1.5, -0.5, 0.3]), 0.5
    exact = (2 * stats.norm.cdf(centre - mu) - 1) / 3
    exact[0] += penalty * (2 * stats.norm.cdf(-mu[0]) - 1) / 3
    updates = first_updates(method, mu, centre, 50_000, baseline, k=1, penalty=penalty)
    error = updates.std(axis=0) / np.sqrt(len(updates))
    assert (error < 0.01).all()
    # 4.5 standard errors for fifteen numbers: 99.99%.
    assert (np.abs(updates.mean(axis=0) - exact) < 4.5 * error).all()


def test_the_baseline_of_the_whole_action_biases_the_update():
    """E[εᵢ b(a)] = −(2Φ(μᵢ − wᵢ) − 1)/n is not 0: the expected update is 2(Φ(μᵢ − wᵢ) − Φ(μᵢ − cᵢ))/n."""
    mu, centre, w = np.array([0.5, 0.2, -0.4]), np.array([1.5, -0.5, 0.3]), np.array([2.0, 1.3, -1.0])
    exact = 2 * (stats.norm.cdf(mu - w) - stats.norm.cdf(mu - centre)) / 3
    true = (2 * stats.norm.cdf(centre - mu) - 1) / 3
    updates = first_updates(AS_PRINTED, mu, centre, 50_000, w)
    error = updates.std(axis=0) / np.sqrt(len(updates))
    # 4.5 standard errors for three numbers: 99.99%.
    assert (np.abs(updates.mean(axis=0) - exact) < 4.5 * error).all()
    assert (np.abs(exact - true) > 20 * error).all()
    # With w = c nothing is left of any update, let alone of its mean.
    np.testing.assert_allclose(first_updates(AS_PRINTED, mu, centre, 100, centre), 0, atol=1e-6)


def test_undivided_rewards_are_a_step_size_n_times_as_large():
    """Credit is linear in the targets: scale 1 with η/n is scale 1/n with η. Not so for b(s,a), with its own 1/n."""
    n = 6
    keys, centres = setting(n)
    for method in (VPG, VPG_S, FPG, FPG_S):
        divided, gap, _ = learn(search(method), keys, centres, ETAS, STEPS)
        undivided = compiled(lambda centre: search_bandit(centre, scale=1.0), method)
        whole, whole_gap, _ = learn(undivided, keys, centres, np.divide(ETAS, n), STEPS)
        np.testing.assert_allclose(whole.mu, divided.mu, rtol=0, atol=1e-4)
        np.testing.assert_allclose(whole_gap, n * gap, rtol=1e-3)


def test_with_the_distance_in_l2_factoring_changes_nothing():
    keys, centres = setting(6)
    factored, vanilla = (
        learn(compiled(lambda centre: search_bandit(centre, norm=2), method), keys, centres, ETAS, STEPS)[0].mu
        for method in (FPG, VPG)
    )
    assert np.abs(factored).max() > 0.1
    np.testing.assert_allclose(factored, vanilla, rtol=0, atol=1e-5)


def test_the_variance_of_an_update():
    """Far from the centre targets are linear: Var = (2 + dᵢ²)/n² for FPG, (n + 1 + (Σd)²)/n² for VPG, d = |c − μ|."""
    d, n = np.array([8.0, 9.0, 10.0, 8.5]), 4
    closed = {FPG: (2 + d**2) / n**2, VPG: np.full(n, n + 1 + d.sum() ** 2) / n**2}
    for method, want in closed.items():
        updates = first_updates(method, np.zeros(n), d * [1, -1, -1, 1], 50_000)
        squares = (updates - updates.mean(axis=0)) ** 2
        error = squares.std(axis=0) / np.sqrt(len(squares))
        # 4.5 standard errors for eight numbers: 99.99%.
        assert (np.abs(squares.mean(axis=0) - want) < 4.5 * error).all()
    assert (closed[VPG] > 10 * closed[FPG]).all()


@pytest.mark.slow
def test_not_a_bit_depends_on_how_many_seeds_there_are():
    # Of the methods and sizes tried, this is the one whose bits seeds side by side (jax.vmap) would change.
    keys, centres = setting(7, seeds=16)
    whole = learn(search(VPG_S, 3, 0.5), keys, centres, ETAS, STEPS)
    for seeds in (1, 3):
        few = learn(search(VPG_S, 3, 0.5), keys[:seeds], centres[:seeds], ETAS, STEPS)
        jax.tree.map(lambda got, want, seeds=seeds: np.testing.assert_array_equal(got, want[:seeds]), few, whole)


@pytest.mark.slow
def test_a_run_does_not_depend_on_the_step_sizes_beside_it():
    keys, centres = setting(6)
    two = learn(search(VPG_SA), keys, centres, ETAS, STEPS)
    one = learn(search(VPG_SA), keys, centres, ETAS[:1], STEPS)
    five = learn(search(VPG_SA), keys, centres, (0.03, 0.1, 0.05, 0.02, 0.04), STEPS)
    assert_close(one, two, of=np.s_[:, :1])
    assert_close(two, five, of=np.s_[:, [3, 1]])


def assert_close(got, want, of=np.s_[:]):
    """Everything, to rounding."""
    compare = lambda x, y: np.testing.assert_allclose(x, y[of], rtol=0, atol=1e-5)  # noqa: E731
    jax.tree.map(compare, got, want)


@pytest.mark.slow
def test_neither_calls_nor_chunks_of_noise_matter(monkeypatch):
    keys, centres = setting(6)
    whole = learn(search(VPG_SA), keys, centres, ETAS, STEPS)
    half = learn(search(VPG_SA), keys, centres, ETAS, STEPS // 2)
    assert (np.abs(half[0].mu - whole[0].mu).max(axis=-1) > 0.1).all()
    assert_close(learn(search(VPG_SA), keys, centres, ETAS, STEPS // 2, STEPS // 2, half[0]), whole)
    # Ten steps at a time; or, where there are more actions than numbers allowed, the fewest there can be: two.
    for most in (6 * 11, 5):
        monkeypatch.setattr(bandit_engine, "NOISE_CPU", most)
        assert_close(learn(search.__wrapped__(VPG_SA), keys, centres, ETAS, STEPS), whole)


def test_diverged_runs_stay_so_and_leave_the_others_alone():
    keys, centres = setting(100)
    learner = search(VPG)
    runs, gap, measure = learn(learner, keys, centres, (0.5, 0.01), 500)
    quiet, quiet_gap, _ = learn(learner, keys, centres, (0.02, 0.01), 500)
    for start in (500, 1000):
        for infinite in (gap, measure):
            assert (infinite[:, 0] == np.inf).all()
            np.testing.assert_array_equal(infinite[:, 1], quiet_gap[:, 1])
        np.testing.assert_array_equal(runs.active, [[False, True]] * 3)
        np.testing.assert_array_equal(runs.mu[:, 1], quiet.mu[:, 1])
        assert np.isfinite(quiet_gap).all()
        runs, gap, measure = learn(learner, keys, centres, (0.5, 0.01), 500, start, runs)
        quiet, quiet_gap, _ = learn(learner, keys, centres, (0.02, 0.01), 500, start, quiet)


def test_a_run_without_a_number_has_diverged():
    keys, centres = setting(6)
    runs = search(FPG)[0].init(centres, 2)
    runs = runs._replace(mu=runs.mu.at[1, 0, 2].set(np.nan).at[2, 1, 2].set(1e8))
    lost = np.zeros((3, 2), bool)
    lost[1, 0] = lost[2, 1] = True
    runs, gap, measure = learn(search(FPG), keys, centres, ETAS, STEPS, runs=runs)
    for values in (gap, measure):
        np.testing.assert_array_equal(np.isfinite(values), ~lost)
        assert (values[lost] == np.inf).all()
    np.testing.assert_array_equal(runs.active, ~lost)


def test_a_run_ends_at_the_first_step_within_the_tolerance():
    keys, centres = setting(6)
    rest = {"k": 2, "penalty": 0.5, "tolerance": 1.2}
    within = search(VPG_S, **rest)
    runs, gap, _ = learn(within, keys, centres, ETAS, STEPS)
    for s, g in np.ndindex(gap.shape):
        mu, _, gaps, reached = plain_search(VPG_S, keys[s], centres[s], ETAS[g], STEPS, **rest)
        assert np.abs(gaps - rest["tolerance"]).min() > 1e-5  # rounding does not decide
        assert runs.reached[s, g] == reached
        assert runs.active[s, g] == (reached < 0)
        np.testing.assert_allclose(runs.mu[s, g], mu, rtol=0, atol=3e-5)
        np.testing.assert_allclose(gap[s, g], gaps[-1], rtol=0, atol=3e-5)
    done = ~runs.active
    assert 0 < done.sum() < done.size
    later, later_gap, _ = learn(within, keys, centres, ETAS, STEPS, STEPS, runs)
    np.testing.assert_array_equal(later.mu[done], runs.mu[done])
    np.testing.assert_array_equal(later_gap[done], gap[done])
    np.testing.assert_array_equal(later.reached[done], runs.reached[done])
    np.testing.assert_array_equal((later.mu != runs.mu).any(axis=-1), ~done)


def quadratic(centre):
    return separable_bandit(lambda a: -((a - centre) ** 2) / len(centre), best=centre)


def ones(instances):
    return np.where(instances > 0, 1, -1).astype(np.float32)


FAMILIES = {
    "separable": (quadratic, lambda c: lambda a: -((a - c) ** 2) / len(c), lambda x: x / 5),
    "relu": (relu_bandit, lambda e: lambda a: -np.maximum(e * a, 0), ones),
}


@pytest.mark.parametrize(("family", "method"), [("separable", VPG_SA), ("relu", FPG_S)], ids=["separable", "relu"])
def test_families_of_bandits_of_ones_own(family, method):
    make, own, instances_of = FAMILIES[family]
    keys, centres = setting(5, seeds=2)
    instances = instances_of(centres)
    learner = compiled(make, method, measure=lambda bandit, mu: (mu - bandit.best).sum(axis=-1))
    runs, gap, measure = learn(learner, keys, instances, (0.05,), 200)
    for s, instance in enumerate(instances.astype(np.float64)):
        best = -instance if family == "relu" else instance
        mu, learnt, gaps, _ = plain(method, noise_of(keys[s], 200, 5), 0.05, own(instance), best)
        assert np.abs(mu).max() > 0.1
        np.testing.assert_allclose(runs.mu[s, 0], mu, rtol=0, atol=3e-5)
        np.testing.assert_allclose(runs.baseline[s, 0], learnt, rtol=0, atol=3e-5)
        np.testing.assert_allclose(gap[s, 0], gaps[-1], rtol=0, atol=3e-5)
        np.testing.assert_allclose(measure[s, 0], (mu - best).sum(), rtol=0, atol=1e-4)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="estimator: got 'ppo', want one of vpg, fpg"):
        BanditMethod("ppo")
    with pytest.raises(ValueError, match=r"baseline: got 'b', want one of none, b\(s\), b\(s,a\)"):
        BanditMethod("vpg", "b")
    with pytest.raises(ValueError, match=r"baseline: got b\(s,a\) with fpg"):
        BanditMethod("fpg", "b(s,a)")
    keys, centres = setting(3)
    for steps in (0, 1, 101):
        with pytest.raises(ValueError, match=f"steps: got {steps}, want an even number"):
            learn(search(FPG), keys, centres, (0.1,), steps)
