"""Bad calls of `factorax.learning` and `factorax.rollouts`; settings of `Config` are in `learning/bad_settings.py`."""

import atexit
import shutil
import tempfile
from functools import cache

import numpy as np

from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_NETWORKS, NOT_SEEDS, Given, Lazy, bad
from factorax import AdaptiveNetwork, FactoredPPO, InfluenceNetwork, problems, rollouts
from factorax.learning import (
    AdaptiveStateNetwork,
    CallbackList,
    CheckpointCallback,
    Config,
    EvalCallback,
    Learner,
    Logger,
    StopTrainingOnRewardThreshold,
    configure,
    find_network,
    gae,
)

NET = InfluenceNetwork([[1, 1], [0, 1]])
CHAIN = problems.chain(2, horizon=3)
TINY = {"hidden": (2,), "n_envs": 1, "n_steps": 2, "batch_size": 2}
NOT_PATHS = (None, 3, "", b"model", ["a"])
NOT_CALLBACKS = (3, "print", Given([3], "3"))
ARRAYS = {name: np.ones((3, 2)) for name in ("psi", "values", "next_values")}
ENDS = {"terminated": np.zeros((3, 1), bool), "ended": np.zeros((3, 1), bool), "gamma": 0.9, "trace": 0.9}
NOT_PROBLEMS = (None, 3, [CHAIN], object(), "no-such-problem", "os:getcwd", Given("queues:0x0", "0", "problem"))
NOT_LAMBDA = ("w", [1.0], 3.0, Given([NAN, 1], "nan"), Given([INF, 1], "inf"), Given([1j, 1], "1j"))


@cache
def model():
    return FactoredPPO(CHAIN, **TINY)


