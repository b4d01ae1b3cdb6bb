"""Creation of the networks defined by the settings, with initial parameters."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._checks import real_array
from .._text import shown
from ..ppo.config import Config
from ..spec import Spec
from .action_values import ActionValues
from .arrangements import Choices, Encoded, Independent, Joint, SeenByFactors, Shared
from .attention import Attention
from .convolution import Convolutional
from .custom import Custom, custom_network, seen_shape
from .factor_actions import FactorActions
from .mlp import LayerSettings
from .policies import Agent, Critic, Policy, TrunkHead
from .recurrent import Recurrent


class OwnModules(NamedTuple):
    """What the user defines of the networks in Python; None for ours."""

    policy: Any = None
    """A module, or a function of a `Spec` and a key that returns one."""
    critic: Any = None
    init: Any = None
    """The initialiser of our layers: a function of a key, a shape and a dtype."""

    @property
    def has_network(self) -> bool:
        """Whether one of the networks is the user's own."""
        return self.policy is not None or self.critic is not None


NO_MODULES = OwnModules()


def own_modules(settings: dict[str, Any]) -> dict[str, Any]:
    """Remove what the user defines in Python from the settings, where it shares names with built-in kinds."""
    is_own = lambda given: isinstance(given, eqx.Module) or (callable(given) and not isinstance(given, str))  # noqa: E731
    return {name: settings.pop(name) for name in OwnModules._fields if is_own(settings.get(name))}


def check_init(config: Config, own: OwnModules) -> None:
    """Raise unless the initialiser of the user is a function, and is there if the settings refer to it."""
    if own.init is not None and not callable(own.init):
        raise TypeError(
            f"init: got {shown(own.init)}, want a function (key, shape, dtype), such as "
            "jax.nn.initializers.glorot_uniform(); names belong in Config(init=…)"
        )
    if own.init is not None and own.policy is not None and (own.critic is not None or config.critic == "none"):
        raise ValueError(
            f"init: got {shown(own.init)} with your own modules as policy and critic, want it left "
            "out: it is for built-in layers"
        )
    if config.init == "custom" and own.init is None:
        raise ValueError(
            "init: got 'custom' without a function, want 'orthogonal', 'lecun', 'he' or 'normc', or in Python the "
            "function itself, as in FactoredPPO(…, init=jax.nn.initializers.glorot_uniform())"
        )


def runs_in_numpy(config: Config, own: OwnModules) -> bool:
    """Return whether workers can evaluate the policy with NumPy: only our own layers."""
    c = config
    plain = c.architecture in ("mlp", "choices") and not c.layer_norm
    return own.policy is None and plain and c.activation in ("tanh", "relu")


def make_agent(spec: Spec, config: Config, own: OwnModules, for_policy: jax.Array, for_critic: jax.Array) -> Agent:
    """Return a randomly initialised policy and critic with the shapes that settings and network require."""
    c, components = config.for_problem(spec), spec.components
    shape = len(components), components.width
    if own.policy is None:
        kind = "choices" if c.architecture == "choices" else c.policy
        net: Any = make_network(spec, c, kind, for_policy, shape=shape, gain=0.01, init=own.init)
    else:
        meaning = (
            f"for each of {shape[0]} action components its {shape[1]} distribution parameters "
            "(Spec.components.describe_actions() tells which)"
        )
        net = custom_network("policy", own.policy, spec, for_policy, shape, meaning)
    spread = components.spread(c.initial_log_std, one=c.std == "shared")
    policy = Policy(net, spread, spec.action_mask, learns_spread=c.std != "state")
    if c.critic == "none":
        return Agent(policy, None)
    if c.is_counterfactual:
        return Agent(policy, Critic(make_action_values(spec, c, own, for_critic)))
    kind, (values, meaning) = "joint", _critic_values(spec, c)
    if c.critic == "factor" and c.estimator == "factored" and (spec.factors is None or _has_critics_of_groups(spec, c)):
        kind = c.policy
    if own.critic is not None:
        return Agent(policy, Critic(custom_network("critic", own.critic, spec, for_critic, (values,), meaning)))
    if c.shares_trunk and own.policy is None:
        features = policy_features(spec, policy, looks_at_local(spec, c, own))
        head = TrunkHead(
            for_critic, features, values, per_component=kind != "joint", settings=layer_settings(c, own.init)
        )
        return Agent(policy, Critic(head))
    of_groups = kind != "joint" and spec.factors is not None
    net = make_network(spec, c, kind, for_critic, shape=(values, 1), gain=1.0, of_groups=of_groups, init=own.init)
    return Agent(policy, Critic(net))


def _critic_values(spec: Spec, config: Config) -> tuple[int, str]:
    """Return the number of values that the critic predicts, and what they are."""
    c, n, m = config, spec.n_factors, spec.n_targets
    if c.critic == "target":
        more = spec.network.n_factor_values if c.estimator == "factored" else 0
        also = f" ({m}), then {more} values of factors, because the network is a {type(spec.network).__name__}"
        return m + more, f"one value per target{also if more else ''}"
    if c.estimator == "vanilla" or c.critic == "central":
        return 1, "one value, that of the weighted sum of all targets"
    return n, "one value per factor, that of its credit"


