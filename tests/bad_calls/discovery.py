"""Bad calls of `factorax.discovery`."""

from dataclasses import replace

import numpy as np

from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_SEEDS, Given, bad
from factorax import InfluenceNetwork, discovery, problems
from factorax.discovery import Batch, Discovery

CHAIN = problems.chain(2, horizon=3)
BANDIT = problems.search_bandit([1.0, 2.0])
RNG = np.random.default_rng(0)
SCORES, PSI, UNIFORMS = RNG.normal(size=(40, 2)), RNG.normal(size=(40, 3)), RNG.random((40, 2))
BATCH = Batch(SCORES, PSI, UNIFORMS)
ONES = np.ones((2, 2))
FIELDS = {"method": "score", "kind": "return", "effect": ONES, "p_value": ONES / 2, "samples": ONES.astype(int)}
RESULT = Discovery(**FIELDS)
NOT_PROBLEMS = (None, 3, "chain", object(), [CHAIN])
NOT_BATCHES = (None, 3, "batch", PSI, {"scores": SCORES})
NOT_RATES = (0, 1, -0.1, 1.5, NAN, "0.05", None, True)
NOT_POLICIES = (3, "policy", object())
TEST = {"batch": BATCH}
FOUND = {"fdr": NOT_RATES, "control": ["bonferroni", None, 3], "threshold": [NAN, "0.1", True, 1j]}
WITHOUT = Given(Batch(SCORES, PSI), "None", "uniforms")
SHORT = Given(Batch(SCORES[:4], PSI[:4], UNIFORMS[:4]), "4 samples", "psi")

