"""A step of an RDDL environment with its reward split into terms, compared with pyRDDLGym's own.

pyRDDLGym is optional: without it (``pip install '.[rddl]'``) these rows are left out.
"""

import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from factorax_paper.harness.sb3_baseline import Scaled

from factorax.integrations import rddl
from factorax.ppo import Config, FactoredPPO

from .bench_learner import end_to_end, stable_baselines
from .timing import Row, at_most, medians

STEPS = 100
ROOMS = (
    """
domain rooms {
    types { room : object; };
    pvariables {
        temp(room) : { state-fluent, real, default = 10.0 };
        heat(room) : { action-fluent, real, default = 0.0 };
    };
    cpfs { temp'(?r) = 0.9 * temp(?r) + heat(?r) + Normal(0.0, 0.1); };
    reward = sum_{?r : room} [-abs[temp(?r) - 20] - 0.1 * pow[heat(?r), 2]];
    action-preconditions { forall_{?r : room} [heat(?r) >= -1 ^ heat(?r) <= 1]; };
}
""",
    """
non-fluents nf { domain = rooms; objects { room : {ROOMS}; }; }
instance thirty {
    domain = rooms; non-fluents = nf; max-nondef-actions = pos-inf; horizon = 100; discount = 1.0;
}
""".replace("ROOMS", ", ".join(f"r{i}" for i in range(30))),
)


def rows() -> Iterator[Row]:
    if find_spec("pyRDDLGym") is None or find_spec("rddlrepository") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("domain.rddl", "instance.rddl")]
        for path, text in zip(paths, ROOMS, strict=True):
            path.write_text(text, encoding="utf-8")
        problems = {"thirty rooms": (str(paths[0]), str(paths[1])), "UAV-4": ("UAV_ippc2023", "4")}
        for name, problem in problems.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield row(name, problem)
        yield from training()


def training() -> Iterator[Row]:
    """Measure complete training on UAV-4 with the model's network, relative to plain PPO."""
    config = Config(n_envs=8, n_steps=100, batch_size=200, policy="joint", critic="target")
    make = partial(rddl.make, "UAV_ippc2023", "4")
    theirs = stable_baselines(config, lambda: Scaled(make()))
    if theirs is not None:
        theirs.learn(config.n_envs * config.n_steps)
        yield end_to_end("UAV-4", FactoredPPO(make, **vars(config)), theirs, bound=1.2, rollouts=1)


def row(name: str, problem: tuple[str, str]) -> Row:
    ours = rddl.make(*problem)
    import pyRDDLGym  # pyright: ignore[reportMissingImports]

    theirs = pyRDDLGym.make(*problem, vectorized=True)
    ours.action_space.seed(0)
    actions = [ours.action_space.sample() for _ in range(STEPS)]

    def episode(env: Any) -> None:
        env.reset(seed=0)
        for action in actions:
            env.step(action)

    with_terms, bare = (t / STEPS for t in medians(lambda: episode(ours), lambda: episode(theirs)))
    # 15 µs and 2 % of the environment's own step
    return at_most(f"RDDL: a step of {name}", with_terms, bare, "pyRDDLGym", 1.02 + 15e-6 / bare)
