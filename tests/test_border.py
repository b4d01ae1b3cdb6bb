"""The ten names that most users need refuse bad arguments: with a `ValueError` or a `TypeError` of ours that names the
argument, and without writing a file. So do calls elsewhere that would give a wrong number."""

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from sample_problems import independent

import factorax as fx
from factorax import InfluenceNetwork, discovery, gradients, problems, runs
from factorax.ppo import gae

NAN, INF = float("nan"), float("inf")
SOURCE = Path(fx.__file__).parent
NET = InfluenceNetwork([[1, 1], [0, 1]])
WIDE = InfluenceNetwork([[1, 1, 0], [0, 1, 1]])
ONE_ROW = InfluenceNetwork([[1, 1]])
CHAIN = problems.chain(2, horizon=3)
BATCH = discovery.Batch(*np.random.default_rng(0).normal(size=(2, 40, 2)))
ACTIONS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
PSI = np.arange(8.0).reshape(4, 2)
TEXT = np.full((4, 2), "a")

SAMPLES = {"log_prob": independent, "params": jnp.zeros((2, 2)), "actions": ACTIONS, "net": NET}

NOT_COUNTS = (0, -1, True, 2.5, NAN, "3", None, 10**23)
NOT_SEEDS = (-1, 0.5, "0", 10**23, True)
NOT_FLAGS = ("yes", 1, None)
NOT_NAMES = ("ab", 3, ["a"], ["a", "a"], ["a", "b", "c"], [])
NOT_NETWORKS = (None, 3, "chain", [], object(), [[2.0]], [[NAN]], [[1, 0], [1]], [["a"]], [[1j]])
NOT_WEIGHTS = (3.0, "ab", [1.0], [1.0, 2.0, 3.0], [1.0, NAN], [INF, 1.0], [1j, 1], np.array([None, 1]))
NOT_PATHS = (None, 3, "", b"model", ["a"])
NOT_ENVIRONMENTS = (None, 3, "CartPole-v1", [CHAIN], CHAIN, lambda: 3)


@dataclass(frozen=True)
class Named:
    """A bad value that the message attributes to another argument than the one that it was passed as."""

    value: Any
    argument: str


def bandit():
    """Two actions, two targets, and one number for all of them as reward."""
    return problems.BanditEnv(problems.search_bandit([1.0, 2.0]))


def joint(params, obs, action):
    """One log-probability for all actions, where one per factor is wanted."""
    return independent(params, obs, action).sum()


def wrap(env, **arguments):
    """Wrap an environment, or wrap a factory and let it create its first environment, which checks the rest."""
    wrapped = fx.wrap(env, **arguments)
    return wrapped() if callable(wrapped) else wrapped


@cache
def model():
    return fx.FactoredPPO(CHAIN, hidden=(2,), n_envs=1, n_steps=2, batch_size=2)


def method(name):
    """Return a method of the one small model, which is made when it is first called."""
    return lambda **arguments: getattr(model(), name)(**arguments)


@dataclass(frozen=True)
class Border:
    """A function, arguments that it accepts, and bad values of each of them."""

    name: str
    function: Callable[..., Any]
    good: dict[str, Any]
    bad: dict[str, tuple[Any, ...]]


