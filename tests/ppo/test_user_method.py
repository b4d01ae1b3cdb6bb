"""A method of the user's in a few lines: from an object, from text, and from a file."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_settings import SMALL

from factorax._checks import Positive
from factorax.ppo import METHODS, FactoredPPO, Method
from ppo.helping import loss_of, rollout, samples_of

SMALL = SMALL | {"learning_rate": 1e-2, "n_epochs": 4}


@dataclass(frozen=True)
class Spo(Method):
    """Simple policy optimization (Xie et al., 2024), with one ratio per factor: L = −E Σᵢ rᵢCᵢ − |Cᵢ|/2ε (rᵢ − 1)²."""

    title: ClassVar[str] = "SPO"
    strength: Positive = 1.0
    """Factor of the penalty."""

    def policy_loss(self, log_ratio, credit, hyper):
        ratio = jnp.exp(log_ratio)
        penalty = self.strength * jnp.abs(credit) / (2 * hyper.clip_range) * (ratio - 1) ** 2
        return -(ratio * credit - penalty).sum(axis=-1).mean()


@pytest.fixture
def registered(monkeypatch):
    """Methods with this one, which is gone after the test."""
    monkeypatch.setattr(METHODS, "kinds", dict(METHODS.kinds))
    monkeypatch.setattr(Spo, "name", Spo.name)
    METHODS.register("spo", Spo)


def leaves(model):
    return [np.asarray(x) for x in jax.tree.leaves(model.state.agent)]


def trained(method):
    return FactoredPPO("contextual-bandit:3", method=method, **SMALL).learn(48, progress_bar=False)


def test_its_loss_is_that_of_its_formula():
    model = FactoredPPO(
        "contextual-bandit:3", method=Spo(strength=2.0), **SMALL, normalize_advantage=False, vf_coef=0.0
    )
    rule, agent = model.learner.rule, model.state.agent
    samples = samples_of(rule, agent, rollout(model.learner, model.state))
    samples = samples._replace(log_prob=samples.log_prob - np.log(1.5))  # as if every ratio were 1.5
    credit = np.asarray(samples.credit)
    want = -(1.5 * credit - 2.0 * np.abs(credit) / 0.4 * 0.25).sum(axis=-1).mean()
    np.testing.assert_allclose(loss_of(rule, agent, samples), want, rtol=1e-4)


@pytest.mark.slow
def test_an_object_trains_and_is_passed_again_to_load(tmp_path):
    model = trained(Spo())
    assert any((a != b).any() for a, b in zip(leaves(model), leaves(trained("factored")), strict=True))
    assert "Spo, SPO" in repr(model)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"method: .* was trained with custom method, which is not in the file"):
        FactoredPPO.load(tmp_path / "model")
    loaded = FactoredPPO.load(tmp_path / "model", method=Spo())
    assert loaded.config.method == Spo()
    for a, b in zip(leaves(loaded), leaves(model), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_a_registered_method_has_a_name_in_settings_and_files(tmp_path):
    model = trained("spo,strength=0.5")
    assert model.config.method == Spo(strength=0.5)
    for a, b in zip(leaves(model), leaves(trained(Spo(strength=0.5))), strict=True):
        np.testing.assert_array_equal(a, b)
    model.save(tmp_path / "model")
    assert FactoredPPO.load(tmp_path / "model").config.method == Spo(strength=0.5)
    with pytest.raises(ValueError, match="method: strength: got -1, want a number above 0"):
        trained("spo,strength=-1")
    with pytest.raises(ValueError, match=r"method: got the setting strength for natural, .*; spo has strength"):
        trained("natural,strength=1")


@pytest.mark.usefixtures("registered")
def test_a_name_belongs_to_one_method():
    with pytest.raises(ValueError, match="name: got 'coma', which Coma has; want another name for Spo"):
        METHODS.register("coma", Spo)
    with pytest.raises(TypeError, match=r"kind: got .*, want a subclass of Choice"):
        METHODS.register("other", Spo())
