"""Lookup of problems by name, used by `FactoredPPO`, the command line, run folders and the RLlib adapter."""

import importlib
import os
import sys
from functools import partial
from typing import Any

import gymnasium as gym

from .._checks import checked
from .._text import did_you_mean, nearest, shown
from ..plugins import families, family_of, imported, missing_distribution
from ..plugins import register as register
from .problem import Problem
from .vectors import create


def find_problem(name: str) -> Any:
    """Return the problem of this name: a `Problem`, or a function that returns a Gymnasium environment.

    - ``queues:4x4``, ``chain:16``, ``contextual-bandit``: a built-in JAX problem of this size;
    - ``rddl:UAV_ippc2023/4``: an RDDL model of rddlrepository, with the network derived from it (extra ``rddl``);
    - ``gymnax:CartPole-v1``, ``jaxmarl:MPE_simple_spread_v3``, ``brax:ant``, ``playground:CartpoleBalance``,
      ``jumanji:Snake-v1``: a JAX environment of another package, with settings after commas, as in
      ``jaxmarl:MPE_simple_spread_v3,num_agents=5`` (extra ``jax-envs``);
    - ``prefix:text``: a family of an installed plug-in, such as ``traffic:3x3`` of factorax-traffic, or one that you
      registered, see `register`;
    - ``CartPole-v1``, ``factorax/SearchBandit-v0``: an environment registered with Gymnasium;
    - ``package.module:function``: the result of that function, a `Problem` or a Gymnasium environment.

    >>> find_problem("chain:5").network.shape
    (5, 5)
    """
    prefix, _, text = checked("problem", name, str).partition(":")
    known = families()
    if prefix in known:
        return _import(name, *known[prefix].make.split(":"))(text)
    missing = missing_distribution(prefix)
    if text and not missing:
        return _from_module(name, prefix, text)
    if name in gym.registry:
        return partial(gym.make, gym.spec(name))  # the spec, because workers may not have registered the name
    raise ValueError(
        f"problem: got {name!r:.200}, want one of {', '.join(known)} (with a size, as in queues:4x4), an id that "
        f"Gymnasium knows, or package.module:function"
        f"{missing or did_you_mean(name, [*known, *gym.registry])}"
    )


def leads_to(name: str) -> str:
    """Return what loading this problem requires outside of factorax, its plug-ins and Gymnasium.

    The result is ``"code to be run"``, ``"files to be read"``, or an empty text. A name from an untrusted file is used
    only if the result is empty. Families that do not say which files they read count as code.

    >>> leads_to("chain:8"), leads_to("package.module:function"), leads_to("rddl:domain.rddl/instance.rddl")
    ('', 'code to be run', 'files to be read')
    """
    prefix, colon, text = name.partition(":")
    family = families().get(prefix)
    if family is None:
        return "code to be run" if colon else ""
    # A family that does not say which files it reads was not written for names from strangers.
    if family.files is None:
        return "code to be run"
    return "files to be read" if family.files and imported(family.files)(text) else ""


def in_simulator(name: str, simulator: str) -> str:
    """Return the name of the same problem in another simulator that its family has.

    >>> in_simulator("chain:8", "exact")
    Traceback (most recent call last):
    ValueError: sim: got exact for 'chain:8', which has no other simulators; want own
    """
    family = family_of(name)
    simulators = family.simulators if family is not None else {}
    if simulator not in simulators:
        others = f"has {', '.join(simulators)}" if simulators else "has no other simulators"
        raise ValueError(
            f"sim: got {simulator} for {shown(name)}, which {others}; want {', '.join(['own', *simulators])}"
        )
    return imported(simulators[simulator])(name)


def _import(name: str, module: str, function: str) -> Any:
    # A relative import would be relative to this file.
    if not module or module.startswith("."):
        raise ValueError(f"problem: got {name!r:.200}, want package.module:function")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        prefix, colon, text = name.partition(":")
        close = None if prefix in families() else nearest(prefix, families())
        hint = f"; did you mean {close}{colon}{text}?" if close else ""
        raise ValueError(
            f"problem: cannot import {name!r:.200} ({error}), want package.module:function{hint}"
        ) from error


def _from_module(name: str, module: str, function: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    make = _import(name, module, function)
    if not callable(make):
        raise ValueError(f"problem: got {name!r:.200}, which is {shown(make)}; want a function that returns a problem")
    # Created once to see what it is; training creates its own environments.
    problem: Any = create(make)
    if isinstance(problem, Problem):
        return problem
    if not all(hasattr(problem, each) for each in ("reset", "step", "close", "action_space", "observation_space")):
        raise ValueError(
            f"problem: got {name!r:.200}, which returns {shown(problem)}; want a function that returns a Problem or a "
            "Gymnasium environment"
        )
    problem.close()
    return make
