"""Creation of policies and critics from the settings of a run, with initial parameters.

The argument `c` of these functions is any object with the attributes

- `policy`: a choice of `POLICIES`, or the user's own: a module, or a function of a `Spec` and a key that returns one;
- `architecture`: a choice of `ARCHITECTURES`; `hidden` and `activation`: sizes and activation of hidden layers.
"""

from typing import Any, Literal

import jax
import numpy as np

from ..choices import Choice
from ..spec import Spec
from .action_values import ActionValues
from .arrangements import Encoded, Independent, Joint, PerChoice, Shared
from .attention import AttentionNetwork
from .choices import Attention, Choices, Conv, Gru, IndependentPolicy, JointPolicy, Lstm, Mlp, SharedPolicy
from .convolution import Convolutional
from .custom import Custom, custom_network
from .jax_policy import JaxPolicy
from .mlp import LayerSettings
from .numpy_policy import NumpyPolicy, PolicyArrays
from .policies import Critic, Policy, TrunkHead
from .recurrent import Recurrent

EMBEDDING = 8
"""Default size of the embedding of components that share a network and observe the same."""


def make_policy(spec: Spec, c: Any, key: jax.Array) -> Policy:
    """Return a randomly initialised policy; raise ValueError if there is no such network."""
    components = spec.components
    shape = len(components), components.width
    if isinstance(c.policy, Choice):
        # The gain of Stable-Baselines3: at first, the policy hardly depends on the state.
        net = _network(spec, c, policy_kind(spec, c), key, shape=shape, gain=0.01, is_policy=True)
    else:
        meaning = (
            f"for each of {shape[0]} action components its {shape[1]} distribution parameters "
            "(Spec.components.describe_actions() tells which)"
        )
        net = custom_network("policy", c.policy, spec, key, shape, meaning)
    return Policy(net, components.spread(), spec.action_mask, learns_spread=not components.spread_of_state)


def make_critic(
    spec: Spec,
    c: Any,
    policy: Policy,
    key: jax.Array,
    *,
    values: int,
    meaning: str,
    per_factor: bool = False,
    trunk: Literal["auto", "separate", "shared"] = "auto",
    critic: Any = None,
) -> Critic:
    """Return a randomly initialised critic.

    - `values`: number of values for an observation; `meaning`: what they are, for messages.
    - `per_factor`: whether there is one value per factor, so that the critic may be arranged as the policy is.
    - `trunk`: ``"shared"`` for a linear layer on the policy's hidden layers, which both losses then train;
      ``"separate"`` for a network of its own; ``"auto"``: shared with a recurrent policy, whose memory it then uses.
    - `critic`: the user's own critic, a module, or a function of a `Spec` and a key that returns one.
    """
    if critic is not None:
        return Critic(custom_network("critic", critic, spec, key, (values,), meaning))
    kind, shares = policy_kind(spec, c), trunk == "shared" or (trunk == "auto" and isinstance(policy.net, Recurrent))
    has_groups = spec.factors is not None
    # Networks of factors with several components receive the local observations of all of them.
    groups_fit = isinstance(c.architecture, Mlp | Choices) and spec.local is not None and not shares
    if not per_factor or (has_groups and not groups_fit):
        kind = JointPolicy()
    if not shares:
        return Critic(_network(spec, c, kind, key, shape=(values, 1), gain=1.0, of_factors=has_groups))
    if isinstance(policy.net, Custom) and not policy.net.has_features:
        raise ValueError(
            f"trunk: got 'shared', but {type(policy.net.module).__name__} has no method features(obs, local), or has "
            "a memory; want trunk='separate'"
        )
    per_component = not isinstance(kind, JointPolicy)
    features = policy_features(spec, policy)
    head = TrunkHead(key, features, values, per_component=per_component, settings=_layer_settings(c))
    return Critic(head)


