"""What does not fit the device is said before it runs."""

import jax.numpy as jnp
import pytest

from factorax.learning import Config, FactoredPPO, device_memory
from factorax.problems import contextual_bandit

CONFIG = Config(n_envs=64, n_steps=25, batch_size=100, n_epochs=1)


def test_an_update_that_fits_is_let_through():
    device_memory.check(2**30, 2**30, CONFIG)
    device_memory.check(2**40, None, CONFIG)


@pytest.mark.parametrize(
    ("free", "want"), [(2**29, "n_envs=32"), (2**29 - 1, "n_envs=28"), (2**20, "a smaller n_steps")]
)
def test_what_would_fit_is_named(free, want):
    with pytest.raises(MemoryError, match=f"n_envs: got 64.* needs 1 GiB; .*want {want}$"):
        device_memory.check(2**30, free, CONFIG)


def test_seeds_count():
    with pytest.raises(MemoryError, match="25 steps × 5 seeds"):
        device_memory.check(2, 1, CONFIG, seeds=5)


def test_a_run_that_cannot_fit_does_not_start(monkeypatch):
    monkeypatch.setattr(device_memory, "available", lambda: 10**6)
    model = FactoredPPO(contextual_bandit(100), n_envs=1000, n_steps=100, batch_size=1000, n_epochs=1)
    with pytest.raises(MemoryError, match="n_envs: got 1000"):
        model.learn(100_000, progress_bar=False)
    assert model.timesteps == 0


def test_what_is_needed_covers_what_is_kept():
    """A program that keeps a thousand copies of its argument needs at least as much."""
    n = 1000

    def keeps(x):
        return jnp.broadcast_to(x, (1000, n)) * jnp.arange(1000.0)[:, None]

    with pytest.MonkeyPatch.context() as patch:
        seen = []
        patch.setattr(device_memory, "check", lambda needed, *_: seen.append(needed))
        device_memory.compiled(keeps, jnp.ones(n), CONFIG)
    assert 4 * 1000 * n <= seen[0] <= 1.1 * 4 * 1000 * n + 10**5


def test_peak_memory_is_a_metric():
    model = FactoredPPO(contextual_bandit(4), n_envs=4, n_steps=4, batch_size=16, n_epochs=1)
    model.learn(16, progress_bar=False)
    assert 0.05 < model.history[0]["time/peak_gib"] < 100
