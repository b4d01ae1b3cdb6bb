"""The gated critic: what it finds that tests miss, what it finds where there is nothing, and what is said of it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import special

import factorax as fx
from factorax.discovery import Batch, Discovery, dependence_test, gated_critic
from factorax.problems import contextual_bandit
from factorax.structure import gallery

pytestmark = pytest.mark.slow


def bandit(n, m, targets, samples=1500, seed=0):
    """Actions drawn from a standard normal, and noise of variance one on every target."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(samples, n))
    return Batch(a, targets(a) + rng.normal(size=(samples, m)), special.ndtr(a), kind="one-step")


@pytest.mark.parametrize("name", gallery.PAPER)
def test_the_papers_networks(name):
    truth = gallery.PAPER[name]()
    found = gated_critic(bandit(*truth.shape, lambda a: np.abs(a - 0.5) @ (2 * truth.to_dense())))
    np.testing.assert_array_equal(found.found(), truth.to_dense())


def test_squares_and_products():
    """ψ₁ = a₁², ψ₂ = a₁a₂, ψ₃ = a₃ a₄: the dependence test has no chance of the last edges but by their spread."""
    targets = [lambda a: a[:, 0] ** 2, lambda a: a[:, 0] * a[:, 1], lambda a: a[:, 2] * a[:, 3]]
    found = gated_critic(bandit(5, 3, lambda a: np.stack([f(a) for f in targets], axis=1)))
    np.testing.assert_array_equal(found.found(), np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]) > 0)


def test_the_parity_that_tests_miss():
    bits = np.random.default_rng(0).random((3000, 4)) < 0.5
    uniforms = (bits + np.random.default_rng(1).random(bits.shape)) / 2
    batch = Batch(2.0 * bits - 1, (bits[:, :1] ^ bits[:, 1:2]).astype(float), uniforms)
    assert not dependence_test(batch).found().any()
    assert gated_critic(batch).found()[:, 0].tolist() == [True, True, False, False]


def test_an_effect_that_changes_sign_with_the_state():
    problem = contextual_bandit(4)
    found = fx.discover(problem, "gated", samples=2000)
    assert found.network() == problem.network
    assert found.kind == "one-step"


def test_where_there_is_nothing_little_is_found():
    """The rate on such data, not a promise: see the page on discovery."""
    found = [gated_critic(bandit(4, 2, lambda a: 0.0, 300, seed), seed=seed).found() for seed in range(1000, 1005)]
    assert np.sum(found) <= 1  # of 40 pairs


def test_the_same_seed_gives_the_same_gates():
    batch = bandit(3, 2, lambda a: a[:, :2], samples=200)
    first, again, other = (gated_critic(batch, steps=100, seed=seed).effect for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_what_is_said_kept_and_drawn(tmp_path):
    batch = bandit(3, 2, lambda a: a[:, :2], samples=400)
    batch.scores[:, 2] = 0.0
    found = gated_critic(batch, steps=400)
    assert np.isnan(found.p_value).all()
    assert not found.tested
    assert found.effect[2].tolist() == [0.0, 0.0]
    text = str(found)
    assert "2 of 6 pairs are edges: probability that the gate is open above 0.5, each from 400 samples" in text
    assert "no error rate is known" in text
    assert "skipped: action 'a3' is constant" in found.notes
    assert found.found(threshold=1.0).sum() == 0
    found.save(tmp_path / "found.safetensors")
    np.testing.assert_array_equal(Discovery.load(tmp_path / "found.safetensors").found(), found.found())
    ax = found.draw()
    assert ax.get_title() == "gated, one-step; framed: edges, above 0.5"
    assert sorted(map(tuple, ax.collections[0].get_offsets())) == [(0, 0), (1, 1)]
    plt.close(ax.figure)
    plt.close(found.draw("bipartite").figure)


def test_errors():
    batch = bandit(2, 2, lambda a: a, samples=100)
    with pytest.raises(ValueError, match="uniforms: got None"):
        gated_critic(Batch(batch.scores, batch.psi))
    with pytest.raises(ValueError, match="hidden: got 1, want"):
        gated_critic(batch, hidden=1)
    with pytest.raises(ValueError, match="psi: got 20 samples, want at least 30"):
        gated_critic(bandit(2, 2, lambda a: a, samples=20))
