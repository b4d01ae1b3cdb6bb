import pytest

IN_HASTE = ("test_film", "test_folder", "test_folder_killed", "test_seeds")


@pytest.fixture(autouse=True, scope="module")
def in_haste(request):
    """Most programs here are compiled once and run for a moment."""
    if request.module.__name__.endswith(IN_HASTE):
        request.getfixturevalue("compiled_in_haste")
