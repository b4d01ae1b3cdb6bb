"""Is an edge of the network missing? How rarely noise says so, and that a missing one is named."""

import warnings

import numpy as np
import pytest

import factorax as fx
from factorax.ppo import FactoredPPO
from factorax.ppo.missing_edges import MissingEdges, last_look, missing
from factorax.problems import chain
from factorax.structure import StructureWarning


def test_looks_are_few():
    assert [n for n in range(1, 100) if last_look(n) != last_look(n - 1)] == [8, 16, 32, 64]
    assert [last_look(n) for n in (7, 8, 16, 31, 32, 64)] == [0, 1, 2, 2, 3, 4]


@pytest.mark.slow
def test_with_no_edge_an_alarm_is_as_rare_as_promised():
    """1,000 training runs of noise; with a level of 1 % the chance of more than 21 alarms is below 0.1 %."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(1000):
        alarm, total, done = False, MissingEdges(np.zeros((4, 3, 5)), np.zeros((4, 3, 5))), 0
        for rollouts in (8, 16, 32):
            z, psi = rng.normal(size=(40 * (rollouts - done), 4)), rng.standard_t(5, size=(40 * (rollouts - done), 5))
            h = np.stack([np.ones_like(z), rng.normal(size=z.shape), rng.random(z.shape)], axis=-1)
            sums = (np.einsum("ti,tip,tj->ipj", z**k, h**k, psi**k, optimize=True) for k in (1, 2))
            total = MissingEdges(*(old + new for old, new in zip(total, sums, strict=True)))
            alarm |= bool(missing(total, np.zeros((4, 5), bool), last_look(rollouts)))
            done = rollouts
        alarms += alarm
    assert alarms <= 21


SETTINGS = {"policy": "shared,identity=0", "n_envs": 64, "n_steps": 20, "batch_size": 320, "n_epochs": 2,
            "hidden": (8,), "gae_lambda": 0.6}  # fmt: skip


@pytest.mark.slow
def test_a_missing_edge_is_named_while_training():
    with pytest.warns(StructureWarning, match=r"edges are missing.*→ psi") as warned:
        FactoredPPO(chain(4, delay=1), fx.InfluenceNetwork.identity(4), **SETTINGS).learn(1280 * 17, progress_bar=False)
    messages = [str(w.message) for w in warned if "missing" in str(w.message)]
    assert len(messages) == 1
    assert any(f"'a{i} → psi{i + 1}'" in messages[0] for i in (1, 2, 3))
    assert "'a1 → psi3'" not in messages[0]


@pytest.mark.slow
def test_with_the_true_network_there_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FactoredPPO(chain(4, delay=1), **SETTINGS).learn(1280 * 17, progress_bar=False)
        FactoredPPO(chain(2, delay=1), fx.InfluenceNetwork.identity(2), check_network=False, **SETTINGS).learn(
            1280 * 17, progress_bar=False
        )
