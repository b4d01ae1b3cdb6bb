"""Bad calls of `factorax.gradients`, and of `credit` and `factor_baseline`."""

import jax.numpy as jnp
import numpy as np
from sample_problems import independent

import factorax as fx
from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_NETWORKS, Given, bad
from factorax import InfluenceNetwork, gradients

NET = InfluenceNetwork([[1, 1], [0, 1]])
WIDE = InfluenceNetwork([[1, 1, 0], [0, 1, 1]])
ACTIONS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
PSI = np.arange(8.0).reshape(4, 2)
PARAMS = jnp.zeros((2, 2))
SAMPLES = {"log_prob": independent, "params": PARAMS, "actions": ACTIONS, "psi": PSI}
WITH_NET = {**SAMPLES, "net": NET}
FITTED = {**WITH_NET, "features": np.ones((4, 2, 1))}
EXACT = np.full(4, 0.25)
REPORT = gradients.BiasReport(("a1",), *[gradients.Estimate(np.float64(1), np.float64(0))] * 4)


def joint(params, obs, action):
    """One log-probability for all actions."""
    return independent(params, obs, action).sum()


def autoregressive(params, obs, action):
    return independent(params, obs, action) + jnp.array([0.0, 1.0]) * action[0]


def broken(params, obs, action):
    raise RuntimeError("of the user's own function")


NOT_LOG_PROBS = (None, 3, "log_prob", PARAMS, Given(joint, "one number"))
NOT_PSI = (
    None,
    3,
    "psi",
    np.ones((4, 3)),
    Given(np.ones((3, 2)), "(3,)", "actions"),
    Given(PSI * 1j, "complex"),
    Given(PSI.astype(object), "object"),
    Given(np.full((4, 2), NAN), "nan"),
    Given([["a"] * 2] * 4, "'a'"),
    Given(np.ones((0, 2)), "(0, 2)"),
)
NOT_ACTIONS = (None, 3, "a", np.ones((3, 2), int), Given(np.full((4, 2), "a"), "U1"), Given(ACTIONS * 1j, "complex"))
NOT_WEIGHTS = (
    3.0,
    "ab",
    [1.0],
    [1.0, 2.0, 3.0],
    Given([1.0, NAN], "nan"),
    Given([INF, 1.0], "inf"),
    Given([1j, 1], "1j"),
    Given(np.array([None, 1]), "object"),
)
NOT_PROBABILITIES = (
    3.0,
    "p",
    np.full(3, 1 / 3),
    Given([0.5, 0.5, 0.5, -0.5], "-0.5"),
    Given([0.5, 0.5, 0.5, 0.5], "2"),
    Given([NAN, 0.5, 0.5, 0.0], "nan"),
    Given(np.full(4, 0.25 + 0j), "complex"),
)
NOT_OBS = (3, "obs", np.ones((3, 5)), Given(np.full((4, 1), "a"), "U1"))
NOT_PARAMS = ("theta", Given({"a": "b"}, "'b'"))
OF_SAMPLES = {"params": NOT_PARAMS, "actions": NOT_ACTIONS, "weights": NOT_WEIGHTS, "obs": NOT_OBS}
OF_REPORTS = {
    "log_prob": NOT_LOG_PROBS,
    "psi": (*NOT_PSI, Given(PSI[0], "()"), Given(PSI[:1], "(1,)", "psi")),
    "probabilities": NOT_PROBABILITIES,
    "disjoint": NOT_FLAGS,
    **OF_SAMPLES,
}
OF_ESTIMATORS = {
    "log_prob": NOT_LOG_PROBS,
    "psi": NOT_PSI,
    "probabilities": [p for p in NOT_PROBABILITIES if not isinstance(p, Given) or p.shows != "2"],  # may be any weights
    "baseline": ("b", np.ones((4, 3)), np.ones(4), Given(np.full((4, 2), NAN), "nan"), Given(1j, "1j")),
    **OF_SAMPLES,
}
OF_FITS = {
    "features": (None, "phi", np.ones((4, 2)), np.ones((3, 2, 1)), Given(np.full((4, 2, 1), NAN), "nan")),
    "ridge": (-1e-9, NAN, INF, "0", None, True),
    "net": (None, "net", Given([[3.0]], "3")),
    "psi": (*NOT_PSI, PSI[0]),
    "probabilities": NOT_PROBABILITIES,
    **OF_SAMPLES,
}

