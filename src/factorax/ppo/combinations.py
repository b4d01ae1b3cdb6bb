"""Checks of settings that are incompatible with each other."""

from math import gcd
from typing import Any


def check_combinations(c: Any) -> None:
    """Raise ValueError if the settings of a `Config`, valid one by one, are incompatible."""
    if c.workers > c.n_envs:
        raise ValueError(f"workers: got {c.workers}, want at most n_envs = {c.n_envs}")
    if c.overlap and c.objective != "ppo":
        raise ValueError(
            f"overlap: got objective {c.objective!r}, want 'ppo': only its ratios correct for an older policy"
        )
    _check_architecture(c)
    _check_counterfactual(c)
    rollout = c.n_envs * c.n_steps
    if c.minibatch_of == "steps" and (rollout < c.batch_size or (rollout % c.batch_size and c.shuffle == "epoch")):
        largest = min(c.batch_size, rollout)
        near = range(largest, max(largest - 10_000, 0), -1)  # bounded, since settings may be in the billions
        fits = next((size for size in near if rollout % size == 0), gcd(c.batch_size, rollout))
        raise ValueError(
            f"batch_size: got {c.batch_size}, want a divisor of n_envs × n_steps = {rollout}, such as {fits}"
        )
    _check_minibatches(c)


def check_own_modules(c: Any, own: Any) -> None:
    """Raise ValueError if the settings of a `Config` are incompatible with the user's own networks (`OwnModules`)."""
    for name in ("policy", "critic"):
        if c.trunk == "shared" and getattr(own, name) is not None:
            raise ValueError(
                f"trunk: got 'shared' with your own module as {name}, want 'separate' or 'auto': only built-in "
                "networks share hidden layers"
            )
        if c.minibatch_of == "factors" and getattr(own, name) is not None:
            raise ValueError(
                f"minibatch_of: got 'factors' with your own module as {name}, want 'steps': a sample is one action of "
                "a built-in network for one factor"
            )
    if own.critic is not None and (c.is_counterfactual or c.critic == "none"):
        what = "a critic of actions, which is built in" if c.is_counterfactual else "no critic"
        raise ValueError(
            f"critic: got your own module, but the settings select critic={c.critic!r}, {what}; want only one of "
            "the two"
        )
    if own.policy is None or c.architecture == "mlp":
        return
    if c.is_recurrent:
        raise ValueError(
            f"architecture: got {c.architecture!r} with your own module as policy, want 'mlp': give the module a "
            "memory of its own instead, with the attribute memory"
        )
    if own.critic is not None or c.critic == "none":
        raise ValueError(
            f"architecture: got {c.architecture!r} with your own module as policy and no built-in critic, want "
            "'mlp': it applies only to built-in networks"
        )


def check_identity(spec: Any, c: Any, own: Any) -> None:
    """Raise ValueError if nothing tells the components of a shared policy apart."""
    if (
        c.policy == "shared"
        and own.policy is None
        and spec.local is None
        and not c.identity
        and len(spec.components) > 1
    ):
        raise ValueError(
            "identity: got 0 with policy='shared' and no local observations, so that all components would act alike; "
            "want identity=8, for example, or local=, a function from observations to those of each factor"
        )


def check_memory(c: Any, agent: Any) -> None:
    """Raise ValueError if the settings of a `Config` are incompatible with the memory of the user's own networks.

    Only the module tells whether it is recurrent, so the checks of recurrent architectures are made here, for an
    `Agent` that has been created.
    """
    name = "policy" if agent.policy.memory else "critic" if agent.critic and agent.critic.memory else None
    if name is None or c.is_recurrent:  # those were checked with the settings
        return
    what = f"your own module with memory as {name}"
    if c.is_counterfactual:
        raise ValueError(f"critic: got {c.critic!r} with {what}, want a module without memory: it is not recurrent")
    _check_shuffle(c, what)
    _check_sequences(c)


