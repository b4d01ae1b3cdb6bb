"""Lookup of problems by name, used by `FactoredPPO`, the command line, run folders and the RLlib adapter."""

import importlib
import os
import re
import sys
from functools import partial
from typing import Any

import gymnasium as gym

from .._checks import checked, did_you_mean, nearest, shown
from .problem import Problem
from .vectors import create

_BUILT_IN = {
    "contextual-bandit": "factorax.problems.families:contextual_bandit",
    "chain": "factorax.problems.families:chain",
    "queues": "factorax.problems.families:queues",
    "market": "factorax.problems.families:market",
    "traffic": "factorax.problems.families:traffic",
    "sumo": "factorax.problems.families:sumo",
    "resco": "factorax.problems.families:resco",
    "rddl": "factorax.integrations.rddl:named",
    "gymnax": "factorax.integrations.gymnax:named",
    "jaxmarl": "factorax.integrations.jaxmarl:named",
    "brax": "factorax.integrations.brax:named",
    "playground": "factorax.integrations.playground:named",
    "jumanji": "factorax.integrations.jumanji:named",
}
_FAMILIES = dict(_BUILT_IN)
_IN_JAX = ("gymnax", "jaxmarl", "brax", "playground", "jumanji")
_DOWNLOADED = ("MNISTBandit-bsuite", "Sokoban-v0")
"""Environments of other packages that download data when they are created."""


