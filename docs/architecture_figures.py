"""Draw the two figures of the architecture page into `docs/_generated/`, and check them against the source code.

    python docs/architecture_figures.py FOLDER      # packages.svg and calls.svg, drawn into FOLDER

The arrows of `packages.svg` are the imports that the source code makes. An import that points upward is an error, and
so is a package that the figure does not show. The functions of `calls.svg` are looked up in the files that the figure
names.
"""

import ast
import sys
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

SOURCE = Path(__file__).parent.parent / "src" / "factorax"
FIGURES = Path(__file__).parent / "_generated"
HELPERS = (
    "_arrays",
    "_checks",
    "_false_discovery",
    "_files",
    "_html",
    "_lazy",
    "_programs",
    "_progress",
    "_xla",
)
"""Modules that import nothing of the library, and that any package may import."""

INK, GREY, LINE = "#1b1f24", "#59636e", "#6b7682"
TINTS = {
    "blue": ("#e3f0fa", "#0a5c9e"),
    "orange": ("#fdeedd", "#b34e00"),
    "green": ("#e2f3ec", "#00785a"),
    "purple": ("#f6e8f1", "#a04a82"),
    "grey": ("#eef0f2", "#59636e"),
}


class Package(NamedTuple):
    """A package as the figure shows it."""

    name: str
    summary: str
    tint: str
    column: int
    row: int


PACKAGES = (
    Package("cli", "the command factorax: parses, calls, prints", "grey", 1, 0),
    Package("experiments", "figures and tables of the paper,\none file per command", "grey", 1, 1),
    Package("integrations", "fx.wrap, RDDL, PettingZoo, RLlib,\nStable-Baselines3", "green", 1, 2),
    Package("runs", "run folders, comparisons,\nfilms, reports", "green", 1, 3),
    Package("discovery", "where K comes from:\ninterventions and tests", "blue", 2, 4),
    Package("learning", "the algorithm: policies, advantages,\nlosses, FactoredPPO", "blue", 1, 4),
    Package("rollouts", "who steps a problem:\ncollectors, backends, workers", "orange", 1, 5),
    Package("spec", "everything that is fixed\nbefore training starts", "orange", 1, 6),
    Package("problems", "what we train on: Problem,\nbandits, traffic", "orange", 1, 7),
    Package("spaces", "an action space as a flat\nlist of components", "purple", 2, 7),
    Package("observations", "an observation space as rows\nof numbers, and its structure", "purple", 0, 8),
    Package("distributions", "one file per distribution,\nfor NumPy and JAX", "purple", 2, 8),
    Package("gradients", "estimators, baselines,\nvariance and bias reports", "blue", 0, 7),
    Package("_credit", "the one place where\nK meets ψ", "blue", 1, 8),
    Package("structure", "what influences what: networks,\nfactorisations, closures", "blue", 1, 9),
)
"""From the top layer to the bottom one: a package imports only packages below it in this list."""
ORDER = tuple(package.name for package in PACKAGES)
_FILES = {path.stem for path in SOURCE.glob("*.py")}
_TINT = {package.name: package.tint for package in PACKAGES}


