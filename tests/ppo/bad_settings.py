"""Settings that are refused, with the key fact of each message."""

import math

NAN, INF = math.nan, math.inf
COUNT = "a whole number from 1 to 2,147,483,647"
SIZES = "want a sequence, each entry a whole number from 1 to 65,536"


def growing(progress):
    """A schedule that ends below zero."""
    return progress - 0.5


BAD = [
    ({"method": "PPO"}, "did you mean 'ppo'?"),
    ({"method": "trpo"}, "did you mean 'natural'?"),
    ({"method": "fpg"}, "did you mean 'factored'?"),
    ({"method": None}, "got None, want 'factored', 'ppo'"),
    ({"method": "natural,kl=0"}, "kl: got 0, want a number above 0"),
    ({"method": "natural,damping=nan"}, "damping: got nan"),
    ({"method": "difference-rewards,at=last"}, "want 'first' or 'every'"),
    ({"method": "coma,default_action=0"}, "coma has no settings; difference-rewards has default_action"),
    ({"policy": "MlpPolicy"}, "did you mean 'joint'?"),
    ({"policy": "shared,identity=-8"}, "identity: got -8, want a whole number from 0 to 4,096, or None"),
    ({"critic": "foo"}, "want 'auto', 'target', 'factor' or 'none'"),
    ({"critic": "target,trunk=share"}, "did you mean 'shared'?"),
    ({"critic": "target,module=net"}, "got the setting module for target, want trunk"),
    ({"architecture": "cnn"}, "did you mean 'conv'?"),
    ({"architecture": "mlp,rounds=2"}, "got the setting rounds for mlp, want layer_norm, init; attention has rounds"),
    ({"architecture": "gru,layer_norm=true"}, "want sequence_length, init; mlp, conv, attention"),
    ({"architecture": "gru,sequence_lenght=8"}, "did you mean sequence_length?"),
    ({"architecture": "gru,sequence_length=0"}, f"sequence_length: got 0, want {COUNT}"),
    ({"architecture": "gru,8"}, "got '8' in 'gru,8', want name,key=value,…"),
    ({"architecture": "attention,rounds=0"}, "want a whole number from 1 to 16"),
    ({"architecture": "mlp,init=orthagonal"}, "did you mean 'orthogonal'?"),
    ({"distribution": "squash"}, "did you mean 'tanh'?"),
    ({"distribution": "scale,std=states"}, "did you mean 'state'?"),
    ({"distribution": "beta,std=full"}, "beta has no settings; scale, clip and tanh have std"),
    ({"distribution": "clip,initial_log_std=1000"}, "want a number from -20 to 10"),
    ({"rollouts": "process"}, "did you mean 'processes'?"),
    ({"rollouts": "inline,workers=2"}, "processes and ray have workers"),
    ({"rollouts": "processes,workers=-1"}, "workers: got -1, want a whole number from 0"),
    ({"rollouts": "ray,cpus=-1"}, "cpus: got -1, want a number of at least 0"),
    ({"rollouts": "inline,seconds=0"}, "seconds: got 0, want a number above 0"),
    ({"device": "cuda:0"}, "did you mean 'cuda'?"),
    ({"device": "auto,count=-1"}, "count: got -1, want a whole number from 0"),
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
    ({"activation": "rely"}, "did you mean 'relu'?"),
    ({"reward_scale": -1}, "want a number above 0"),
    ({"anneal": ("gamma",)}, "each entry 'learning_rate', 'clip_range' or"),
    ({"normalize_advantage": 1}, "want True or False"),
]
UNKNOWN = [
    ("learning_rat", "did you mean learning_rate?"),
    ("discount", "use gamma"),
    ("policy_kwargs", "use hidden"),
    ("foo", "see factorax.ppo.Config"),
]
"""Settings that do not exist."""
