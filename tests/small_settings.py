"""Settings of a small model; tests that use them share what it compiles."""

SMALL = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}
