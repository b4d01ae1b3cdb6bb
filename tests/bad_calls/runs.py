"""Bad calls of `factorax.runs`, `factorax.integrations` and `factorax.experiments`."""

import gymnasium as gym
import numpy as np

import factorax as fx
from bad_calls.learning import saved
from bad_calls.rows import INF, NAN, NOT_COUNTS, NOT_FLAGS, NOT_SEEDS, Given, Lazy, bad
from factorax import InfluenceNetwork, experiments, integrations, problems, runs
from factorax.learning import Config
from factorax.runs import Group, Interval

CHAIN = problems.chain(2, horizon=3)
GROUP = Group("a", np.arange(3), np.ones((2, 3)))
NOT_GROUPS = (None, 3, "runs", [], Given([3], "3"))
NOT_SAMPLES = (None, "s", 3.0, [], [[1.0]], Given([1, NAN], "nan"), Given([INF], "inf"), Given([1j], "1j"), ["a"])
NOT_RATES = (0, 1, -0.1, 1.5, NAN, "0.95", None, True)
NOT_RUNS = (None, 3, "", "no-such-run")
OUT = "no-such-folder/film.gif"
NOT_LAMBDA = ("w", [1.0], Given([NAN, 1.0], "nan"), Given([1j, 1], "1j"))


def make():
    return problems.BanditEnv(problems.search_bandit([1.0, 2.0]))


class Base(integrations.FactoredEnv):
    def reset(self, **options):
        return 0, {}

    def step(self, action):
        return 0, 0.0, True, False, {}


