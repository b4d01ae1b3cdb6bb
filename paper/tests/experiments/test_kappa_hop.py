"""The chain of actors: its gradients against finite differences, its variance against plain enumeration, its decay."""

import io
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from factorax_paper.experiments import kappa_hop
from factorax_paper.experiments.kappa_hop import COST, EXPERIMENT, EnumeratedChain, Settings, truncated
from factorax_paper.harness.experiment import reproduce
from factorax_paper.harness.parts import Progress
from rich.console import Console

LOGITS = np.random.default_rng(3).normal(size=(4, 2))


def test_each_target_s_share_of_the_gradient_is_its_finite_difference():
    """∂E[V_j]/∂θ for every actor, state and target: the solution itself, with one logit moved."""
    got, step = EnumeratedChain(0.7, 0.9, LOGITS).gradients(), 1e-5
    for i, x in product(range(4), range(2)):
        moved = np.zeros_like(LOGITS)
        moved[i, x] = step
        values = [EnumeratedChain(0.7, 0.9, LOGITS + sign * moved).values.mean(axis=0) for sign in (1, -1)]
        np.testing.assert_allclose(got[x, i], (values[0] - values[1]) / (2 * step), atol=1e-8)


def test_the_solution_is_what_following_the_chain_gives():
    chain = EnumeratedChain(0.5, 0.6, LOGITS)
    np.testing.assert_allclose(chain.transition.sum(axis=1), 1)
    state, total = np.full(16, 1 / 16), 0.0
    for t in range(200):
        total += 0.6**t * state @ (chain.bits - COST * chain.acts).sum(axis=1)
        state = state @ chain.transition
    assert chain.objective == pytest.approx(total)


def test_the_variance_is_what_enumeration_gives():
    """Two actors: every state, joint action and next state, one after the other."""
    chain = EnumeratedChain(0.8, 0.9, LOGITS[:2])
    weights, want = chain.occupancy / chain.occupancy.sum(), np.zeros(2)
    for s in range(4):
        moments = {kappa: np.zeros((2, 2)) for kappa in (0, 1)}
        for a in product((0, 1), repeat=2):
            p = np.prod([chain.acts[s, i] if a[i] else 1 - chain.acts[s, i] for i in range(2)])
            advantage = chain.bits[s] - COST * np.array(a) - chain.values[s]
            for after in range(4):
                up = [chain.up[a[i], s, i] for i in range(2)]
                q = np.prod([up[i] if chain.bits[after, i] else 1 - up[i] for i in range(2)])
                advantage = advantage + 0.9 * q * chain.values[after]
            for kappa in (0, 1):
                k = advantage if kappa == 0 else np.full(2, advantage.sum())
                g = (np.array(a) - chain.acts[s]) * k
                moments[kappa] += p * np.stack([g, g**2])
        want += [weights[s] * (moments[kappa][1] - moments[kappa][0] ** 2).sum() for kappa in (0, 1)]
    np.testing.assert_allclose(chain.variances(Progress(Path())), want, rtol=1e-10)


def test_truncation_keeps_the_near_targets():
    gradients = EnumeratedChain(0.7, 0.9, LOGITS).gradients()
    np.testing.assert_allclose(truncated(gradients, 0), np.diagonal(gradients, axis1=1, axis2=2))
    np.testing.assert_allclose(truncated(gradients, 3), gradients.sum(axis=2))
    np.testing.assert_allclose(truncated(gradients, 1)[:, 0], gradients[:, 0, :2].sum(axis=1))


def test_without_coupling_there_is_no_bias():
    gradients = EnumeratedChain(0.0, 0.9, LOGITS).gradients()
    np.testing.assert_allclose(truncated(gradients, 0), gradients.sum(axis=2), atol=1e-12)


def test_the_bias_decays_exponentially(tmp_path):
    settings = Settings(6, couplings=(0.1, 0.6), discounts=(0.9,))
    reproduce(EXPERIMENT, settings=settings, out=tmp_path / "out", console=Console(file=io.StringIO()))
    content = json.loads((tmp_path / "out" / "summary.json").read_text())
    weak, strong = content["figures"]["cells"]
    for cell in (weak, strong):
        steps = np.divide(cell["bias"][1:4], cell["bias"][:3])
        np.testing.assert_allclose(steps, cell["rate"], rtol=0.2)  # the same factor at every hop
        assert cell["bias"][-1] < 1e-12
    assert weak["rate"] < strong["rate"] < 0.9
    assert [row["verdict"] for row in content["claims"]] == ["holds", "holds"]
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000


def test_a_bias_that_does_not_fade_fails():
    cell = {"coupling": 1.0, "discount": 0.9, "bias": [0.5, 0.5, 0.5, 0.0], "variance": [1.0, 0.5, 0.6, 1.0]}
    rows = kappa_hop.claims(Settings(4), {"cells": [cell | {"rate": 1.0, "level": 0.5, "off": 1.0}]})
    assert [row.verdict for row in rows] == ["does not hold", "does not hold"]
