"""The neural networks of policies and critics, one kind per file, and their common parts.

- `choices`: the settings of networks, `make`: policies and critics for these settings;
- `mlp`: fully connected layers, on which all others are built;
- `arrangements`: one network for all components, one that is shared, or one per component;
- `convolution`: encoding of images by convolutions;
- `attention`: attention of components to their neighbours;
- `recurrent`: GRU and LSTM;
- `custom`: a user's own module;
- `numpy_policy`, `jax_policy`: policies that rollout workers evaluate.
"""

from .._lazy import lazy_imports

with lazy_imports(__name__):
    from .choices import ARCHITECTURES as ARCHITECTURES
    from .choices import POLICIES as POLICIES
    from .choices import Attention as Attention
    from .choices import AutoPolicy as AutoPolicy
    from .choices import Choices as Choices
    from .choices import Conv as Conv
    from .choices import Gru as Gru
    from .choices import IndependentPolicy as IndependentPolicy
    from .choices import JointPolicy as JointPolicy
    from .choices import Lstm as Lstm
    from .choices import Mlp as Mlp
    from .choices import SharedPolicy as SharedPolicy
    from .jax_policy import JaxPolicy as JaxPolicy
    from .make import make_action_values as make_action_values
    from .make import make_critic as make_critic
    from .make import make_policy as make_policy
    from .make import policy_arrays as policy_arrays
    from .make import policy_features as policy_features
    from .make import policy_kind as policy_kind
    from .make import uses_local as uses_local
    from .make import worker_policy as worker_policy
    from .numpy_policy import NumpyPolicy as NumpyPolicy
    from .numpy_policy import PolicyArrays as PolicyArrays
    from .policies import Agent as Agent
    from .policies import Critic as Critic
    from .policies import Policy as Policy