def make_action_values(spec: Spec, c: Any, key: jax.Array, *, outputs: int) -> ActionValues:
    """Return a critic of actions with this many values per factor: one per action, or that of a given action."""
    settings = _layer_settings(c)
    local = spec.local_shape if uses_local(spec, c) else None
    return ActionValues(
        key,
        _encoder(spec, c, key, settings),
        factors=tuple(range(spec.n_factors) if spec.factors is None else spec.factors.tolist()),
        width=max(int(spec.components.choices.max()), 1),
        outputs=outputs,
        settings=settings,
        by_factor=None if local is None else _factor_encoder(spec),
        local=0 if local is None else local[1],
    )


def policy_kind(spec: Spec, c: Any) -> Choice:
    """Return the kind of policy that the settings choose for a problem: joint, shared or independent.

    With the user's own policy, a critic of factors is arranged by the kind that ``"auto"`` stands for.
    """
    if isinstance(c.policy, JointPolicy | SharedPolicy | IndependentPolicy):
        return c.policy
    is_shared = isinstance(c.architecture, Attention | Choices) or spec.local is not None
    return SharedPolicy() if is_shared else JointPolicy()


def uses_local(spec: Spec, c: Any, critic: Any = None) -> bool:
    """Return whether a network uses the local observations of a problem: all but our own joint policies.

    - `critic`: the user's own critic, if there is one.
    """
    is_own = critic is not None or not isinstance(c.policy, Choice)
    return spec.local is not None and (is_own or not isinstance(policy_kind(spec, c), JointPolicy))


def policy_features(spec: Spec, policy: Policy) -> jax.ShapeDtypeStruct:
    """Return the shape of the input of the last layer of a policy for one observation, ``(1, c or 1, h)``."""
    like = lambda *shape: jax.ShapeDtypeStruct((1, *shape), np.float32)  # noqa: E731
    local = None if spec.local_shape is None else like(*spec.local_shape)
    memory = like(policy.memory) if policy.memory else None
    return jax.eval_shape(policy.features, like(spec.n_inputs), local, memory)


def worker_policy(spec: Spec, c: Any, policy: Policy) -> NumpyPolicy | JaxPolicy:
    """Return the policy that rollout workers evaluate, with the arrays of `policy_arrays`.

    `policy` defines the structure; its arrays are not used.
    """
    local = spec.local if uses_local(spec, c) else None
    if not _runs_in_numpy(policy):
        # Zeros: workers receive the parameters with each iteration.
        template = jax.tree.map(lambda x: np.zeros(np.shape(x), x.dtype), policy)
        return JaxPolicy(spec.components, spec.factors, local, spec.observations, template)
    kind: Any = policy_kind(spec, c).name
    return NumpyPolicy(
        spec.components,
        kind,
        spec.factors,
        local,
        None if spec.observations.is_plain else spec.observations,
        activation=c.activation,
        mask=spec.action_mask,
        by_choice=isinstance(policy.net, PerChoice),
    )


def policy_arrays(policy: Policy, moments: Any = None) -> PolicyArrays:
    """Return the parameters of a policy as NumPy arrays for workers.

    - `moments`: the moments of normalised observations, with the attributes `mean` and `variance`; None if they are not
      normalised.
    """
    spread, net = jax.tree.map(np.asarray, policy.spread), policy.net
    common: dict[str, Any] = {"log_std": spread.log_std, "mixing": spread.mixing}
    if moments is not None:
        common["centre"] = np.asarray(moments.mean)
        # The same constant as in the learner, whose log-probabilities are compared with those of workers.
        common["scale"] = np.sqrt(np.asarray(moments.variance) + np.float32(1e-8))
    if not _runs_in_numpy(policy):
        return PolicyArrays(leaves=tuple(map(np.asarray, jax.tree.leaves(policy))), **common)
    return PolicyArrays(
        kernels=tuple(map(np.asarray, net.net.kernels)),
        biases=tuple(map(np.asarray, net.net.biases)),
        identity=np.asarray(net.identity) if isinstance(net, Shared) else None,
        **common,
    )