BORDERS = (
    Border(
        "InfluenceNetwork",
        InfluenceNetwork,
        {"matrix": [[1, 1], [0, 1]]},
        {
            "matrix": (
                *(None, 5, "K", [], [[]], [1, 0], [[1, 0], [1]], [[2.0]], [[-0.5, 1]], [[NAN]], [[INF]], [[1j]]),
                *(
                    np.array([[None]]),
                    [["a"]],
                    np.ones((2, 2, 2)),
                    {"a": 1},
                ),
            ),
            "actions": NOT_NAMES,
            "targets": NOT_NAMES,
        },
    ),
    Border(
        "InfluenceNetwork.from_edges",
        InfluenceNetwork.from_edges,
        {"edges": [("a", "t")]},
        {
            "edges": (
                *(None, "at", 5, [], [("a",)], ["at"], [3], [("a", "t", 2.0)], [("a", "t", NAN)]),
                *(
                    [("a", "t", "x")],
                    [("a", "t", 0.5), ("a", "t", 0.7)],
                ),
            ),
            "actions": ("a", 3, ["a", "a"], Named(["b"], "edges")),
            "targets": ("t", 3, ["t", "t"], Named(["s"], "edges")),
        },
    ),
    Border(
        "InfluenceNetwork.save",
        NET.save,
        {"path": "net.json"},
        {"path": (None, 3, "", "net", "net.pkl", "no-such/net.json")},
    ),
    Border("InfluenceNetwork.load", InfluenceNetwork.load, {}, {"path": (None, 3, "", "no-such/net.json")}),
    Border(
        "close_over",
        fx.close_over,
        {"net": NET, "dynamics": [("psi1", "psi2")]},
        {
            "net": (*NOT_NETWORKS, NET.relabel(["x", "y"], ["x", "z"])),
            "dynamics": (
                *(None, 5, "ab", np.ones((2, 3)), np.ones((3, 3)), [("psi1",)], [(0, 1)], [["a"]]),
                *(
                    [("psi1", "psi2", 1)],
                    nx.path_graph(2),
                ),
            ),
            "local_actors": NOT_FLAGS,
        },
    ),
    Border(
        "credit",
        fx.credit,
        {"net": NET, "psi": PSI},
        {
            "net": (*NOT_NETWORKS, fx.NetworkSchedule(NET, NET, steps=1)),
            "psi": (None, 3, "psi", np.ones((4, 3)), PSI * 1j, PSI.astype(object), [["a", "b"]], [[1], [1, 2]]),
            "weights": (*NOT_WEIGHTS, np.ones((3, 2)), np.ones((1, 4, 2))),
        },
    ),
    Border(
        "factor_baseline",
        fx.factor_baseline,
        {"net": NET, "psi": PSI},
        {
            "net": (None, 3, "net", fx.LaggedNetwork({0: NET})),
            "psi": (None, "psi", np.ones(3), PSI * 1j),
            "weights": NOT_WEIGHTS,
        },
    ),
    Border(
        "variance_report",
        fx.variance_report,
        {**SAMPLES, "psi": PSI},
        {
            "log_prob": (None, 3, "log_prob", PSI, joint),
            "params": ("theta", {"a": "b"}),
            "actions": (None, 3, "a", np.ones((3, 2), int), TEXT, ACTIONS * 1j),
            "psi": (
                *(None, 3, "psi", np.ones((4, 3)), PSI * 1j, PSI.astype(object), PSI * NAN, TEXT, PSI[:0], PSI[:1]),
                *(Named(PSI[:3], "actions"),),
            ),
            "net": (*NOT_NETWORKS, ONE_ROW, Named(WIDE, "psi")),
            "weights": NOT_WEIGHTS,
            "obs": (3, "obs", np.ones((3, 5)), TEXT),
            "probabilities": (
                *(3.0, "p", np.full(3, 1 / 3), [0.5, 0.5, 0.5, -0.5], [0.5] * 4, [NAN, 0.5, 0.5, 0.0]),
                *(np.full(4, 0.25 + 0j),),
            ),
            "disjoint": NOT_FLAGS,
        },
    ),
    Border(
        "discover",
        fx.discover,
        {"problem": CHAIN},
        {
            "problem": (None, 3, "chain", object(), [CHAIN], BATCH),
            "method": ("scores", "interventionl", None, 3),
            "policy": (3, "policy", object()),
            "horizon": tuple(value for value in NOT_COUNTS if value is not None),
            "trials": NOT_COUNTS,
            "groups": NOT_FLAGS,
            "start": (3, "net", [[7.0]]),
            "streams": ("hold", None, 3),
            "exogenous": (3, "ab", [-1], [0]),
            "seed": NOT_SEEDS,
            "trial": (3,),  # a misspelt option
            "samples": (3,),  # of another method
        },
    ),
    Border(
        "discover (data)", fx.discover, {"problem": BATCH, "method": "score"}, {"robust": NOT_FLAGS, "trials": (3,)}
    ),
    Border(
        "wrap",
        wrap,
        {"env": bandit, "network": np.eye(2)},
        {
            "env": NOT_ENVIRONMENTS,
            "network": (3, "net", [[7.0]], np.eye(3)),
            "reward": (3, "profit", "info:", "info:a,a"),
            "weights": ("w", [1.0], [NAN, 1.0], [1j, 1]),
            "factors": ("element", 3),
            "local": (3, "local"),
            "observe": (3, "wind", [3], ["a", "a"], None),
            "check_sum": NOT_FLAGS,
            "check_seed": NOT_FLAGS,
        },
    ),
    Border(
        "check_problem",
        fx.check_problem,
        {"problem": CHAIN, "steps": 1},
        {
            "problem": (None, 3, [CHAIN], object()),
            "network": (3, "nearby", [[7.0]], ONE_ROW),
            "weights": NOT_WEIGHTS,
            "steps": NOT_COUNTS,
            "seed": NOT_SEEDS,
        },
    ),
    Border(
        "FactoredPPO",
        fx.FactoredPPO,
        {"problem": CHAIN, "hidden": (2,), "n_envs": 1, "n_steps": 2, "batch_size": 2},
        {
            "problem": (None, 3, [CHAIN], object(), "no-such-problem", "os:getcwd", "MlpPolicy", "", "queues:0x0"),
            "network": (3, "nearby", "", [[7.0]], ONE_ROW, object(), "no.json"),
            "weights": NOT_WEIGHTS,
            "local": (3, "local"),
            "neighbours": (3, "grid", [[1]], [[1, 1], [0, 1]]),
            "critic": ("values", 3),
            "preset": ("trafic", None, 3),
            "method": ("mapo", None, 3),
            "policy": ("shard", None),
            "device": ("cpus",),
            "n_envs": (0, True, 10**23),
            "batch_size": (0,),
            "gamma": (NAN, 2, "0.9"),
            "seed": (-1, 10**23, "0"),
            "check_network": NOT_FLAGS,
            "tensorboard_log": (3, True),
            "verbose": (-1, "yes", None, 1.5),
            "learning_rat": (Named(1e-3, "learning_rat(e)?"),),
        },
    ),
    Border(
        "FactoredPPO.learn",
        method("learn"),
        {"total_timesteps": 0, "progress_bar": False},
        {
            "total_timesteps": (-1, 1.5, NAN, INF, "10", True, 10**23),
            "callback": (3, "print", [3]),
            "log_interval": (-1, 1.5, "1", True),
            "reset_num_timesteps": NOT_FLAGS,
            "progress_bar": NOT_FLAGS,
        },
    ),
    Border(
        "FactoredPPO.predict",
        method("predict"),
        {"observation": np.zeros(3)},
        {
            "observation": (
                *(None, "obs", np.zeros(2), np.zeros((1, 2, 3)), (np.zeros(3), {}), ["a"] * 3),
                *(
                    np.zeros(3) * 1j,
                    [0, NAN, 0],
                    np.array([None] * 3),
                ),
            ),
            "deterministic": NOT_FLAGS,
        },
    ),
    Border(
        "FactoredPPO.evaluate",
        method("evaluate"),
        {},
        {"episodes": NOT_COUNTS, "deterministic": NOT_FLAGS, "seed": NOT_SEEDS},
    ),
    Border("FactoredPPO.save", method("save"), {"path": "model"}, {"path": (*NOT_PATHS, "no-such/model")}),
    Border("FactoredPPO.load", fx.FactoredPPO.load, {}, {"path": (*NOT_PATHS, "no-such-file")}),
    Border(
        "report",
        fx.report,
        {"what": "no-such-run", "out": "report.html", "play": False},
        {
            "what": (None, 3, "", "no-such-run", [], [3], ["no-such-a", "no-such-b"]),
            "out": (None, 3, "", "report.pdf", "no-such-folder/a.html"),
            "play": NOT_FLAGS,
            "trusted": (3,),
            "open_browser": NOT_FLAGS,
        },
    ),
)


