"""Settings that are refused, with the key fact of each message. `docs/settings_tables.py` makes a table of it."""

import math

NAN, INF = math.nan, math.inf
COUNT = "a whole number from 1 to 2,147,483,647"
SIZES = "want a sequence, each entry a whole number from 1 to 65,536"


def growing(progress):
    """A schedule that ends below zero."""
    return progress - 0.5


BAD = [
    ({"objective": "PPO"}, "want 'ppo', 'a2c' or 'natural'; did you mean 'ppo'?"),
    ({"objective": "trpo"}, "did you mean 'natural'?"),
    ({"objective": None}, "got None"),
    ({"estimator": "fpg"}, "did you mean 'factored'?"),
    ({"policy": "MlpPolicy"}, "did you mean 'joint'?"),
    ({"critic": "foo"}, "want 'auto', 'target', 'factor', 'central', 'q', 'reward' or 'none'"),
    ({"default_action": (0.0,)}, "want critic='reward'"),
    ({"difference_at": "last"}, "want 'first' or 'every'"),
    ({"bootstrap": True}, "want 'auto', 'never' or 'always'"),
    ({"covariance": "blah"}, "want 'diagonal' or 'full'"),
    ({"bounded": "squash"}, "did you mean 'tanh'?"),
    ({"rollouts": "process"}, "did you mean 'processes'?"),
    ({"device": "cuda:0"}, "did you mean 'cuda'?"),
    ({"learning_rate": -3e-4}, "want a number of at least 0, or a function of the remaining progress"),
    ({"learning_rate": NAN}, "got nan"),
    ({"learning_rate": INF}, "got inf"),
    ({"learning_rate": "3e-4"}, "got '3e-4'"),
    ({"learning_rate": growing}, "it is -0.5 at the remaining progress 0"),
    ({"learning_rate": [1e-3]}, "got [0.001]"),
    ({"clip_range": 0}, "want a number above 0"),
    ({"clip_range_vf": "none"}, "want a number above 0, or None"),
    ({"ent_coef": -0.01}, "want a number of at least 0"),
    ({"vf_coef": -1}, "want a number of at least 0"),
    ({"max_grad_norm": 0}, "want a number above 0, or None"),
    ({"gamma": 1.5}, "want a number from 0 to 1"),
    ({"gamma": True}, "got True"),
    ({"gae_lambda": -0.1}, "want a number from 0 to 1"),
    ({"target_kl": 0.0}, "want a number above 0, or None"),
    ({"kl_coef": -0.2}, "want a number of at least 0"),
    ({"kl_coef_target": -1}, "want a number above 0, or None"),
    ({"natural_kl": 0}, "want a number above 0"),
    ({"damping": NAN}, "want a number of at least 0"),
    ({"initial_log_std": 1000}, "want a number from -20 to 10"),
    ({"n_envs": 1.5}, f"want {COUNT}"),
    ({"n_envs": 2**62}, f"want {COUNT}"),
    ({"n_steps": -1}, f"want {COUNT}"),
    ({"n_epochs": 0}, f"want {COUNT}"),
    ({"total_timesteps": 10**12}, f"want {COUNT}"),
    ({"batch_size": 7}, "want a divisor of n_envs × n_steps = 2048, such as 4"),
    ({"batch_size": 4096}, "such as 2048"),
    ({"seed": -1}, "want a whole number from 0 to 4,294,967,295, or None"),
    ({"hidden": 64}, SIZES),
    ({"hidden": (64, 0)}, SIZES),
    ({"hidden": {64, 8}}, SIZES),
    ({"hidden": b"x@"}, SIZES),
    ({"identity": -8}, "want a whole number from 0 to 4,096"),
    ({"architecture": "cnn"}, "did you mean 'conv'?"),
    ({"architecture": "attention", "policy": "joint"}, "want policy='shared'"),
    ({"hidden": (), "architecture": "gru"}, "want at least one layer"),
    ({"sequence_length": 24, "architecture": "lstm"}, "want a divisor of n_steps = 256, such as 8"),
    ({"layer_norm": True, "architecture": "gru"}, "want False"),
    ({"activation": "rely"}, "did you mean 'relu'?"),
    ({"init": "xavier"}, "want 'orthogonal', 'lecun', 'he', 'normc' or 'custom'"),
    ({"minibatch_of": "agents"}, "want 'steps' or 'factors'"),
    ({"shuffle": True}, "want 'epoch' or 'rollout'"),
    ({"normalize_over": "batch"}, "want 'minibatch' or 'rollout'"),
    ({"kl_of": "light"}, "want 'auto', 'factor' or 'action'"),
    ({"gae_steps": 100}, "want a divisor of n_steps = 256"),
    ({"adam_eps": 0}, "want a number above 0"),
    ({"reward_scale": -1}, "want a number above 0"),
    ({"trunk": "share"}, "did you mean 'shared'?"),
    ({"trunk": "shared", "objective": "natural"}, "want 'separate'"),
    ({"rounds": 0}, "want a whole number from 1 to 16"),
    ({"std": "states"}, "did you mean 'state'?"),
    ({"std": "state", "covariance": "full"}, "want 'component'"),
    ({"anneal": ("gamma",)}, "each entry 'learning_rate', 'clip_range' or"),
    ({"normalize_advantage": 1}, "want True or False"),
    ({"overlap": True, "objective": "a2c"}, "want 'ppo'"),
    ({"workers": 9}, "want at most n_envs = 8"),
    ({"worker_cpus": -1}, "want a number of at least 0"),
    ({"fragment_seconds": 0}, "want a number above 0"),
    ({"ray_address": 6379}, "want a text"),
    ({"devices": -1}, "want a whole number from 0"),
]
UNKNOWN = [
    ("learning_rat", "did you mean learning_rate?"),
    ("discount", "use gamma"),
    ("policy_kwargs", "use hidden"),
    ("foo", "see factorax.ppo.Config"),
]
"""Settings that do not exist."""