@cache
def saved():
    """The path of a file that the model was saved to."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    model().save(f"{folder}/model")
    return f"{folder}/model"


def method(name):
    """A method of the one small model, which is made when it is first called."""
    return lambda **arguments: getattr(model(), name)(**arguments)


SETTINGS = {
    "learning_rat": [Given(1e-3, "learning_rate")],
    "n_envs": [0, True, 10**23],
    "seed": [-1, 10**23, "0"],
    "gamma": [NAN, 2],
    "policy": ["shard", None],
    "device": ["cpus"],
}

NOT_NEIGHBOURS = [3, "grid", Given([[1]], "(2, 2)"), Given([[1, 1], [0, 1]], "symmetric")]

ROWS = [
    *bad(
        "FactoredPPO",
        FactoredPPO,
        {"problem": CHAIN, **TINY},
        problem=[*NOT_PROBLEMS, "MlpPolicy", ""],
        network=[
            3,
            "nearby",
            "",
            Given([[7.0]], "7"),
            Given(InfluenceNetwork([[1, 1]]), "1 row"),
            object(),
            Given("no.json", "no.json", "network"),
        ],
        weights=NOT_LAMBDA,
        local=[3, "local"],
        neighbours=NOT_NEIGHBOURS,
        critic=["values", 3],
        preset=["trafic", None, 3],
        method=["mapo", None, 3],
        tensorboard_log=[3, True],
        verbose=[-1, "yes", None, 1.5],
        **SETTINGS,
    ),
    *bad(
        "FactoredPPO.learn",
        method("learn"),
        {"total_timesteps": 0, "progress_bar": False},
        total_timesteps=[-1, 1.5, NAN, INF, "10", True, 10**23],
        callback=NOT_CALLBACKS,
        log_interval=[-1, 1.5, "1", True],
        tb_log_name=[None, 3],
        reset_num_timesteps=NOT_FLAGS,
        progress_bar=NOT_FLAGS,
    ),
    *bad(
        "FactoredPPO.predict",
        method("predict"),
        {"observation": np.zeros(3)},
        observation=[
            None,
            "obs",
            np.zeros(2),
            np.zeros((1, 2, 3)),
            Given((np.zeros(3), {}), "a pair"),
            ["a"] * 3,
            Given(np.zeros(3) * 1j, "complex"),
            Given([0, NAN, 0], "nan"),
            Given(np.array([None] * 3), "object"),
        ],
        deterministic=NOT_FLAGS,
    ),
    *bad(
        "FactoredPPO.evaluate",
        method("evaluate"),
        episodes=NOT_COUNTS,
        deterministic=NOT_FLAGS,
        seed=NOT_SEEDS,
    ),
    *bad(
        "FactoredPPO.on",
        method("on"),
        {"problem": CHAIN},
        problem=NOT_PROBLEMS,
        network=[3, "nearby", Given([[7.0]], "7")],
    ),
    *bad("FactoredPPO.on", method("on"), problem=[Given(problems.chain(3), "3")]),
    *bad("FactoredPPO.save", method("save"), path=[*NOT_PATHS, Given("no-such-folder/model", "no-such-folder")]),
    *bad("FactoredPPO.restore", method("restore"), path=[*NOT_PATHS, "no-such-file"]),
    *bad("FactoredPPO.load", FactoredPPO.load, path=[*NOT_PATHS, "no-such-file"]),
    *bad(
        "FactoredPPO.load",
        FactoredPPO.load,
        {"path": Lazy(saved), "problem": CHAIN},
        problem=[3, [CHAIN], "no-such-problem"],
        network=[3, "nearby", Given([[7.0]], "7")],
        weights=NOT_LAMBDA,
        local=[3],
        neighbours=NOT_NEIGHBOURS,
        tensorboard_log=[3],
        verbose=["yes"],
        trusted=[3],
        gama=[Given(0.9, "gamma")],
    ),
    *bad("FactoredPPO.set_logger", method("set_logger"), logger=[None, 3, "stdout"]),
    *bad(
        "learning.Config",
        Config,
        **{name: values for name, values in SETTINGS.items() if name != "learning_rat"},
        check_network=NOT_FLAGS,
        normalize_reward=NOT_FLAGS,
        overlap=NOT_FLAGS,
        variance_report=NOT_FLAGS,
        pessimistic_vf=NOT_FLAGS,
        batch_size=[0, None],
        hidden=[[True], 3],
    ),
    *bad(
        "learning.Config.of",
        Config.of,
        settings=[None, 3, "gamma", [("gamma", 1)], Given({"gama": 1}, "gamma", "gama")],
    ),
    *bad("learning.Config.read", Config.read, settings=[None, 3, [], Given({"gama": 1}, "gamma", "gama")]),
    *bad(
        "learning.AdaptiveNetwork",
        AdaptiveNetwork,
        {"initial": NET},
        initial=NOT_NETWORKS,
        every=NOT_COUNTS,
        window=NOT_COUNTS,
        margin=[-1, NAN, INF, "8", None, True],
        copies=NOT_COUNTS,
    ),
    *bad(
        "learning.AdaptiveStateNetwork",
        AdaptiveStateNetwork,
        {"initial": NET, "regime": len, "regimes": 2},
        initial=NOT_NETWORKS,
        regime=[None, 3, "regime"],
        regimes=NOT_COUNTS,
        every=NOT_COUNTS,
        window=NOT_COUNTS,
        margin=[-1, NAN, INF, "8", None, True],
    ),
    *bad(
        "learning.AdaptiveStateNetwork.bins",
        AdaptiveStateNetwork.bins,
        {"initial": NET, "features": [0], "edges": [[0.0]]},
        initial=NOT_NETWORKS,
        features=[3, "ab", Given([-1], "-1"), Given(["a"], "'a'"), Given([0, 1], "2")],
        edges=[3, "ab", Given([["a"]], "a"), Given([[1.0, 0.0]], "1.0"), Given([[NAN]], "nan")],
    ),
    *bad(
        "learning.AdaptiveStateNetwork.of_regimes",
        AdaptiveStateNetwork(NET, len, 2).of_regimes,
        state=[None, 3, "state"],
    ),
    *bad("learning.AdaptiveNetwork.from_complete", AdaptiveNetwork.from_complete, like=NOT_NETWORKS),
    *bad("learning.CallbackList", CallbackList, callbacks=[None, 3, "print", Given([3], "3")]),
    *bad(
        "learning.CheckpointCallback",
        CheckpointCallback,
        {"save_freq": 1, "save_path": "."},
        save_freq=[0, -1, 1.5, "1", None, True],
        save_path=NOT_PATHS,
        name_prefix=[None, 3, "", "a/b"],
    ),
    *bad(
        "learning.EvalCallback",
        EvalCallback,
        eval_env=[3, object()],
        callback_on_new_best=NOT_CALLBACKS,
        callback_after_eval=NOT_CALLBACKS,
        n_eval_episodes=NOT_COUNTS,
        eval_freq=NOT_COUNTS,
        log_path=[3, ""],
        best_model_save_path=[3, ""],
        deterministic=NOT_FLAGS,
        verbose=[-1, "yes", None, 1.5],
    ),
    *bad(
        "learning.StopTrainingOnRewardThreshold",
        StopTrainingOnRewardThreshold,
        {"reward_threshold": 1.0},
        reward_threshold=[None, "10", NAN, True, 1j],
        verbose=[-1, "yes", None],
    ),
    *bad("learning.Logger", Logger, folder=[3, ""], writers=[None, 3, "stdout", Given(["stdout"], "'stdout'")]),
    *bad(
        "learning.Logger.record",
        Logger().record,
        {"key": "a", "value": 1.0},
        key=[None, 3, ""],
        value=[None, "a", 1j, [1, 2]],
    ),
    *bad(
        "learning.Logger.record_mean",
        Logger().record_mean,
        {"key": "a", "value": 1.0},
        key=[None, 3, ""],
        value=[None, "a", 1j, [1, 2]],
    ),
    *bad("learning.Logger.dump", Logger().dump, step=[-1, 1.5, "1", None, True]),
    *bad(
        "learning.configure",
        configure,
        folder=[3, ""],
        formats=[None, 3, "csv", Given(["cvs"], "'csv'"), Given([3], "3"), Given(["csv"], "'csv'", "folder")],
    ),
    *bad(
        "learning.gae",
        gae,
        {**ARRAYS, **ENDS},
        psi=[None, "psi", 3.0, Given(np.ones((3, 2)) * 1j, "complex"), Given(np.ones((2, 2)), "(2, 2)", "values")],
        values=[None, "v", np.ones((3, 1)), Given(np.ones((3, 2)) * 1j, "complex")],
        next_values=[None, "v", np.ones((3, 1))],
        terminated=["t", np.zeros((2, 1), bool), np.zeros((3, 3), bool), Given(np.full((3, 1), NAN), "nan")],
        ended=["t", np.zeros((2, 1), bool), np.zeros((3, 3), bool)],
        gamma=[-0.1, 1.5, NAN, "0.9", None, True],
        trace=[-0.1, 1.5, NAN, "0.9", None, True],
    ),
    *bad(
        "learning.find_network",
        find_network,
        {"problem": CHAIN, "name": "own"},
        problem=[],
        name=[
            Given(None, head="network"),
            Given(3, head="network"),
            Given("", head="network"),
            Given("nearby", head="network"),
            Given("neer", head="network"),
            Given("no-such.json", head="network"),
            Given("n-level:x", "'n': 'x'", "network"),
        ],
        steps=[each for each in NOT_COUNTS if each is not None],
    ),
    *bad("learning.find_network", find_network, {"name": "complete"}, problem=[None, 3, object()]),
    *bad(
        "learning.Learner",
        lambda **a: Learner(**{"spec": model().spec, "config": Config()} | a),
        spec=[None, 3, CHAIN],
        config=[None, 3, {}],
        own=[None, 3],
    ),
    *bad(
        "learning.Learner.of",
        Learner.of,
        {"problem": CHAIN},
        problem=NOT_PROBLEMS[:4],
        network=[3, "own", Given([[7.0]], "7")],
        config=[3, {}, "ppo"],
        weights=NOT_LAMBDA,
        local=[3],
        neighbours=NOT_NEIGHBOURS,
        policy=[3, Given(len, "Spec"), Given(lambda spec, key: spec, "equinox.Module")],
        critic=[3, Given(lambda: None, "Spec")],
        init=[3, "he", Given(lambda key, shape, dtype: shape, "floats"), Given(lambda *_: np.ones(3), "floats")],
        own_size=NOT_FLAGS,
    ),
    *bad(
        "learning.Learner.init",
        lambda **a: model().learner.init(**a),
        seed=NOT_SEEDS,
        learning_rat=[Given(1.0, "learning_rat", "hyper")],
        gamma=["x", None],
    ),
    *bad(
        "rollouts.check_problem",
        rollouts.check_problem,
        {"problem": CHAIN, "steps": 1},
        problem=[None, 3, [CHAIN], object()],
        network=[3, "nearby", Given([[7.0]], "7"), Given(InfluenceNetwork([[1, 1]]), "1 row")],
        weights=NOT_LAMBDA,
        steps=NOT_COUNTS,
        seed=NOT_SEEDS,
    ),
]
