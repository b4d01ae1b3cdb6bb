"""Effect of K: variance, bias and signal-to-noise ratio of each factor's gradient, and quality of the critic."""

import warnings
from contextlib import closing
from typing import Any

import numpy as np

from ...ppo.model import FactoredPPO
from ...spec import Spec
from .curves import QUARTILES, SNR, numbers
from .inputs import RunInput, errors_as_notes

TERMS = ("vanilla", "factored", "delta", "quadratic", "linear", "covariance", "alpha", "bias")
MAX_SERIES = 60


def credit_section(name: str, run: RunInput, spec: Spec, measured: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the section of one group, from one of its runs.

    - `measured`: the result of `measure_terms`; empty if nothing was measured.
    """
    assert run.curves is not None
    curves, network = run.curves, spec.network.static
    section: dict[str, Any] = {"name": name, "steps": numbers(curves.steps)}
    section["snr"] = _series(curves.vectors.get(SNR), network.actions)
    for of, labels in (("target", network.targets), ("factor", network.actions)):
        explained = _series(curves.vectors.get(f"{of}/explained_variance"), labels)
        if explained:
            section["explained"] = {"of": of, "series": explained}
    terms, source = dict(curves.last), f"logged in the last update, at {int(curves.steps[-1]):,} steps"
    if not terms:
        terms, source = measured, "measured on one rollout of the last checkpoint"
    rows = _terms(terms, network.actions)
    if rows:
        vanilla, factored = (float(np.sum(terms[f"variance/{key}"])) for key in ("vanilla", "factored"))
        ratio = float(f"{vanilla / factored:.4g}") if factored > 0 and np.isfinite(vanilla) else None
        section |= {"terms": rows, "ratio": ratio, "source": source, "gains": _gains(rows)}
    return section | {"drops": _drops(spec)}


def measure_terms(run: RunInput, spec: Spec, trusted: str | None, notes: list[str]) -> dict[str, np.ndarray]:
    """Return the variance decomposition of one more rollout with the policy of a run, without changing its folder.

    Empty if training logged the decomposition, or if K drops no target.
    """
    is_factored = not str(run.config["config"]["method"]).startswith(("ppo", "mappo"))
    if not _drops(spec) or not is_factored or not run.checkpoints or (run.curves is not None and run.curves.last):
        return {}
    metrics: dict[str, Any] = {}
    # A network may have no decomposition, and an environment may fail.
    with errors_as_notes(notes, f"{run.path.name}: the variance decomposition could not be measured"):
        # A report starts no cluster.
        is_ray = str(run.config["config"]["rollouts"]).startswith("ray")
        inline: dict[str, Any] = {"rollouts": "inline"} if is_ray else {}
        model = FactoredPPO.load(run.path, trusted=trusted, variance_report=True, n_epochs=1, **inline)
        with closing(model):
            _, (metrics,) = model.updates(1)
    return {key: np.atleast_1d(np.asarray(x, float)) for key, x in metrics.items() if key.startswith("variance/")}


def _drops(spec: Spec) -> bool:
    """Return whether K drops an edge, or may do so during training."""
    return spec.network.static.density < 1 or not spec.network.is_fixed


def _terms(terms: dict[str, np.ndarray], factors: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return one row per factor; empty if the decomposition is missing or was stored as quartiles."""
    columns = {key: terms[f"variance/{key}"] for key in TERMS if f"variance/{key}" in terms}
    if "delta" not in columns or any(len(column) != len(factors) for column in columns.values()):
        return []
    values = {key: numbers(column, 4) for key, column in columns.items()}
    return [{"factor": name} | {key: values[key][i] for key in values} for i, name in enumerate(factors)]


def _gains(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the factors with the largest and smallest reduction, as fractions of the vanilla variance."""
    shares = [
        (row["delta"] / row["vanilla"], row["factor"]) for row in rows if row["vanilla"] and row["delta"] is not None
    ]
    shares.sort(key=lambda pair: -pair[0])
    listed = [{"factor": name, "share": float(f"{share:.3g}")} for share, name in shares]
    # Of three or fewer factors, both lists would have the same.
    return {"most": listed[:3], "least": listed[::-1][:3] if len(listed) > 3 else []}


def _series(table: np.ndarray | None, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the columns of a metric as named curves, or quartiles if there are too many."""
    if table is None or not len(table) or not np.isfinite(table).any():
        return []
    names: tuple[str, ...] = labels
    if table.shape[1] != len(labels):
        if table.shape[1] != len(QUARTILES):
            return []
        names = QUARTILES
    elif len(labels) > MAX_SERIES:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # rows with only NaN
            table = np.nanquantile(table, [0, 0.25, 0.5, 0.75, 1], axis=1).T
        names = QUARTILES
    return [{"name": name, "y": numbers(column, 4)} for name, column in zip(names, table.T, strict=True)]