def _check_sequences(c: Any) -> None:
    """Raise if rollouts or minibatches do not consist of whole sequences."""
    for name in ("n_steps", "batch_size"):
        if getattr(c, name) % c.sequence_length:
            fits = gcd(gcd(c.n_steps, c.batch_size), c.sequence_length)
            raise ValueError(
                f"sequence_length: got {c.sequence_length}, want a divisor of {name} = {getattr(c, name)}, "
                f"such as {fits}"
            )


def _check_shuffle(c: Any, what: str) -> None:
    """Raise if single steps are shuffled although a network, `what`, is trained on sequences."""
    if c.shuffle == "rollout":
        raise ValueError(f"shuffle: got 'rollout' with {what}, want 'epoch'")


def _check_minibatches(c: Any) -> None:
    """Raise if settings of minibatches are incompatible."""
    if c.gae_steps is not None and c.n_steps % c.gae_steps:
        raise ValueError(f"gae_steps: got {c.gae_steps}, want a divisor of n_steps = {c.n_steps}")
    if c.is_recurrent:
        _check_shuffle(c, f"architecture={c.architecture!r}")
    if c.minibatch_of == "factors":
        wanted = {
            "estimator": ("factored",),
            "objective": ("ppo", "a2c"),
            "policy": ("auto", "shared"),
            "critic": ("auto", "factor", "none"),
            "architecture": ("mlp",),
            "covariance": ("diagonal",),
        }
        for name, allowed in wanted.items():
            if getattr(c, name) not in allowed:
                want = " or ".join(f"{name}={each!r}" for each in allowed if each != "auto")
                raise ValueError(
                    f"minibatch_of: got 'factors' with {name}={getattr(c, name)!r}, want {want}: a sample is one "
                    "action of a shared network for one factor"
                )
        if c.shares_trunk:
            raise ValueError("minibatch_of: got 'factors' with trunk='shared', want trunk='separate'")
        if c.target_kl is not None:
            raise ValueError(
                "minibatch_of: got 'factors' with target_kl, which is measured on the joint action; want only one of "
                "the two"
            )


def _check_architecture(c: Any) -> None:
    """Raise if settings of networks are incompatible."""
    if c.policy not in ("auto", "shared") and c.architecture in ("attention", "choices"):
        raise ValueError(
            f"architecture: got {c.architecture!r} with policy={c.policy!r}, want policy='shared': it applies to "
            "components that share a network"
        )
    if c.is_recurrent and not c.hidden:
        raise ValueError(f"hidden: got () with architecture={c.architecture!r}, want at least one layer")
    if c.is_recurrent and c.layer_norm:
        raise ValueError(f"layer_norm: got True with architecture={c.architecture!r}, want False")
    if c.is_recurrent:
        _check_sequences(c)
    if c.std != "component" and c.covariance == "full":
        raise ValueError(f"std: got {c.std!r} with covariance='full', want 'component'")
    if c.shares_trunk and c.objective == "natural":
        raise ValueError(
            f"trunk: got {c.trunk!r} with objective='natural', whose critic would change the policy after its "
            "step; want 'separate'"
        )


def _check_counterfactual(c: Any) -> None:
    """Raise if settings are incompatible with a critic of actions."""
    if c.critic != "reward":
        for name, default in (("default_action", ()), ("difference_at", "first")):
            if getattr(c, name) != default:
                raise ValueError(
                    f"{name}: got {getattr(c, name)!r} with critic={c.critic!r}, want critic='reward': it applies to "
                    "difference rewards"
                )
    if not c.is_counterfactual:
        return
    if c.estimator != "factored":
        raise ValueError(
            f"critic: got {c.critic!r} with estimator={c.estimator!r}, want estimator='factored': its credit is "
            "for the action of one factor"
        )
    if c.is_recurrent:
        raise ValueError(
            f"critic: got {c.critic!r} with architecture={c.architecture!r}, want 'mlp', 'conv' or 'attention': it "
            "is not recurrent"
        )
    if c.shares_trunk:
        raise ValueError(
            f"critic: got {c.critic!r} with trunk='shared', want trunk='separate': its inputs include actions"
        )