ROWS = [
    *bad(
        "discovery.Batch",
        Batch,
        {"scores": SCORES, "psi": PSI, "uniforms": UNIFORMS},
        scores=[
            None,
            "z",
            SCORES[:3],
            SCORES[0],
            Given(SCORES * 1j, "complex"),
            Given(SCORES.astype(object), "object"),
        ],
        psi=[None, "psi", PSI[:3], PSI[0], Given(PSI * 1j, "complex")],
        uniforms=["u", UNIFORMS[:3]],
        state=["s", SCORES[:3]],
        weights=["w", [1.0], Given([1, NAN, 1], "nan")],
        kind=["returns", None, 3],
        actions=["ab", ["a"], Given(["a", "a"], "'a'"), 3],
        targets=["abc", ["a"], Given(["a", "a", "b"], "'a'"), 3],
        notes=["one", 3],
    ),
    *bad(
        "discovery.Batch.checked",
        lambda **changed: replace(BATCH, **changed).checked(),
        scores=[Given(SCORES * NAN, "not finite")],
        psi=[Given(PSI * INF, "not finite")],
        uniforms=[Given(UNIFORMS + 2, "from 0 to 1"), Given(UNIFORMS * NAN, "not finite")],
        state=[Given(SCORES * NAN, "not finite")],
    ),
    *bad("discovery.Batch.checked", BATCH.checked, least=[0, "8", None, True, Given(1000, "40 samples", "psi")]),
    *bad(
        "discovery.Batch.discovery",
        BATCH.discovery,
        {"method": "score", "effect": np.ones((2, 3)), "effect_unit": ""},
        method=["scor", None, 3],
        effect=[None, "e", ONES, Given(np.ones((2, 3)) * 1j, "complex")],
        p_value=["p", ONES, Given(np.full((2, 3), 2.0), "2"), Given(np.full((2, 3), -0.1), "-0.1")],
        effect_unit=[None, 3],
        notes=["one", 3],
    ),
    *bad(
        "discovery.Discovery",
        Discovery,
        FIELDS,
        method=["scor", None, 3],
        kind=["returns", None, 3],
        effect=[
            None,
            "e",
            np.ones(2),
            Given(np.ones((2, 3)), "(2, 2)", "p_value"),
            Given(ONES * 1j, "complex"),
            np.ones((0, 2)),
        ],
        p_value=[None, "p", np.ones((2, 3)), Given(ONES * 2, "2"), Given(-ONES, "-1"), Given(ONES * 1j, "complex")],
        samples=[None, "s", np.ones((2, 3)), Given(-ONES, "-1"), Given(ONES / 2, "0.5")],
        actions=["ab", ["a"], Given(["a", "a"], "'a'"), 3],
        targets=["ab", ["a"], Given(["a", "a"], "'a'"), 3],
        loop=["ajar", None],
        effect_unit=[None, 3],
        notes=["one", 3],
        steps=[-1, 1.5, "1", None, True],
        also=[None, 3, [RESULT], Given({"a": 3}, "3")],
        streams=["hold", 3, True],
    ),
    *bad("discovery.Discovery.found", RESULT.found, **FOUND),
    *bad("discovery.Discovery.network", RESULT.network, **FOUND),
    *bad("discovery.Discovery.as_edges", RESULT.as_edges, fdr=NOT_RATES, threshold=[NAN, "0.1", True]),
    *bad("discovery.Discovery.draw", RESULT.draw, style=["matrx", None, 3], fdr=NOT_RATES, ax=[3, "axes"]),
    *bad("discovery.Discovery.save", RESULT.save, path=[None, 3, "", Given("no-such-folder/x.npz", "no-such-folder")]),
    *bad("discovery.Discovery.load", Discovery.load, path=[None, 3, "", Given("no-such.npz", "no-such")]),
    *bad(
        "discovery.adjusted",
        discovery.adjusted,
        {"p_value": ONES / 2},
        p_value=[None, "p", Given(ONES * 2, "2"), Given(-ONES, "-1"), Given(ONES * 1j, "complex")],
        control=["bonferroni", None, 3],
    ),
    *bad(
        "discovery.collect",
        discovery.collect,
        {"problem": BANDIT, "samples": 10},
        problem=[*NOT_PROBLEMS, Given(lambda: 3, "3")],
        samples=NOT_COUNTS,
        horizon=NOT_COUNTS,
        gamma=[-0.1, 1.5, NAN, "1", None, True],
        n_envs=NOT_COUNTS,
        seed=NOT_SEEDS,
        policy=NOT_POLICIES,
    ),
    *bad(
        "discovery.discover",
        discovery.discover,
        {"problem": BATCH, "method": "score"},
        problem=NOT_PROBLEMS,
        method=["scores", "interventionl", None, 3, Given("interventional", "Batch", "problem")],
        trials=[Given(3, "trials")],
        robus=[Given(True, "robust")],
    ),
    *bad(
        "discovery.discover",
        discovery.discover,
        {"problem": CHAIN},
        trial=[Given(3, "trials")],
        samples=[Given(3, "samples")],
        trials=NOT_COUNTS,
    ),
    *bad("discovery.score_test", discovery.score_test, TEST, batch=[*NOT_BATCHES, SHORT], robust=NOT_FLAGS),
    *bad(
        "discovery.dependence_test",
        discovery.dependence_test,
        TEST,
        batch=[*NOT_BATCHES, SHORT, WITHOUT],
        waves=NOT_COUNTS,
        state_features=NOT_FLAGS,
    ),
    *bad(
        "discovery.gated_critic",
        discovery.gated_critic,
        TEST,
        batch=[*NOT_BATCHES, SHORT, WITHOUT],
        hidden=[*NOT_COUNTS, 1],
        steps=[*NOT_COUNTS, 9],
        batch_size=NOT_COUNTS,
        penalty=[-1, NAN, INF, "5", None, True],
        seed=NOT_SEEDS,
    ),
    *bad(
        "discovery.detectable",
        discovery.detectable,
        {"samples": 100, "tests": 4},
        samples=NOT_COUNTS,
        tests=NOT_COUNTS,
        level=NOT_RATES,
        power=NOT_RATES,
    ),
    *bad(
        "discovery.intervene",
        discovery.intervene,
        {"problem": CHAIN},
        problem=NOT_PROBLEMS,
        policy=NOT_POLICIES,
        horizon=NOT_COUNTS,
        trials=NOT_COUNTS,
        groups=NOT_FLAGS,
        one_step=NOT_FLAGS,
        start=[3, "net", Given([[7.0]], "7")],
        streams=["hold", None, 3],
        exogenous=[3, "ab", Given([-1], "-1"), Given([0], "0")],
        seed=NOT_SEEDS,
    ),
    *bad(
        "discovery.measure_lags",
        discovery.measure_lags,
        {"problem": CHAIN},
        problem=NOT_PROBLEMS,
        network=[3, "net", Given([[7.0]], "7"), Given(InfluenceNetwork([[1, 1]]), "(1, 2)")],
        horizon=NOT_COUNTS,
        trials=NOT_COUNTS,
        seed=NOT_SEEDS,
    ),
    *bad(
        "discovery.worthwhile_network",
        discovery.worthwhile_network,
        {"batch": BATCH, "n_samples": 100},
        batch=[*NOT_BATCHES, SHORT],
        n_samples=NOT_COUNTS,
        form=["firm", None, 3],
    ),
]
