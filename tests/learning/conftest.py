import jax
import pytest

IN_HASTE = ("test_exact", "test_learner", "test_ppo")


@pytest.fixture(autouse=True, scope="module")
def compiled_in_haste(request):
    """Most programs here are compiled once and run for a moment: XLA's optimisations take longer than they save."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", request.module.__name__.endswith(IN_HASTE))
    yield
    jax.config.update("jax_disable_most_optimizations", before)