ROWS = [
    *bad(
        "credit",
        fx.credit,
        {"net": NET, "psi": PSI},
        net=[*NOT_NETWORKS, Given(fx.NetworkSchedule(NET, NET, steps=1), "NetworkSchedule")],
        psi=[
            None,
            3,
            "psi",
            np.ones((4, 3)),
            Given(PSI * 1j, "complex"),
            Given(PSI.astype(object), "object"),
            Given([["a", "b"]], "'a'"),
            Given([[1], [1, 2]], "[[1], [1, 2]]"),
        ],
        weights=[*NOT_WEIGHTS, np.ones((3, 2)), np.ones((1, 4, 2))],
    ),
    *bad(
        "factor_baseline",
        fx.factor_baseline,
        {"net": NET, "psi": PSI},
        net=[None, 3, "net", Given(fx.LaggedNetwork({0: NET}), "LaggedNetwork")],
        psi=[None, "psi", np.ones(3), Given(PSI * 1j, "complex")],
        weights=NOT_WEIGHTS,
    ),
    *bad(
        "gradients.variance_report",
        gradients.variance_report,
        WITH_NET,
        net=[*NOT_NETWORKS, Given(WIDE, "(4, 2)", "psi"), Given(InfluenceNetwork([[1, 1]]), "1 row")],
        **OF_REPORTS,
    ),
    *bad(
        "gradients.bias_report",
        gradients.bias_report,
        {**WITH_NET, "reference": NET},
        net=NOT_NETWORKS,
        reference=[None, 3, Given([[7.0]], "7"), Given(WIDE, "(2, 3)")],
        **OF_REPORTS,
    ),
    *bad("gradients.BiasReport.mse", REPORT.mse, batch_size=[0, -1, NAN, "8", None, True]),
    *bad("gradients.BiasReport.reference_mse", REPORT.reference_mse, batch_size=[0, -1, NAN, "8", None, True]),
    *bad(
        "gradients.gradient_variance",
        gradients.gradient_variance,
        {"log_prob": independent, "params": PARAMS, "actions": ACTIONS, "credits": PSI},
        log_prob=NOT_LOG_PROBS,
        params=NOT_PARAMS,
        actions=NOT_ACTIONS,
        credits=[
            None,
            "c",
            Given(np.ones((4, 3)), "3 rows"),
            Given(np.ones(4), "axes ()"),
            Given(PSI * 1j, "complex"),
            Given(PSI * NAN, "nan"),
        ],
        obs=NOT_OBS,
        probabilities=NOT_PROBABILITIES,
        disjoint=NOT_FLAGS,
    ),
    *bad("gradients.factored", gradients.factored, WITH_NET, net=NOT_NETWORKS, **OF_ESTIMATORS),
    *bad(
        "gradients.vanilla",
        gradients.vanilla,
        SAMPLES,
        **{**OF_ESTIMATORS, "log_prob": [None, 3, "log_prob"], "psi": [p for p in NOT_PSI if np.shape(p) != (4, 3)]},
    ),
    *bad(
        "gradients.natural",
        gradients.natural,
        WITH_NET,
        net=[None, "net", Given([[3.0]], "3")],
        damping=[-1, NAN, INF, "0", None, True],
        iterations=NOT_COUNTS,
        **OF_ESTIMATORS,
    ),
    *bad("gradients.wu_baseline", gradients.wu_baseline, FITTED, log_prob=NOT_LOG_PROBS, **OF_FITS),
    *bad(
        "gradients.least_squares_baseline", gradients.least_squares_baseline, FITTED, log_prob=NOT_LOG_PROBS, **OF_FITS
    ),
    *bad(
        "gradients.tabular_features",
        gradients.tabular_features,
        {"actions": ACTIONS, "sizes": [2, 2]},
        actions=[
            None,
            "a",
            ACTIONS[0],
            np.ones((4, 3), int),
            Given(ACTIONS + 5, "5"),
            Given(-ACTIONS, "-1"),
            Given(ACTIONS + 0.5, "float64"),
        ],
        sizes=[
            None,
            3,
            "22",
            [],
            Given([2], "(4, 2)", "actions"),
            Given([2, 0], "0"),
            Given([2, -1], "-1"),
            Given([2.5, 2], "2.5"),
            Given([True, 2], "True"),
        ],
    ),
    *bad(
        "gradients.joint_actions",
        gradients.joint_actions,
        {"log_prob": independent, "params": PARAMS, "sizes": [2, 2]},
        log_prob=[None, 3, Given(joint, "one number")],
        params=NOT_PARAMS,
        sizes=[
            None,
            3,
            "22",
            [],
            Given([2, 0], "0"),
            Given([2, -1], "-1"),
            Given([2.0, 2], "2.0"),
            Given([10**4, 10**4], "100000000"),
            Given([3, 2], "(3, 2)"),
        ],
        obs=["obs"],
    ),
    *bad(
        "gradients.score_matrix",
        gradients.score_matrix,
        {"log_prob": independent, "params": PARAMS, "actions": ACTIONS},
        log_prob=NOT_LOG_PROBS,
        params=NOT_PARAMS,
        actions=[None, 3, "a", Given(np.full((4, 2), "a"), "U1")],
        obs=[3, "obs", np.ones((3, 5))],
    ),
    *bad(
        "gradients.check_product_form",
        gradients.check_product_form,
        {"log_prob": independent, "params": PARAMS, "actions": ACTIONS},
        log_prob=[*NOT_LOG_PROBS, Given(autoregressive, "factor 1")],
        params=NOT_PARAMS,
        actions=[None, 3, "a", Given(ACTIONS[:1], "one sample")],
        obs=[3, "obs", np.ones((3, 5))],
        factorisation=[3, "ab", [[0, 1]], Given(fx.Factorisation([[0, 1]], 2), "2 factors", "log_prob")],
    ),
    *bad(
        "gradients.leave_one_out",
        gradients.leave_one_out,
        psi=[None, 3, "psi", PSI[0], PSI[:1], Given(PSI * 1j, "complex"), Given(PSI * NAN, "nan")],
    ),
    *bad(
        "gradients.running_value",
        gradients.running_value,
        {"value": np.ones(2), "psi": PSI},
        value=[None, "v", Given(np.ones(3), "(4, 2)", "psi"), Given([1j, 1], "1j"), Given([NAN, 1], "nan")],
        psi=[None, "psi", np.ones((4, 3)), np.ones((0, 2)), Given(PSI * 1j, "complex"), Given(PSI * NAN, "nan")],
        rate=[-0.1, 1.5, NAN, "0.1", None, True],
    ),
    *bad(
        "gradients.separable_baseline",
        gradients.separable_baseline,
        {"terms": jnp.abs, "actions": PSI, "replacement": np.zeros(2)},
        terms=[None, 3, "abs", Given(lambda a: a[..., 0], "(4,)")],
        actions=[None, "a", Given(PSI * 1j, "complex")],
        replacement=[None, "r", np.zeros(3), Given([1j, 1], "1j")],
    ),
    *bad(
        "gradients.substituted_baseline",
        gradients.substituted_baseline,
        {"function": lambda a: a.sum(axis=-1), "actions": PSI, "replacement": np.zeros(2)},
        function=[None, 3, "f"],
        actions=[None, 3, "a", Given(PSI * 1j, "complex")],
        replacement=[None, "r", np.zeros(3), Given([1j, 1], "1j")],
    ),
    *bad(
        "gradients.coma",
        gradients.coma,
        {"q": np.ones((2, 3)), "probabilities": np.full((2, 3), 1 / 3), "actions": [0, 2]},
        q=[None, "q", np.ones((2, 2)), Given(np.ones((2, 3)) * 1j, "complex"), Given(np.full((2, 3), NAN), "nan")],
        probabilities=[
            None,
            "p",
            np.ones((3, 3)),
            Given([[2.0, -1.0, 0.0]] * 2, "-1"),
            Given([[0.5, 0.1, 0.1]] * 2, "0.7"),
            Given(np.full((2, 3), NAN), "nan"),
        ],
        actions=[
            None,
            "a",
            [0],
            Given([0, 3], "3"),
            Given([0, -1], "-1"),
            Given([0.5, 1], "0.5"),
            Given([True, False], "bool"),
        ],
    ),
    *bad(
        "gradients.difference_returns",
        gradients.difference_returns,
        {"rewards": np.ones(3), "counterfactual": np.ones((3, 2)), "gamma": 0.9},
        rewards=[
            None,
            "r",
            3.0,
            Given(np.ones(2), "(3, 2)", "counterfactual"),
            Given(np.ones(3) * 1j, "complex"),
            Given([1, NAN, 1], "nan"),
        ],
        counterfactual=[None, "r", np.ones((2, 2)), np.ones(3), Given(np.full((3, 2), NAN), "nan")],
        gamma=[-0.1, 1.5, NAN, "0.9", None, True],
        published=NOT_FLAGS,
    ),
    *bad(
        "gradients.nonnegative_translation",
        gradients.nonnegative_translation,
        {"psi": PSI},
        psi=[None, 3, "psi", Given(PSI * 1j, "complex"), Given(PSI * NAN, "nan"), np.ones((0, 2))],
        weights=NOT_WEIGHTS,
        lower=[3, "low", [0.0], Given([NAN, 0], "nan")],
        upper=[3, "up", [0.0], Given([NAN, 0], "nan"), Given([-1.0, -1.0], "-1")],
    ),
]