def fault_of(call, argument):
    """Return what is wrong with how a call is refused; an empty text if nothing is."""
    try:
        call()
    except FileNotFoundError as error:  # begins with the argument or with the path
        return "" if re.match(rf"({argument}\b|\S+:)", str(error)) else f"unclear: {error}"
    except (ValueError, TypeError) as error:
        message, frames = str(error), traceback.extract_tb(error.__traceback__)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    else:
        return "accepted"
    if not Path(frames[-1].filename).is_relative_to(SOURCE):
        return f"raised in {frames[-1].filename}: {message}"
    named = re.match(rf"(\w+, )*{argument}(\[.*?\])?(, \w+)*( \(\w+\))?: ", message)
    return "" if named else f"does not name {argument}: {message}"


@pytest.mark.parametrize(
    ("border", "argument"),
    [pytest.param(border, name, id=f"{border.name}({name})") for border in BORDERS for name in border.bad],
)
def test_bad_arguments_are_refused_by_name(border, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    faults = {}
    for bad in border.bad[argument]:
        value, name = (bad.value, bad.argument) if isinstance(bad, Named) else (bad, re.escape(argument))
        fault = fault_of(lambda value=value: border.function(**{**border.good, argument: value}), name)
        if fault:
            faults[repr(value)] = fault
    assert faults == {}
    assert list(tmp_path.iterdir()) == []


NEED_FILES = ("InfluenceNetwork.load", "FactoredPPO.load", "report")


@pytest.mark.parametrize("border", [each for each in BORDERS if each.name not in NEED_FILES], ids=lambda b: b.name)
def test_the_other_arguments_are_accepted(border, tmp_path, monkeypatch):
    """Otherwise a bad argument could be refused for another reason."""
    monkeypatch.chdir(tmp_path)
    border.function(**border.good)


HALF = np.full((2, 2), 0.5)
BANDIT = problems.search_bandit([1.0, 2.0])
ENDS = {"terminated": np.zeros((3, 2), bool), "ended": np.zeros((3, 2), bool), "gamma": 0.9, "trace": 0.9}
WRONG_RESULTS = [
    ("probabilities", lambda: gradients.coma(HALF, HALF * 1.2, [0, 1])),  # do not add up to 1
    ("actions", lambda: gradients.coma(HALF, HALF, [0, -1])),  # would be the last choice
    ("actions", lambda: gradients.coma(HALF, HALF, [True, False])),  # would be a mask
    ("actions", lambda: gradients.tabular_features(-ACTIONS, [2, 2])),
    ("actions", lambda: gradients.tabular_features(ACTIONS + 0.5, [2, 2])),
    ("sizes", lambda: gradients.joint_actions(independent, jnp.zeros((2, 2)), sizes=[1, 2])),  # leaves choices out
    ("psi", lambda: gradients.least_squares_baseline(**SAMPLES, psi=PSI[0], features=np.ones((4, 2, 1)))),
    ("lower", lambda: gradients.nonnegative_translation(PSI, lower=[1.0, 1.0], upper=[0.0, 0.0])),
    ("uniforms", lambda: discovery.Batch(PSI, PSI, HALF.repeat(2, axis=0) + 1).checked()),
    ("p_value", lambda: discovery.adjusted(HALF * 4)),
    ("values", lambda: gae(np.ones((2, 2)), np.ones((3, 2)), np.ones((3, 2)), **ENDS)),
    ("ended", lambda: gae(*np.ones((3, 3, 2)), **{**ENDS, "ended": np.zeros((3, 3), bool)})),
    ("action", lambda: BANDIT.gap(np.ones(1))),  # broadcasts
    ("weights", lambda: problems.Bandit(NET, np.ones(1), abs, np.zeros(2))),  # broadcasts
    ("low", lambda: runs.Interval(mean=1.0, low=2.0, high=0.5)),
    ("steps", lambda: runs.Group("a", np.array([2, 1, 0]), np.ones((2, 3)))),
    ("returns", lambda: runs.Group("a", np.arange(3), np.ones((2, 4)))),
]
"""Calls outside the ten names that would give a wrong number without a word, each with the argument at fault."""


@pytest.mark.parametrize(("argument", "call"), WRONG_RESULTS)
def test_what_would_give_a_wrong_number_is_refused(argument, call):
    assert fault_of(call, argument) == ""