TRAINING = {"problem": "chain:2", "config": Config(), "out": "no-such-folder"}
NOT_ENVS = (None, 3, "CartPole-v1", [make])
ROWS = [
    *bad(
        "runs.Group",
        Group,
        {"name": "a", "steps": np.arange(3), "returns": np.ones((2, 3))},
        name=[None, 3],
        steps=[None, "s", np.ones((2, 3)), Given([2, 1, 0], "[2, 1, 0]"), Given([0, NAN, 1], "nan")],
        returns=[None, "r", np.ones(3), np.ones((2, 4)), np.ones((0, 3)), Given(np.full((2, 3), NAN), "nan")],
        settings=[None, 3, "gamma"],
        seeds=[3, "01", Given((0,), "1"), Given((0, "1"), "'1'")],
        folders=["ab", 3, Given(("a",), "1")],
    ),
    *bad("runs.compare_groups", runs.compare_groups, groups=[*NOT_GROUPS, Given([GROUP, GROUP], "'a'")]),
    *bad(
        "runs.draw_curves",
        runs.draw_curves,
        {"groups": [GROUP]},
        groups=NOT_GROUPS,
        colours=[None, 3, [], Given(["no colour"], "no colour")],
    ),
    *bad(
        "runs.group_runs",
        runs.group_runs,
        folders=[None, 3, "runs", [], Given([3], "3"), Given(["no-such-run"], "no-such-run"), Given(["a", "a"], "a")],
    ),
    *bad("runs.split_gains", runs.split_gains, groups=NOT_GROUPS),
    *bad(
        "runs.gamma_mean",
        runs.gamma_mean,
        {"samples": [1.0, 2.0]},
        samples=[*NOT_SAMPLES, Given([-1.0, 1.0], "-1")],
        confidence=NOT_RATES,
    ),
    *bad("runs.normal_mean", runs.normal_mean, {"samples": [1.0, 2.0]}, samples=NOT_SAMPLES, confidence=NOT_RATES),
    *bad("runs.iqm", runs.iqm, {"samples": [1.0, 2.0]}, samples=NOT_SAMPLES, confidence=NOT_RATES, seed=NOT_SEEDS),
    *bad(
        "runs.iqm_difference",
        runs.iqm_difference,
        {"a": [1.0, 2.0], "b": [1.0]},
        a=NOT_SAMPLES,
        b=NOT_SAMPLES,
        confidence=NOT_RATES,
        seed=NOT_SEEDS,
    ),
    *bad(
        "runs.probability_of_improvement",
        runs.probability_of_improvement,
        {"a": [1.0, 2.0], "b": [1.0]},
        a=NOT_SAMPLES,
        b=NOT_SAMPLES,
        confidence=NOT_RATES,
        seed=NOT_SEEDS,
    ),
    *bad(
        "runs.Interval",
        Interval,
        {"mean": 1.0, "low": 0.5, "high": 2.0},
        mean=["1", None, 1j],
        low=["1", None, 3.0],
        high=["1", None, 0.1],
    ),
    *bad("runs.load", runs.load, {"run": "no-such-run"}, run=NOT_RUNS, trusted=[3, True]),
    *bad("runs.read_config", runs.read_config, run=NOT_RUNS),
    *bad("runs.read_metrics", runs.read_metrics, run=NOT_RUNS),
    *bad(
        "runs.train",
        runs.train,
        TRAINING,
        problem=[None, 3, CHAIN, "no-such", "os:getcwd", Given("queues:0x0", "0", "problem")],
        config=[None, 3, {"gamma": 1}, "ppo"],
        out=[None, 3, ""],
        network=[None, 3, "nearby", "no.json"],
        force=NOT_FLAGS,
        progress_bar=NOT_FLAGS,
        loggers=[None, 3, "csv", Given(["cvs"], "'csv'")],
    ),
    *bad(
        "runs.train_seeds",
        runs.train_seeds,
        {"problem": "chain:2", "config": Config(), "outs": ["no-such-a", "no-such-b"]},
        problem=[None, 3, CHAIN, "no-such"],
        config=[None, 3, {"gamma": 1}],
        outs=[None, 3, "ab", [], Given([3], "3"), Given(["a", "a"], "'a'")],
        network=[None, 3, "nearby"],
        force=NOT_FLAGS,
        progress_bar=NOT_FLAGS,
    ),
    *bad(
        "runs.train_networks",
        runs.train_networks,
        {"problem": "chain:2", "config": Config(check_network=False), "outs": {"own": ["no-such-a"]}},
        problem=[None, 3, CHAIN, "no-such"],
        config=[None, 3, {"gamma": 1}],
        outs=[None, 3, "ab", {}, Given({"own": [3]}, "3")],
        force=NOT_FLAGS,
        progress_bar=NOT_FLAGS,
    ),
    *bad(
        "runs.write_film",
        runs.write_film,
        {"what": ["gap-out"], "out": OUT, "grid": "1x1", "seconds": 12},
        what=[None, 3, "gap-out", [], Given(["gapout"], "'gapout'"), [3]],
        out=[None, 3, "", Given("film.avi", "film.avi"), Given(OUT, "no-such-folder")],
        grid=[None, 3, "3", "3x", "axb", Given("0x3", "0", "rows")],
        seconds=NOT_COUNTS,
        speed=NOT_COUNTS,
        sampled=NOT_FLAGS,
        seed=NOT_SEEDS,
        trusted=[3],
    ),
    *bad(
        "report",
        fx.report,
        {"what": "no-such-run", "out": "report.html", "play": False},
        what=[None, 3, "", "no-such-run", [], Given([3], "3"), Given(["no-such-a", "no-such-b"], "no-such-a")],
        out=[None, 3, "", Given("report.pdf", "report.pdf"), Given("no-such-folder/a.html", "no-such-folder")],
        play=NOT_FLAGS,
        trusted=[3],
        open_browser=NOT_FLAGS,
        tell=[3, "tell"],
    ),
    *bad(
        "integrations.wrap",
        fx.wrap,
        {"env": make, "network": np.eye(2)},
        env=[*NOT_ENVS, Given(CHAIN, "Problem"), Given(lambda: 3, "int")],
        network=[3, "net", Given([[7.0]], "7"), Given(np.eye(3), "(3, 3)")],
        reward=[3, "profit", "info:", "info:a,a", Given("collapse", "collapse")],
        weights=NOT_LAMBDA,
        factors=["element", 3],
        local=[3, "local"],
        observe=[3, "wind", [3], ["a", "a"], None],
        check_sum=NOT_FLAGS,
        check_seed=NOT_FLAGS,
    ),
    *bad(
        "integrations.from_batched",
        fx.integrations.from_batched,
        {
            "simulator": lambda actions: actions,
            "network": np.eye(2),
            "num_envs": 2,
            "action_space": gym.spaces.Box(-1, 1, (2,)),
        },
        simulator=[None, 3, "farm", Given(lambda: 3, "3")],
        network=[3, "net", Given([[7.0]], "7"), Given(np.eye(3), "(3, 3)")],
        num_envs=NOT_COUNTS,
        action_space=[3, "Box", None],
        observation_space=[3, "Box"],
        targets=[3, "xy", Given(["x"], "1 name"), Given(["x", "x"], "'x'")],
        weights=NOT_LAMBDA,
        factors=["element", 3],
        local=[3, "local"],
    ),
    *bad("integrations.FactoredEnv", Base, env=NOT_ENVS[:3]),
    *bad("integrations.to_gymnasium", integrations.to_gymnasium, problem=[*NOT_ENVS, Given(lambda: 3, "3"), make()]),
    *bad(
        "integrations.PPO",
        fx.integrations.PPO,
        {"policy": "MlpPolicy", "env": make, "n_steps": 2, "batch_size": 2},
        policy=["MlpPolcy", None, 3],
        env=[None, 3, Given("no-such-env", head="problem"), Given("os:getcwd", "os:getcwd", "problem"), gym.spaces],
        learning_rate=[-1, NAN, "1e-3", None],
        n_steps=[0, True, 1.5],
        batch_size=[0, 3, None],
        n_epochs=[0, "10"],
        gamma=[1.5, NAN],
        gae_lambda=[-1, "x"],
        clip_range=[0, NAN, None],
        clip_range_vf=[0, "x"],
        normalize_advantage=NOT_FLAGS,
        ent_coef=[-1, NAN],
        vf_coef=[-1, NAN],
        max_grad_norm=[0, NAN],
        network=[3, "nearby", Given([[7.0]], "7")],
        n_envs=[0, 1.5, True],
        policy_kwargs=[
            3,
            "net_arch",
            Given({"net_arch": 3}, "3", "policy_kwargs['net_arch']"),
            Given({"net_arch": [0]}, "0", "hidden"),
            Given({"net_arc": [3]}, "'net_arc'"),
        ],
        tensorboard_log=[3],
        verbose=["yes", -1],
        use_sde=[True],
        preset=["traffic"],
        learning_rat=[Given(1e-3, "learning_rate")],
    ),
    *bad(
        "integrations.PPO.load",
        fx.integrations.PPO.load,
        {"path": "no-such-file"},
        path=[None, 3, "", "no-such-file"],
        env=[Given(3, head="env")],
    ),
    *bad(
        "integrations.PPO.load",
        fx.integrations.PPO.load,
        {"path": Lazy(saved), "env": CHAIN},
        device=["cpus", 3],
        gama=[Given(0.9, "gamma")],
    ),
    *bad(
        "experiments.find",
        experiments.find,
        name=[
            Given(None, head="experiment"),
            Given(3, head="experiment"),
            Given("", head="experiment"),
            Given("serch-baselines", "search-baselines", "experiment"),
            Given("search_baselines", "search-baselines", "experiment"),
        ],
    ),
]
VIEWS = {
    "problem": (None, 3, "chain", Given(lambda: 3, "3")),
    "network": (3, "net", Given([[7.0]], "7"), Given(InfluenceNetwork([[1, 1]]), "1 row")),
    "weights": NOT_LAMBDA,
    "local": (3, "local"),
    "observe": ("globl", None, 3),
}
NOT_NAMES = (None, 3, "", "Ant-v9", {"name": "ant"})
NOT_NETWORKS_OF_ONE = (3, "net", Given([[7.0]], "7"), Given(InfluenceNetwork.identity(17), "(17, 17)"))
OF_PHYSICS = {
    "episode_length": [value for value in NOT_COUNTS if value is not None],
    "terms": ("yes", 1),
}
ROWS_OF_EXTRAS = {
    "gymnax": [
        *bad("integrations.from_gymnax", integrations.from_gymnax, env=NOT_NAMES),
        *bad(
            "integrations.from_gymnax", integrations.from_gymnax, {"env": "CartPole-v1"}, params=(3, "heavy", {"g": 9})
        ),
    ],
    "jaxmarl": [
        *bad("integrations.from_jaxmarl", integrations.from_jaxmarl, env=NOT_NAMES),
        *bad(
            "integrations.from_jaxmarl",
            integrations.from_jaxmarl,
            {"env": "MPE_simple_spread_v3"},
            network=NOT_NETWORKS_OF_ONE,
            rewards_end_with_agents=NOT_FLAGS,
        ),
    ],
    "brax": [
        *bad("integrations.from_brax", integrations.from_brax, env=NOT_NAMES),
        *bad("integrations.from_brax", integrations.from_brax, {"env": "reacher"}, **OF_PHYSICS),
        # Without looking for terms, which is a simulation.
        *bad(
            "integrations.from_brax",
            integrations.from_brax,
            {"env": "reacher", "terms": False},
            network=NOT_NETWORKS_OF_ONE,
        ),
    ],
    "mujoco_playground": [
        *bad("integrations.from_playground", integrations.from_playground, env=NOT_NAMES),
        *bad("integrations.from_playground", integrations.from_playground, {"env": "CartpoleBalance"}, **OF_PHYSICS),
        # Without looking for terms, which is a simulation.
        *bad(
            "integrations.from_playground",
            integrations.from_playground,
            {"env": "CartpoleBalance", "terms": False},
            network=NOT_NETWORKS_OF_ONE,
        ),
    ],
    "jumanji": [
        *bad("integrations.from_jumanji", integrations.from_jumanji, env=NOT_NAMES),
        *bad("integrations.from_jumanji", integrations.from_jumanji, {"env": "Snake-v1"}, network=NOT_NETWORKS_OF_ONE),
    ],
    "pettingzoo": [*bad("integrations.to_pettingzoo", integrations.to_pettingzoo, {"problem": CHAIN}, **VIEWS)],
    "stable_baselines3": [
        *bad(
            "integrations.to_stable_baselines3",
            integrations.to_stable_baselines3,
            {"problem": CHAIN},
            n_envs=NOT_COUNTS,
            **VIEWS,
        )
    ],
}
