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
    "test_varying",
    "test_watching",
)


@pytest.fixture(autouse=True, scope="module")
def in_haste(request):
    """Most programs here are compiled once and run for a moment."""
    if request.module.__name__.endswith(IN_HASTE):
        request.getfixturevalue("compiled_in_haste")
