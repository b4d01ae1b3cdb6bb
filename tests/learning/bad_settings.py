"""Settings that are refused, and the message of each. `docs/settings_tables.py` makes a table of it."""

import math

NAN, INF = math.nan, math.inf
COUNT = "a whole number from 1 to 2,147,483,647"
OR_NONE = "a whole number from 0 to 2,147,483,647"
FUNCTION = ", or a function of the remaining progress"


def growing(progress):
    """A schedule that ends below zero."""
    return progress - 0.5


BAD = [
    ({"objective": "PPO"}, "objective: got 'PPO', want 'ppo', 'a2c' or 'natural'; did you mean 'ppo'?"),
    ({"objective": "trpo"}, "objective: got 'trpo', want 'ppo', 'a2c' or 'natural'; did you mean 'natural'?"),
    ({"objective": None}, "objective: got None, want 'ppo', 'a2c' or 'natural'"),
    ({"estimator": "fpg"}, "estimator: got 'fpg', want 'factored' or 'vanilla'; did you mean 'factored'?"),
    ({"estimator": "vanila"}, "estimator: got 'vanila', want 'factored' or 'vanilla'; did you mean 'vanilla'?"),
    (
        {"policy": "MlpPolicy"},
        "policy: got 'MlpPolicy', want 'joint', 'shared' or 'independent'; did you mean 'joint'?",
    ),
    ({"policy": "share"}, "policy: got 'share', want 'joint', 'shared' or 'independent'; did you mean 'shared'?"),
    ({"critic": "foo"}, "critic: got 'foo', want 'target', 'factor', 'central', 'q', 'reward' or 'none'"),
    ({"critic": None}, "'central', 'q', 'reward' or 'none'; did you mean 'none'?"),
    ({"default_action": ("up",)}, "default_action"),
    ({"default_action": (0.0,)}, "default_action: got (0.0,) with critic='target', want critic='reward'"),
    ({"difference_at": "last"}, "difference_at: got 'last', want 'first' or 'every'"),
    ({"bootstrap": "maybe"}, "bootstrap: got 'maybe', want 'auto', 'never' or 'always'"),
    ({"bootstrap": True}, "bootstrap: got True, want 'auto', 'never' or 'always'"),
    ({"covariance": "blah"}, "covariance: got 'blah', want 'diagonal' or 'full'"),
    ({"bounded": "squash"}, "; did you mean 'tanh'?"),
    ({"rollouts": "process"}, "'inline', 'processes' or 'ray'; did you mean 'processes'?"),
    ({"device": "cuda:0"}, "device: got 'cuda:0', want 'auto', 'cpu', 'gpu', 'cuda' or 'tpu'; did you mean 'cuda'?"),
    ({"learning_rate": -3e-4}, f"learning_rate: got -0.0003, want a number of at least 0{FUNCTION}"),
    ({"learning_rate": NAN}, f"learning_rate: got nan, want a number of at least 0{FUNCTION}"),
    ({"learning_rate": INF}, f"learning_rate: got inf, want a number of at least 0{FUNCTION}"),
    ({"learning_rate": "3e-4"}, f"learning_rate: got '3e-4', want a number of at least 0{FUNCTION}"),
    ({"learning_rate": growing}, "it is -0.5 at the remaining progress 0"),
    ({"learning_rate": [1e-3]}, f"learning_rate: got [0.001], want a number of at least 0{FUNCTION}"),
    ({"clip_range": -0.1}, f"clip_range: got -0.1, want a number above 0{FUNCTION}"),
    ({"clip_range": 0}, f"clip_range: got 0, want a number above 0{FUNCTION}"),
    ({"clip_range_vf": 0}, "clip_range_vf: got 0, want a number above 0, or None"),
    ({"clip_range_vf": "none"}, "clip_range_vf: got 'none', want a number above 0, or None"),
    ({"ent_coef": -0.01}, f"ent_coef: got -0.01, want a number of at least 0{FUNCTION}"),
    ({"vf_coef": -1}, "vf_coef: got -1, want a number of at least 0"),
    ({"max_grad_norm": 0}, "max_grad_norm: got 0, want a number above 0, or None"),
    ({"gamma": 1.5}, "gamma: got 1.5, want a number from 0 to 1"),
    ({"gamma": "0.99"}, "gamma: got '0.99', want a number from 0 to 1"),
    ({"gamma": True}, "gamma: got True, want a number from 0 to 1"),
    ({"gae_lambda": -0.1}, "gae_lambda: got -0.1, want a number from 0 to 1"),
    ({"target_kl": 0.0}, "target_kl: got 0.0, want a number above 0, or None"),
    ({"kl_coef": -0.2}, "kl_coef: got -0.2, want a number of at least 0"),
    ({"kl_coef_target": -1}, "kl_coef_target: got -1, want a number above 0, or None"),
    ({"natural_kl": 0}, "natural_kl: got 0, want a number above 0"),
    ({"damping": NAN}, "damping: got nan, want a number of at least 0"),
    ({"initial_log_std": 1000}, "initial_log_std: got 1000, want a number from -20 to 10"),
    ({"n_envs": 0}, f"n_envs: got 0, want {COUNT}"),
    ({"n_envs": 1.5}, f"n_envs: got 1.5, want {COUNT}"),
    ({"n_envs": 2**62}, f"n_envs: got 4611686018427387904, want {COUNT}"),
    ({"n_steps": -1}, f"n_steps: got -1, want {COUNT}"),
    ({"n_epochs": 0}, f"n_epochs: got 0, want {COUNT}"),
    ({"total_timesteps": 10**12}, f"total_timesteps: got 1000000000000, want {COUNT}"),
    ({"batch_size": 7}, "batch_size: got 7, want a divisor of n_envs × n_steps = 2048, such as 4"),
    ({"batch_size": 4096}, "batch_size: got 4096, want a divisor of n_envs × n_steps = 2048, such as 2048"),
    ({"seed": -1}, "seed: got -1, want a whole number from 0 to 4,294,967,295, or None"),
    ({"seed": 0.5}, "seed: got 0.5, want a whole number from 0 to 4,294,967,295, or None"),
    ({"hidden": 64}, "hidden: got 64, want a sequence, each entry a whole number from 1 to 65,536"),
    ({"hidden": {64, 8}}, "want a sequence, each entry a whole number from 1 to 65,536"),
    ({"hidden": b"x@"}, "want a sequence, each entry a whole number from 1 to 65,536"),
    ({"hidden": (64, 0)}, "hidden: got (64, 0), want a sequence, each entry a whole number from 1 to 65,536"),
    ({"hidden": (10**9,)}, "hidden: got (1000000000,), want a sequence, each entry a whole number from 1 to 65,536"),
    ({"identity": -8}, "identity: got -8, want a whole number from 0 to 4,096"),
    (
        {"architecture": "cnn"},
        "architecture: got 'cnn', want 'mlp', 'gru', 'lstm', 'conv', 'attention' or 'choices'; did you mean 'conv'?",
    ),
    (
        {"architecture": "attention"},
        "architecture: got 'attention' with policy='joint', want policy='shared': it applies to components that "
        "share a "
        "network",
    ),
    ({"hidden": (), "architecture": "gru"}, "hidden: got () with architecture='gru', want at least one layer"),
    (
        {"sequence_length": 24, "architecture": "lstm"},
        "sequence_length: got 24, want a divisor of n_steps = 256, such as 8",
    ),
    ({"layer_norm": True, "architecture": "gru"}, "layer_norm: got True with architecture='gru', want False"),
    ({"layer_norm": "yes"}, "layer_norm: got 'yes', want True or False"),
    (
        {"activation": "rely"},
        "activation: got 'rely', want 'tanh', 'relu', 'elu', 'gelu' or 'silu'; did you mean 'relu'?",
    ),
    ({"init": "xavier"}, "init: got 'xavier', want 'orthogonal', 'lecun', 'he', 'normc' or 'custom'"),
    ({"minibatch_of": "agents"}, "minibatch_of: got 'agents', want 'steps' or 'factors'"),
    ({"shuffle": True}, "shuffle: got True, want 'epoch' or 'rollout'"),
    ({"normalize_over": "batch"}, "normalize_over: got 'batch', want 'minibatch' or 'rollout'"),
    ({"kl_of": "light"}, "kl_of: got 'light', want 'auto', 'factor' or 'action'"),
    ({"gae_steps": 0}, f"gae_steps: got 0, want {COUNT}, or None"),
    ({"gae_steps": 100}, "gae_steps: got 100, want a divisor of n_steps = 256"),
    ({"adam_eps": 0}, "adam_eps: got 0, want a number above 0"),
    ({"reward_scale": -1}, "reward_scale: got -1, want a number above 0"),
    ({"trunk": "share"}, "trunk: got 'share', want 'auto', 'separate' or 'shared'; did you mean 'shared'?"),
    (
        {"trunk": "shared", "objective": "natural"},
        "trunk: got 'shared' with objective='natural', whose critic would change the policy after its step; want "
        "'separate'",
    ),
    ({"rounds": 0}, "rounds: got 0, want a whole number from 1 to 16"),
    ({"std": "states"}, "std: got 'states', want 'component', 'shared' or 'state'; did you mean 'state'?"),
    ({"std": "state", "covariance": "full"}, "std: got 'state' with covariance='full', want 'component'"),
    ({"anneal": ("gamma",)}, "anneal: got ('gamma',), want a sequence, each entry 'learning_rate', 'clip_range' or"),
    ({"anneal": "learning_rate"}, "anneal: got 'learning_rate', want a sequence, each entry"),
    ({"normalize_advantage": 1}, "normalize_advantage: got 1, want True or False"),
    ({"normalize_obs": "yes"}, "normalize_obs: got 'yes', want True or False"),
    (
        {"overlap": True, "objective": "a2c"},
        "overlap: got objective 'a2c', want 'ppo': only its ratios correct for an older policy",
    ),
    ({"workers": 9}, "workers: got 9, want at most n_envs = 8"),
    ({"workers": -1}, f"workers: got -1, want {OR_NONE}"),
    ({"worker_cpus": -1}, "worker_cpus: got -1, want a number of at least 0"),
    ({"fragment_seconds": 0}, "fragment_seconds: got 0, want a number above 0"),
    ({"ray_address": 6379}, "ray_address: got 6379, want a text"),
    ({"devices": -1}, f"devices: got -1, want {OR_NONE}"),
]
UNKNOWN = [
    ("learning_rat", "learning_rat: no such setting; did you mean learning_rate?"),
    ("normalise_obs", "normalise_obs: no such setting; did you mean normalize_obs?"),
    ("discount", "discount: no such setting; use gamma"),
    ("lr", "lr: no such setting; use learning_rate"),
    (
        "policy_kwargs",
        "policy_kwargs: no such setting; use hidden for its net_arch, initial_log_std for its log_std_init",
    ),
    ("use_sde", "use_sde: no such setting; use initial_log_std: state-dependent exploration is not available"),
    ("foo", "foo: no such setting; see factorax.learning.Config"),
]
"""Settings that do not exist."""