def _has_critics_of_groups(spec: Spec, config: Config) -> bool:
    """Return whether a critic of factors with several components receives the observations of all of them."""
    plain = config.architecture in ("mlp", "choices") and not config.shares_trunk
    return plain and config.policy != "joint" and spec.local is not None


def layer_settings(config: Config, init: Any = None) -> LayerSettings:
    """Return the settings of layers; `init` is the user's initialiser, None for that of the settings."""
    c = config
    return LayerSettings(c.hidden, c.activation, c.layer_norm, c.init if init is None else init)


def make_action_values(spec: Spec, config: Config, own: OwnModules, key: jax.Array) -> ActionValues:
    """Return the critic of actions: one value per action of each factor, or the value of a given action."""
    c, settings = config, layer_settings(config, own.init)
    of = range(spec.n_factors) if spec.factors is None else spec.factors.tolist()
    local = seen_shape(spec) if looks_at_local(spec, c, own) else None
    index = tuple(map(tuple, spec.seen_by_factor.tolist()))
    by_factor = None if local is None else SeenByFactors(Encoded(spec.observations), index)
    return ActionValues(
        key,
        _encoder(spec, c, key, settings),
        factors=tuple(of),
        width=max(int(spec.components.choices.max()), 1),
        outputs=1 if c.default_action else FactorActions.of(spec, critic=c.critic).most,
        settings=settings,
        by_factor=by_factor,
        local=0 if local is None else local[1],
    )


def looks_at_local(spec: Spec, config: Config, own: OwnModules) -> bool:
    """Return whether a network uses local observations if there are any: all but our own joint policies."""
    return spec.local is not None and (config.policy != "joint" or own.has_network)


def policy_features(spec: Spec, policy: Policy, local: bool) -> jax.ShapeDtypeStruct:
    """Return the shape of the input of the last layer of a policy for one observation, ``(1, c or 1, h)``.

    `local`: whether the policy uses local observations.
    """
    row = jax.ShapeDtypeStruct((1, spec.n_inputs), np.float32)
    local_shape = jax.ShapeDtypeStruct((1, *(seen_shape(spec) or ())), np.float32) if local else None
    memory = jax.ShapeDtypeStruct((1, policy.memory), np.float32) if policy.memory else None
    return jax.eval_shape(policy.features, row, local_shape, memory)


def _encoder(spec: Spec, config: Config, key: jax.Array, settings: LayerSettings) -> Any:
    if config.architecture == "conv":
        return Convolutional(jax.random.fold_in(key, 1), spec.observations, settings)
    return Encoded(spec.observations)


def make_network(
    spec: Spec,
    config: Config,
    kind: str,
    key: jax.Array,
    *,
    shape: tuple[int, int],
    gain: float,
    of_groups: bool = False,
    init: Any = None,
) -> Any:
    """Return a network of a kind (``"joint"``, ``"shared"``, ``"choices"``, ``"independent"``) with outputs ``(c,
    width)``.

    With `of_groups`, it is applied to factors of several components and has outputs ``(n, width)``. `init` is as for
    `layer_settings`.
    """
    c, settings = config, layer_settings(config, init)
    encoder: Any = _encoder(spec, c, key, settings)
    if kind == "joint" and not c.is_recurrent:
        return Joint(key, encoder, shape, gain, settings)
    if of_groups:
        encoder = SeenByFactors(encoder, tuple(map(tuple, spec.seen_by_factor.tolist())))
    local = None if kind == "joint" else seen_shape(spec)
    options: dict[str, Any] = {
        "key": key,
        "encoder": encoder,
        "inputs": encoder.size if kind == "joint" else encoder.seen_size(None if local is None else local[1]),
        "shape": shape,
        "gain": gain,
        "settings": settings,
    }
    if c.is_recurrent:
        return Recurrent(**options, arrangement=kind, cell=c.architecture, identity=c.identity)
    if kind == "independent":
        return Independent(**options)
    options["identity"] = c.identity
    if kind == "choices":
        if local is None:
            raise ValueError(
                "architecture: got 'choices', but the problem has no local observations; want one part of them per "
                "choice, by the argument local"
            )
        return Choices(**options)
    if c.architecture == "attention":
        # Components are neighbours if they are of the same factor or of neighbouring ones.
        graph = spec.graph if spec.factors is None else spec.graph[np.ix_(spec.factors, spec.factors)]
        return Attention(**options, graph=graph, rounds=c.rounds)
    return Shared(**options)


def module_names(agent: Agent) -> dict[str, str]:
    """Return the class names of the user's own modules in an agent, for a file: names, never code."""
    nets = {"policy": agent.policy.net, "critic": agent.critic and agent.critic.net}
    kinds = {name: type(net.module) for name, net in nets.items() if isinstance(net, Custom)}
    return {name: f"{kind.__module__}.{kind.__qualname__}" for name, kind in kinds.items()}


def memory_of(state: Any, episode_start: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return the memory of a recurrent policy, ``(B, h)``, from the arguments of `predict`."""
    if state is None:
        return np.zeros(shape, np.float32)
    memory = real_array("state", state).astype(np.float32)
    if memory.shape != shape:
        raise ValueError(
            f"state: got shape {memory.shape}, want {shape}, the state that the last call of predict returned"
        )
    if episode_start is None:
        return memory
    starts = np.broadcast_to(real_array("episode_start", episode_start), shape[:1])
    return np.where(starts[:, None], 0.0, memory).astype(np.float32)
