import pytest

IN_HASTE = (
    "test_adaptive",
    "test_checkpoints",
    "test_diagnostics",
    "test_factored_ppo",
    "test_learner",
    "test_learner_exact",
    "test_learner_variants",
    "test_learner_varying_networks",
    "test_missing_edges",
    "test_natural",
    "test_ppo_losses",
    "test_ppo_samples",
    "test_ppo_update",
)


@pytest.fixture(autouse=True, scope="module")
def in_haste(request):
    """Compile without most optimisations in these modules, whose programs are compiled once and run briefly."""
    if request.module.__name__.endswith(IN_HASTE):
        request.getfixturevalue("compiled_in_haste")
