"""Settings for every test."""

from hypothesis import settings

settings.register_profile("factorax", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("factorax")
