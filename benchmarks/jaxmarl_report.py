"""Files, tables and the figure of `benchmarks.jaxmarl_study`."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

OURS = ["own reward, local critic", "own reward", "own control cost", "complete K", "vanilla"]
ORDER = ["JaxMARL IPPO", "JaxMARL MAPPO", *OURS]
"""Names of methods in tables and figures."""
TITLES = {
    "spread": "MPE simple_spread, 3 agents",
    "ant": "MABrax ant_4x2",
    "hopper": "MABrax hopper_3x1",
}


def versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxmarl", "flax", "distrax", "optax", "equinox", "brax", "mujoco"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def merged(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Return results by task; if several files have the same method, the last one counts."""
    found: dict[str, Any] = {}
    for file in files:
        for task, results in file.items():
            before = found.get(task, results)
            for setting in ("steps", "seeds", "episodes"):
                if before[setting] != results[setting]:
                    values = f"{before[setting]} and {results[setting]}"
                    raise ValueError(f"{task}: got {setting} {values}, want the same for all; use another --out")
            methods = found.get(task, {}).get("methods", {}) | results["methods"]
            found[task] = results | {"methods": {name: methods[name] for name in sorted(methods, key=ORDER.index)}}
    return found


def interval(samples: Any) -> tuple[float, float]:
    """Return a mean, and half the width of Student's 95 % interval."""
    samples = np.asarray(samples, float)
    if len(samples) < 2:
        return float(samples.mean()), float("nan")
    error = samples.std(ddof=1) / len(samples) ** 0.5
    return float(samples.mean()), float(stats.t.ppf(0.975, len(samples) - 1) * error)


def verdict(ours: Any, theirs: Any) -> str:
    """Return ``better`` or ``worse`` if Welch's 95 % interval of the difference of means excludes 0."""
    test: Any = stats.ttest_ind(ours, theirs, equal_var=False)
    if not np.isfinite(test.pvalue) or test.pvalue >= 0.05:
        return "no difference seen"
    return "better" if np.mean(ours) > np.mean(theirs) else "worse"


def is_whole(method: dict[str, Any]) -> bool:
    """Return whether a method was trained to the end; files without this entry contain only such methods."""
    return method.get("trained", 0) >= method.get("wanted", 0)


def print_tables(found: dict[str, Any]) -> None:
    references = {"JaxMARL IPPO": "against IPPO", "JaxMARL MAPPO": "against MAPPO", "vanilla": "against vanilla"}
    for task, results in found.items():
        methods = results["methods"]
        columns = {name: title for name, title in references.items() if methods.get(name, {}).get("final")}
        print(f"\n{TITLES[task]}, {results['steps']:,} steps, {results['seeds']} seeds, {results['device']}\n")
        print("|", " | ".join(["method", "untrained", "return", *columns.values(), "seconds"]), "|")
        print("|" + "---|" * (len(columns) + 4))
        for name, method in methods.items():
            if not method["final"]:
                print(f"| {name}, stopped after {method['trained']:,} steps |" + " |" * (len(columns) + 3))
                continue
            mean, half = interval(method["final"])
            verdicts = ["" if each == name else verdict(method["final"], methods[each]["final"]) for each in columns]
            untrained = f"{np.mean(method['untrained']):.1f}" if "untrained" in method else ""
            label = name if is_whole(method) else f"{name}, only {method['trained']:,} steps"
            returns = [text.replace("-", "−") for text in (untrained, f"{mean:.1f} ± {half:.1f}")]
            print("|", " | ".join([label, *returns, *verdicts, f"{method['seconds']:.0f}"]), "|")


def draw(found: dict[str, Any], path: Path) -> None:
    """Plot learning curves: means over seeds and Student's 95 % intervals."""
    figure, panels = plt.subplots(1, len(found), figsize=(5 * len(found), 3.6), layout="constrained", squeeze=False)
    for panel, (task, results) in zip(panels[0], found.items(), strict=True):
        for name, method in results["methods"].items():
            # Without the first point: not every environment has finished an episode there.
            curves = np.array(method["curves"], float)[:, 1:]
            steps = np.array(method["steps"][1:]) / 1e6
            mean, half = curves.mean(axis=0), np.zeros(curves.shape[1])
            if len(curves) > 1:
                error = curves.std(axis=0, ddof=1) / len(curves) ** 0.5
                half = float(stats.t.ppf(0.975, len(curves) - 1)) * error
            style = "--" if name.startswith("JaxMARL") else "-"
            panel.plot(steps, mean, style, label=name)
            panel.fill_between(steps, mean - half, mean + half, alpha=0.2)
        panel.set(title=TITLES[task], xlabel="million steps", ylabel="return of the team")
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)