def register(prefix: str, entry_point: str) -> None:
    """Register a family of problems, so that `find_problem` accepts ``prefix:text``.

    **Arguments**

    - `prefix`: lower-case letters, digits and hyphens; it must not be in use.
    - `entry_point`: ``"package.module:function"``. The module is imported when a problem of the family is first used.
      The function takes the text after the colon (``""`` if there is none) and returns a `Problem` or a function that
      returns a Gymnasium environment.

    A run folder with a registered problem is loaded only if the name of the problem is repeated, as for
    ``package.module:function``: see `factorax.runs.load`.

    >>> register("my-chain", "factorax.problems.families:chain")
    >>> find_problem("my-chain:5").network.shape
    (5, 5)
    """
    if not isinstance(prefix, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", prefix):
        raise ValueError(f"prefix: got {prefix!r}, want lower-case letters, digits and hyphens, as in my-problem")
    if not isinstance(entry_point, str) or not re.fullmatch(r"\w+(\.\w+)*:\w+", entry_point):
        raise ValueError(f"entry_point: got {entry_point!r}, want package.module:function")
    if _FAMILIES.get(prefix, entry_point) != entry_point:
        raise ValueError(f"prefix: got {prefix!r}, which is already {_FAMILIES[prefix]}; want another prefix")
    _FAMILIES[prefix] = entry_point


def find_problem(name: str) -> Any:
    """Return the problem of this name: a `Problem`, or a function that returns a Gymnasium environment.

    - ``queues:4x4``, ``chain:16``, ``contextual-bandit``: a built-in JAX problem of this size;
    - ``market:10``, ``market:10,risk_aversion=0.5,correlation=0.5``: a dealer who quotes on ten assets, with the
      numeric settings of `factorax.problems.market.MarketModel`;
    - ``traffic:3x3``, ``traffic:2x6,norm=fixed,slots=20``: traffic lights in the lane simulator, with the settings of
      `factorax.problems.traffic.lanes`; ``sumo:3x3`` is the same in SUMO, and ``sumo:town.net.xml,town.rou.xml`` a
      network of your own (extra ``sumo``);
    - ``resco:cologne8``, ``resco:grid4x4,interval=5``: a network of the RESCO benchmark from an installed sumo-rl, with
      the settings of `factorax.problems.traffic.city.CityEnv`;
    - ``rddl:UAV_ippc2023/4``: an RDDL model of rddlrepository, with the network derived from it (extra ``rddl``);
    - ``gymnax:CartPole-v1``, ``jaxmarl:MPE_simple_spread_v3``, ``brax:ant``, ``playground:CartpoleBalance``,
      ``jumanji:Snake-v1``: a JAX environment of another package, with settings after commas, as in
      ``jaxmarl:MPE_simple_spread_v3,num_agents=5`` (extra ``jax-envs``);
    - ``prefix:text``: a registered family, see `register`;
    - ``CartPole-v1``, ``factorax/SearchBandit-v0``: an environment registered with Gymnasium;
    - ``package.module:function``: the result of that function, a `Problem` or a Gymnasium environment.

    >>> find_problem("chain:5").network.shape
    (5, 5)
    """
    prefix, _, text = checked("problem", name, str).partition(":")
    if prefix in _FAMILIES:
        return _import(name, *_FAMILIES[prefix].split(":"))(text)
    if text:
        return _from_module(name, prefix, text)
    if name in gym.registry:
        return partial(gym.make, gym.spec(name))  # the spec, because workers may not have registered the name
    raise ValueError(
        f"problem: got {name!r}, want one of {', '.join(_FAMILIES)} (with a size, as in queues:4x4), an id that "
        f"Gymnasium knows, or package.module:function{did_you_mean(name, [*_FAMILIES, *gym.registry])}"
    )


def leads_to(name: str) -> str:
    """Return what loading this problem requires outside of factorax and Gymnasium.

    The result is ``"code to be run"``, ``"files to be read"``, or an empty text. A name from an untrusted file is used
    only if the result is empty. Registered families count as code, since they were not written for untrusted text.

    >>> leads_to("traffic:3x3"), leads_to("package.module:function"), leads_to("sumo:town.net.xml,town.rou.xml")
    ('', 'code to be run', 'files to be read')
    """
    prefix, colon, text = name.partition(":")
    if prefix not in _BUILT_IN:
        return "code to be run" if colon or prefix in _FAMILIES else ""
    if prefix == "sumo":
        size = text.split(",")[0]
        return "" if re.fullmatch(r"[\dx]*", size) else "files to be read"
    if prefix == "rddl":
        parts = text.split("/")
        named = len(parts) <= 2 and all(re.fullmatch(r"[\w-]*", part) and not os.path.exists(part) for part in parts)
        return "" if named else "files to be read"
    if prefix in _IN_JAX:
        name, *settings = text.split(",")
        values = [setting.partition("=")[2] for setting in settings]
        plain = all(re.fullmatch(r"[\w.|+-]*", part) and not os.path.exists(part) for part in (name, *values) if part)
        return "" if plain and name not in _DOWNLOADED else "files to be read"
    return ""


def in_sumo(name: str) -> str:
    """Return the name of the same traffic in SUMO.

    >>> in_sumo("traffic:3x3,slots=16,norm=fixed")
    'sumo:3x3,norm=fixed'
    """
    head, _, rest = name.partition(":")
    if head not in ("traffic", "sumo"):
        raise ValueError(
            f"sim: got sumo for {name!r}, which is not a traffic problem; want a run of traffic:3x3 or similar"
        )
    return "sumo:" + ",".join(part for part in rest.split(",") if not part.startswith("slots="))


def _import(name: str, module: str, function: str) -> Any:
    if not module or module.startswith("."):
        raise ValueError(f"problem: got {name!r}, want package.module:function")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        prefix, colon, text = name.partition(":")
        close = None if prefix in _FAMILIES else nearest(prefix, _FAMILIES)
        hint = f"; did you mean {close}{colon}{text}?" if close else ""
        raise ValueError(f"problem: cannot import {name!r} ({error}), want package.module:function{hint}") from error


def _from_module(name: str, module: str, function: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    make = _import(name, module, function)
    if not callable(make):
        raise ValueError(f"problem: got {name!r}, which is {shown(make)}; want a function that returns a problem")
    problem: Any = create(make)
    if isinstance(problem, Problem):
        return problem
    if not all(hasattr(problem, each) for each in ("reset", "step", "close", "action_space", "observation_space")):
        raise ValueError(
            f"problem: got {name!r}, which returns {shown(problem)}; want a function that returns a Problem or a "
            "Gymnasium environment"
        )
    problem.close()
    return make
