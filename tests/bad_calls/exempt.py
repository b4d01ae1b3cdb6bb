"""Public names without rows in the tables of bad calls, each with the reason."""

_RECORD = "a record of what the library computes; users read it"
_INSIDE = "runs inside the compiled program or once per step, on what was checked when the learner was made"
_ENGINE = "steps environments for the learner, which checks the Spec and the Config that it hands on"
_CALLED = "the library calls it, with its own objects"
_PASSED = "passes its arguments on to the method of FactoredPPO, which has rows"
_ANY = "any value will do"
_SB3 = "is there for the signature of Stable-Baselines3, and is not read"

EXEMPT = {
    **dict.fromkeys(
        f"distributions.{kind}"
        for kind in [
            "Bernoulli",
            "Beta",
            "Categorical",
            "Distribution",
            "Gaussian",
            "ScaledGaussian",
            "SquashedGaussian",
        ]
    ),
    **dict.fromkeys(
        f"rollouts.{name}"
        for name in [
            "Backend",
            "BatchedEnvironments",
            "Behaviour",
            "Collector",
            "HostCollector",
            "HostEnvironments",
            "Inline",
            "Iteration",
            "JaxCollector",
            "JaxEnvironments",
            "NumpyPolicy",
            "Plan",
            "PolicyArrays",
            "Processes",
            "RayActors",
            "Transition",
            "collector_for",
        ]
    ),
}
EXEMPT = {name: _INSIDE if name.startswith("distributions") else _ENGINE for name in EXEMPT}
EXEMPT |= {
    "BatchedSimulator": "says what a simulator has to do; `from_batched` checks what it returns",
    "integrations.FactoredVector": "the function `wrap` makes it",
    "PPO.evaluate": _PASSED,
    "PPO.learn": _PASSED,
    "distributions.Spread": _RECORD,
    "gradients.Estimate": _RECORD,
    "gradients.FittedBaseline": _RECORD,
    "gradients.VarianceReport": _RECORD,
    "gradients.BiasReport": _RECORD,
    "learning.Agent": _RECORD,
    "spaces.ActionMask": _INSIDE,
    "spaces.ActionMask.of": _INSIDE,
    "spaces.sample_valid": _INSIDE,
    "learning.Hyper": _RECORD,
    "learning.Program": _CALLED,
    "learning.TrainState": _RECORD,
    "learning.TrainingBatch": _RECORD,
    "learning.Update": _INSIDE,
    "problems.Step": _RECORD,
    "problems.market.Market": "the function `market` makes it",
    "problems.market.Optimum": "the function `optimum` makes it",
    "problems.market.Optimum.rule": _INSIDE,
    "problems.market.ClosedForm.rule": _INSIDE,
    "problems.traffic.LaneProblem": "the function `lanes` makes it",
    "problems.traffic.Readings": _RECORD,
    "problems.traffic.Signals": _RECORD,
    "problems.traffic.local_observations": _INSIDE,
    "problems.traffic.observe": _INSIDE,
    "problems.traffic.stop_line_detectors": _INSIDE,
    "problems.traffic.play": _INSIDE,
    "problems.traffic.play_in_sumo": "needs SUMO",
    "problems.traffic.switch": _INSIDE,
    "spaces.ActionSpace": "its method `of` makes it, with the checks of Product",
    "spaces.has_bounds": _CALLED,
    "Spec": "its methods `of` and `of_spaces` make it",
    "spec.check_callable": _CALLED,
    "spec.declared_network": _CALLED,
    "spec.is_jax": _ANY,
    "spec.observed_places": _CALLED,
    "spec.opened": _CALLED,
}
EXEMPT_METHODS = {
    **dict.fromkeys(("on_training_start", "on_rollout_end", "on_training_end"), _CALLED),
    **dict.fromkeys(("check_settings", "check_observations", "init_state", "present"), _CALLED),
    **dict.fromkeys(("for_rollout", "credit_rollout", "update_state", "revised", "annealed"), _INSIDE),
    **dict.fromkeys(
        (
            "update",
            "collect",
            "learn_from_traced",
            "act",
            "behaviour",
            "normalised",
            "see",
            "learn_from",
            "training_batch",
        ),
        _INSIDE,
    ),
    **dict.fromkeys(("rollout_view", "applied", "training", "standardised", "noise", "choose", "within"), _INSIDE),
    **dict.fromkeys(("to_environment", "targets"), _INSIDE),
    **dict.fromkeys(("read", "visible", "invalid", "step", "reset"), _INSIDE),
}
EXEMPT_ARGUMENTS = {
    **dict.fromkeys(("state", "episode_start", "exclude"), _ANY),
    **dict.fromkeys(("custom_objects", "print_system_info", "force_reset"), _SB3),
    **dict.fromkeys(("xp", "whiten"), _INSIDE),
}
