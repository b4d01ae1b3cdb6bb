"""The policy in action: a film where the problem's family has one, otherwise an episode with labelled series."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import jax
import numpy as np

from ...observations import ObservationSpace
from ...plugins import family_of, imported
from ...ppo.model import FactoredPPO
from ...rollouts.factory import environments_for
from ...spec import Spec, opened
from .curves import numbers
from .inputs import RunInput, errors_as_notes

MAX_POLICIES = 4
MAX_STEPS = 500
MAX_COLUMNS = 40


def episodes_section(
    groups: Sequence[tuple[str, RunInput, Spec]], *, trusted: str | None, notes: list[str]
) -> list[dict[str, Any]]:
    """Return films and episodes of the first run of each group that has a checkpoint."""
    usable = [(name, run, spec) for name, run, spec in groups if run.checkpoints]
    if len(usable) > MAX_POLICIES:
        notes.append(f"only the policies of the first {MAX_POLICIES} of {len(usable)} groups are shown in action")
    sections: list[dict[str, Any]] = []
    by_problem: dict[str, list[tuple[str, RunInput]]] = {}
    for name, run, _ in usable[:MAX_POLICIES]:
        by_problem.setdefault(run.config["problem"], []).append((name, run))
    for problem, members in by_problem.items():
        family, film = family_of(problem), None
        if family is not None and family.film is not None:
            with errors_as_notes(notes, f"no film of {problem}"):
                film = imported(family.film)(problem, {run.path: name for name, run in members}, trusted=trusted)
            if film is not None:
                sections.append({"kind": "film", "player": family.prefix} | film)
                continue
        for name, run in members:
            with (
                errors_as_notes(notes, f"{run.path.name}: no episode could be played"),
                closing(FactoredPPO.load(run.path, trusted=trusted)) as model,
            ):
                sections.append({"kind": "episode", "name": name} | episode(model))
    return sections


def episode(model: FactoredPPO, *, seed: int = 0) -> dict[str, Any]:
    """Play one episode with the most probable actions; return its actions, targets and observations by name."""
    spec = model.spec
    # A vector environment exists only as a whole; the episode is that of its first row.
    environments = environments_for(spec, spec.num_envs or 1)
    act = model.compiled.act(model.state, deterministic=True)
    size, key = model.state.agent.policy.memory, jax.random.key_data(jax.random.key(seed))
    try:
        environments.init(seed)
        memory = np.zeros((len(environments.obs), size), np.float32)
        rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        ended = False
        while not ended and len(rows) < MAX_STEPS:
            obs = np.array(environments.obs, np.float32)
            if size:
                action, memory = act(key, obs, memory)
            else:
                action = act(key, obs)
            step = environments.step(action)
            in_bounds = spec.components.within(np.asarray(action), np)  # as the environment receives them
            rows.append((in_bounds[0], step.psi[0, 0], obs[0]))
            ended = bool(step.terminated[0, 0] | step.truncated[0, 0])
    finally:
        environments.close()
    actions, psi, obs = (np.array(column, float) for column in zip(*rows, strict=True))
    static = spec.network.static
    components = static.actions if spec.factors is None else [f"component {k + 1}" for k in range(actions.shape[1])]
    return {
        "length": len(rows),
        "ended": ended,
        "return": float(f"{float((psi @ spec.weights).sum()):.6g}"),
        "parts": [
            _part("actions", components, actions),
            _part("targets", static.targets, psi),
            _part("observations", observation_names(spec), obs),
        ],
    }


def observation_names(spec: Spec) -> list[str]:
    """Return a name for each number of an observation: as defined by the problem, or its position."""
    space = ObservationSpace.of(spec.observation_space)
    if spec.problem is not None:
        with opened(spec.problem) as source:
            named = getattr(getattr(source, "unwrapped", source), "observation_names", None)
        if isinstance(named, list | tuple) and len(named) == space.size:
            return [str(name) for name in named]
    names = []
    for part in space.parts:
        where = part.where.strip("[]'\"") or "observation"
        names += [where] if part.size == 1 and part.where else [f"{where}[{k}]" for k in range(part.size)]
    return names


def _part(title: str, names: Sequence[str], table: np.ndarray) -> dict[str, Any]:
    """Return the columns of an episode, or the most variable ones if there are many."""
    columns = np.arange(table.shape[1])
    if len(columns) > MAX_COLUMNS:
        columns = np.sort(np.argsort(-table.std(axis=0), kind="stable")[:MAX_COLUMNS])
    series = [{"name": str(names[k]), "y": numbers(table[:, k], 4)} for k in columns]
    return {"title": title, "total": int(table.shape[1]), "series": series}