def imports(source: Path = SOURCE) -> dict[str, set[str]]:
    """Return the packages that each package imports, at the top of a file, inside functions or for type checkers."""
    packages: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts == ("__init__",):
            continue  # the public names, which come from everywhere
        imported = packages.setdefault(parts[0], set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                # Of a.b.c, one dot means a.b and two mean a; an __init__ is the package itself, one level up.
                base = parts[: len(parts) - node.level]
                base += tuple(node.module.split(".")) if node.module else ()
                imported.update([base[0]] if base else [alias.name for alias in node.names])
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                imported.update(name.split(".")[1] for name in names if name.startswith("factorax."))
        imported.discard(parts[0])
    return packages


def checked_imports(packages: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the same imports without helpers; raise if one points upward, or if a package is not in the figure."""
    unknown = packages.keys() - set(ORDER) - set(HELPERS)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not in the figure of packages; add it to PACKAGES")
    level = {name: i for i, name in enumerate(ORDER)}
    for name, imported in packages.items():
        upward = {other for other in imported & set(ORDER) if name in HELPERS or level[other] < level[name]}
        if upward:
            raise ValueError(f"{name} imports {', '.join(sorted(upward))}, which is above it in the order of packages")
    return {name: packages[name] & set(ORDER) for name in ORDER}


class Call(NamedTuple):
    """A function in the figure of calls."""

    name: str
    """Qualified: ``function``, ``Class.method`` or ``function.inner``."""
    file: str
    """Within ``src/factorax``."""
    column: int
    row: float


CALLS = {
    "main": Call("main", "cli/__init__.py", 1, 0),
    "command": Call("command_of", "cli/__init__.py", 0, 0),
    "with_preset": Call("train_with_preset", "cli/train.py", 0, 1),
    "train": Call("train", "cli/train.py", 1, 1),
    "run": Call("train", "runs/folder.py", 1, 2),
    "make_model": Call("make_model", "runs/folder.py", 0, 2),
    "model": Call("FactoredPPO.__init__", "learning/factored_ppo.py", 0, 3.5),
    "learner": Call("Learner.of", "learning/learner.py", 0, 5),
    "spec": Call("Spec.of", "spec.py", 0, 6),
    "learn": Call("FactoredPPO.learn", "learning/factored_ppo.py", 1, 3),
    "program": Call("Program.update", "learning/program.py", 1, 4),
    "program_compiled": Call("_Programs.update", "learning/program.py", 1, 5),
    "compiled": Call("compiled", "learning/devices.py", 1, 6),
    "update": Call("Learner.update", "learning/learner.py", 1, 8),
    "jax_collect": Call("JaxCollector.collect", "rollouts/in_jax.py", 0, 8),
    "jax_environments": Call("JaxEnvironments.collect", "rollouts/in_jax.py", 0, 9),
    "jax_step": Call("lanes.step", "problems/traffic/lane_problem.py", 0, 10),
    "host_collect": Call("HostCollector.collect", "rollouts/on_host.py", 2, 4),
    "backend": Call("Backend.collect", "rollouts/backend.py", 2, 5),
    "finish": Call("Backend.finish", "rollouts/backend.py", 2, 6),
    "fragments": Call("Inline.fragments", "rollouts/inline.py", 2, 7),
    "play": Call("Player.play", "rollouts/player.py", 2, 8),
    "player_collect": Call("Player._collect", "rollouts/player.py", 2, 9),
    "host_environments": Call("HostEnvironments.collect", "rollouts/host.py", 2, 10),
    "learn_from": Call("Learner.learn_from", "learning/learner.py", 1, 9),
    "rule": Call("Update.learn", "learning/ppo.py", 1, 10),
    "samples": Call("Update.samples", "learning/ppo.py", 0, 11.6),
    "estimates": Call("Update.estimates", "learning/ppo.py", 0, 12.6),
    "credit_rollout": Call("BaseNetwork.credit_rollout", "structure/base_network.py", 0, 13.6),
    "credit": Call("credit", "_credit.py", 0, 14.6),
    "loss": Call("Update.loss", "learning/ppo.py", 1, 11.6),
    "policy_loss": Call("Update.policy_loss", "learning/ppo.py", 1, 12.6),
    "log_prob": Call("Update.log_prob", "learning/ppo.py", 1, 13.6),
    "product": Call("Product.log_prob", "distributions/product.py", 1, 14.6),
}
LINKS = (
    ("main", "command"),
    ("command", "with_preset"),
    ("with_preset", "train"),
    ("train", "run"),
    ("run", "make_model"),
    ("make_model", "model"),
    ("model", "learner"),
    ("learner", "spec"),
    ("run", "learn"),
    ("learn", "program"),
    ("program", "program_compiled"),
    ("program_compiled", "compiled"),
    ("compiled", "update"),
    ("update", "jax_collect"),
    ("jax_collect", "jax_environments"),
    ("jax_environments", "jax_step"),
    ("program", "host_collect"),
    ("host_collect", "backend"),
    ("backend", "finish"),
    ("finish", "fragments"),
    ("fragments", "play"),
    ("play", "player_collect"),
    ("player_collect", "host_environments"),
    ("update", "learn_from"),
    ("learn_from", "rule"),
    ("rule", "samples"),
    ("samples", "estimates"),
    ("samples", "credit_rollout"),
    ("credit_rollout", "credit"),
    ("rule", "loss"),
    ("loss", "policy_loss"),
    ("policy_loss", "log_prob"),
    ("log_prob", "product"),
)
"""Pairs of caller and callee, keys of `CALLS`."""


def find_function(call: Call) -> ast.AST | None:
    """Return the definition of a function in the file that the figure names; None if it is missing."""
    path = SOURCE / call.file
    if not path.exists():
        return None
    node: ast.AST | None = ast.parse(path.read_text(encoding="utf-8"))
    for name in call.name.split("."):
        kinds = ast.FunctionDef | ast.ClassDef
        node = next((n for n in ast.iter_child_nodes(node) if isinstance(n, kinds) and n.name == name), None)
        if node is None:
            return None
    return node


class Layout(NamedTuple):
    """A grid of boxes, in inches; rows are counted from the top."""

    left: tuple[float, ...]
    """The left edge of each column."""
    width: float
    height: float
    top: float
    step: float
    """Distance from one row to the next."""

    def box(self, column: int, row: float) -> tuple[float, float, float, float]:
        """Return left, bottom, right and top of a box."""
        left, top = self.left[column], self.top - row * self.step
        return left, top - self.height, left + self.width, top


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return figure, ax


def _draw_box(ax: Axes, box: tuple[float, float, float, float], tint: str, title: str, text: str, mono: bool) -> None:
    left, bottom, right, top = box
    fill, edge = TINTS[tint]
    style = "round,pad=0,rounding_size=0.07"
    ax.add_patch(
        FancyBboxPatch((left, bottom), right - left, top - bottom, boxstyle=style, fc=fill, ec=edge, lw=1.1, zorder=3)
    )
    lines = 1 + text.count("\n")
    middle, centre = (left + right) / 2, (bottom + top) / 2
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    above, below = (0.105, 0.105) if lines == 1 else (0.178, 0.112)
    ax.text(
        middle, centre + above, title, ha="center", va="center", family="DejaVu Sans Mono", weight="bold", size=10,
        color=edge, zorder=4,
    )  # fmt: skip
    ax.text(middle, centre - below, text, ha="center", va="center", family=family, size=8.5, color=INK, zorder=4)


def _arrow(ax: Axes, points: list[tuple[float, float]], dashed: bool = False) -> None:
    style = {"color": LINE, "lw": 1.3, "zorder": 2, "ls": (0, (4, 2)) if dashed else "-"}
    (*_, before, end) = points
    if len(points) > 2:
        ax.plot(*zip(*points[:-1], strict=True), solid_capstyle="round", solid_joinstyle="round", **style)
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11} | style
    ax.annotate("", xy=end, xytext=before, arrowprops=arrow, zorder=2)


def draw_packages() -> Figure:
    """Draw the packages, and the imports between them that do not follow from others."""
    graph = nx.DiGraph({name: sorted(imported) for name, imported in checked_imports(imports()).items()})
    reduced = nx.transitive_reduction(graph)
    layout = Layout(left=(0.15, 3.45, 6.75), width=2.7, height=0.64, top=8.7, step=0.88)
    figure, ax = _canvas(9.6, 8.8)
    boxes = {p.name: layout.box(p.column, p.row) for p in PACKAGES}
    columns = {p.name: p.column for p in PACKAGES}
    for p in PACKAGES:
        _draw_box(ax, boxes[p.name], p.tint, p.name + (".py" if p.name in _FILES else "/"), p.summary, mono=False)
    for upper, lower in reduced.edges:
        _arrow(ax, _elbow(boxes[upper], boxes[lower], columns[upper], columns[lower]))
    left, _, _, top = layout.box(0, 9)
    note = "An arrow means “imports”. Imports that\nfollow from others are left out.\nNo arrow points up."
    ax.text(left, top, note, ha="left", va="top", size=8.5, color=GREY, linespacing=1.4)
    left, _, _, top = layout.box(2, 9)
    helpers = (
        "Any package may import the helpers\n_checks, _files, _lazy, _progress,\n"
        "_false_discovery, which import no package."
    )
    ax.text(left, top, helpers, ha="left", va="top", size=8.5, color=GREY, linespacing=1.4)
    return figure


def _elbow(
    upper: tuple[float, float, float, float], lower: tuple[float, float, float, float], from_: int, to: int
) -> list[tuple[float, float]]:
    """Return the points of an arrow from an upper box to a lower one; its vertical part is in the outer column."""
    gap = 0.02
    middle = (lambda box: (box[0] + box[2]) / 2), (lambda box: (box[1] + box[3]) / 2)
    if from_ == to:
        return [(middle[0](upper), upper[1]), (middle[0](lower), lower[3] + gap)]
    if from_ == 1:
        side = upper[0] if to < from_ else upper[2]
        corner = middle[0](lower), middle[1](upper)
        return [(side, corner[1]), corner, (corner[0], lower[3] + gap)]
    side = lower[0] - gap if from_ < to else lower[2] + gap
    corner = middle[0](upper), middle[1](lower)
    return [(corner[0], upper[1]), corner, (side, corner[1])]


def draw_calls() -> Figure:
    """Draw the chain of calls from the command line to the loss."""
    layout = Layout(left=(0.3, 3.5, 6.7), width=2.6, height=0.5, top=10.75, step=0.68)
    figure, ax = _canvas(9.6, 10.95)
    boxes = {key: layout.box(call.column, call.row) for key, call in CALLS.items()}
    _shade(ax, layout)
    for key, call in CALLS.items():
        package = call.file.split("/")[0].removesuffix(".py")
        _draw_box(ax, boxes[key], _TINT[package], call.name, call.file, mono=True)
    for caller, callee in LINKS:
        _arrow(ax, _route(boxes, caller, callee))
    for rollout in ("jax_environments", "player_collect"):
        box, target = boxes[rollout], boxes["learn_from"]
        y = (target[1] + target[3]) / 2
        ends = (box[2], target[0]) if rollout.startswith("jax") else (box[0], target[2])
        _arrow(ax, [(ends[0], y), (ends[1], y)], dashed=True)
    headings: dict[tuple[int, float], str] = {
        (0, 2): "set-up, once",
        (2, 4): "rollout of Gymnasium environments",
        (0, 8): "rollout of a JAX problem",
        (0, 11.6): "credit, per rollout",
        (1, 11.6): "loss, per minibatch",
    }
    for (column, row), text in headings.items():
        left, _, right, top = layout.box(column, row)
        left = (left + right) / 2 + 0.1 if column == 1 else left  # next to the arrow
        ax.text(left, top + 0.1, text, ha="left", va="center", size=8.5, style="italic", color=GREY, zorder=5)
    return figure


def _route(boxes: dict[str, tuple[float, float, float, float]], caller: str, callee: str) -> list[tuple[float, float]]:
    """Return the points of an arrow from the caller's box to the callee's, around the boxes between them."""
    a, b = boxes[caller], boxes[callee]
    y_a, y_b = (a[1] + a[3]) / 2, (b[1] + b[3]) / 2
    column, row = CALLS[caller].column, CALLS[caller].row
    if column == CALLS[callee].column:
        between = (c for c in CALLS.values() if c.column == column and row < c.row < CALLS[callee].row)
        if any(between):
            outside = a[0] - 0.17
            return [(a[0], y_a), (outside, y_a), (outside, y_b), (b[0] - 0.02, y_b)]
        middle = (a[0] + a[2]) / 2
        return [(middle, a[1]), (middle, b[3] + 0.02)]
    start, end = (a[0], b[2] + 0.02) if b[0] < a[0] else (a[2], b[0] - 0.02)
    if y_a == y_b:
        return [(start, y_a), (end, y_b)]
    channel = (start + end) / 2
    return [(start, y_a), (channel, y_a), (channel, y_b), (end, y_b)]


def _shade(ax: Axes, layout: Layout) -> None:
    """Shade what is compiled for a JAX problem, and add the notes that explain the figure."""
    left, _, _, top = layout.box(0, 8)
    _, bottom, right, _ = layout.box(1, 14.6)
    area = left - 0.24, bottom - 0.14, right - left + 0.41, top - bottom + 0.68
    ax.add_patch(Rectangle(area[:2], *area[2:], fc="#f6f8fa", ec="#c9d1d9", lw=1, zorder=0))
    ax.text(left, top + 0.38, "one compiled program", ha="left", va="center", size=9.5, weight="bold", color=GREY)
    left, _, _, top = layout.box(2, 11.6)
    notes = (
        "Solid arrows are calls, dashed arrows\n"
        "are the Transition [T, B, …] that comes\n"
        "back from a rollout.\n\n"
        "A JAX problem is stepped inside the\n"
        "compiled program. For Gymnasium\n"
        "environments, Program.update collects\n"
        "the rollout first, and only\n"
        "Learner.learn_from is compiled.\n\n"
        "Inline is one of three backends;\n"
        "Processes and RayActors let workers\n"
        "run the same Player."
    )
    ax.text(left, top, notes, ha="left", va="top", size=8.5, color=INK, linespacing=1.35)


def main(folder: Path = FIGURES) -> None:
    missing = [f"{call.name} in {call.file}" for call in CALLS.values() if find_function(call) is None]
    if missing:
        raise ValueError(f"not found: {', '.join(missing)}; bring CALLS up to date")
    folder.mkdir(exist_ok=True)
    draw_packages().savefig(folder / "packages.svg")
    draw_calls().savefig(folder / "calls.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES)
