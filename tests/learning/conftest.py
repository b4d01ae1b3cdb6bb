import jax
import pytest

IN_HASTE = (
    "test_exact",
    "test_killed",
    "test_learner",
    "test_many",
    "test_plain",
    "test_ppo",
    "test_runs",
    "test_variants",
    "test_watching",
)


@pytest.fixture(autouse=True, scope="module")
def compiled_in_haste(request):
    """Most programs here are compiled once and run for a moment: XLA's optimisations take longer than they save."""
    if not request.module.__name__.endswith(IN_HASTE):
        yield
        return
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()  # what was compiled in haste rounds otherwise, and must not serve other tests