def _runs_in_numpy(policy: Policy) -> bool:
    """Return whether workers evaluate a policy with NumPy: fully connected layers without normalisation."""
    net = policy.net
    if not isinstance(net, Joint | Shared | Independent) or not isinstance(net.encoder, Encoded):
        return False
    # Other activations would take NumPy several passes, and must map some number to exactly 1 (see `_BECOMES_ONE`).
    return not net.net.scales and net.net.activation in ("tanh", "relu")


def _layer_settings(c: Any) -> LayerSettings:
    return LayerSettings(c.hidden, c.activation, c.architecture.layer_norm, c.architecture.init, c.architecture.mlp)


def _encoder(spec: Spec, c: Any, key: jax.Array, settings: LayerSettings) -> Any:
    if isinstance(c.architecture, Conv):
        # Not the key itself, from which the layers behind the encoder are drawn.
        return Convolutional(jax.random.fold_in(key, 1), spec.observations, settings)
    return Encoded(spec.observations)


def _factor_encoder(spec: Spec) -> Encoded:
    return Encoded(spec.observations, tuple(map(tuple, spec.components_of_factor.tolist())))


def _network(
    spec: Spec,
    c: Any,
    kind: Choice,
    key: jax.Array,
    *,
    shape: tuple[int, int],
    gain: float,
    of_factors: bool = False,
    is_policy: bool = False,
) -> Any:
    """Return a network of a kind with outputs ``(c, width)``.

    With `of_factors`, one that is not joint is applied to factors of several components and has outputs ``(n, width)``.
    """
    architecture, settings, local = c.architecture, _layer_settings(c), spec.local_shape
    # Critics are exempt: those of targets are joint, whatever the policy is.
    if is_policy and isinstance(architecture, Attention | Choices) and not isinstance(kind, SharedPolicy):
        raise ValueError(
            f"architecture: got {architecture.name!r} with policy={kind.name!r}, want policy='shared': it applies to "
            "components that share a network"
        )
    is_joint = isinstance(kind, JointPolicy)
    encoder: Any = _factor_encoder(spec) if of_factors and not is_joint else _encoder(spec, c, key, settings)
    if is_joint and not isinstance(architecture, Gru):
        return Joint(key, encoder, shape, gain, settings)
    options: dict[str, Any] = {
        "key": key,
        "encoder": encoder,
        "inputs": encoder.size if is_joint else encoder.input_size(None if local is None else local[1]),
        "shape": shape,
        "gain": gain,
        "settings": settings,
    }
    if isinstance(kind, SharedPolicy):
        # From the same full observation, a shared network could not tell for which component it acts.
        alike = local is None and len(spec.components) > 1
        options["identity"] = EMBEDDING * alike if kind.identity is None else kind.identity
    if isinstance(architecture, Gru):
        if not c.hidden:
            raise ValueError(f"hidden: got () with architecture={architecture.name!r}, want at least one layer")
        cell = "lstm" if isinstance(architecture, Lstm) else "gru"
        return Recurrent(**options, arrangement=kind.name, cell=cell, sequence_length=architecture.sequence_length)
    if isinstance(kind, IndependentPolicy):
        return Independent(**options)
    if isinstance(architecture, Choices) and is_policy:
        if local is None:
            raise ValueError(
                "architecture: got 'choices', but the problem has no local observations; want one part of them per "
                "choice, by the argument local"
            )
        return PerChoice(**options)
    if isinstance(architecture, Attention):
        # Components are neighbours if they are of the same factor or of neighbouring ones.
        graph = spec.graph if spec.factors is None else spec.graph[np.ix_(spec.factors, spec.factors)]
        return AttentionNetwork(**options, graph=graph, rounds=architecture.rounds)
    return Shared(**options)
