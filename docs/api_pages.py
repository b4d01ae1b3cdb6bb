"""Write the API reference: a page per public module into `docs/reference/api/`, and their index.

Every public name is documented once, under the shortest path by which users import it: `factorax.InfluenceNetwork`, on
the page of the package that defines it. Other paths of the same object are aliases, which `resolve_alias` turns into
links. `conf.py` runs this file at every build.
"""

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE / "reference" / "api"
INDEX = HERE / "_generated" / "api.md"

MODULES = (
    "factorax.structure",
    "factorax.structure.patterns",
    "factorax.structure.gallery",
    "factorax._credit",
    "factorax.gradients",
    "factorax.discovery",
    "factorax.choices",
    "factorax.ppo",
    "factorax.ppo.methods",
    "factorax.networks",
    "factorax.runs",
    "factorax.runs.statistics",
    "factorax.runs.report",
    "factorax.plugins",
    "factorax.problems",
    "factorax.integrations",
    "factorax.integrations.rllib",
    "factorax.rollouts",
    "factorax.spec",
    "factorax.spaces",
    "factorax.distributions",
    "factorax.observations",
    "factorax_traffic",
    "factorax_traffic.city",
    "factorax_paper",
    "factorax_paper.experiments",
    "factorax_paper.market",
)
"""Public modules of the three distributions, in the order of the index. `_credit` is public as `factorax.credit`."""

MORE = {
    "factorax.structure": "base_network.TrainingSizes base_network.RolloutView base_network.RolloutCredit",
    "factorax.ppo": """credits.Credit credits.Estimates compiled.Program diagnostics.Evidence method.Minibatches
        method.Samples""",
    "factorax.problems": "bandits.best_action",
    "factorax_traffic": """controllers.every controllers.gap_out controllers.actuated controllers.trained
        film.animate drawing.draw_influence sumo.TrafficEnv sumo.parallel.TrafficParallelEnv""",
    "factorax_paper": """harness.experiment.Experiment harness.experiment.reproduce harness.claims.Claim
        harness.claims.published harness.claims.collected harness.bandit_engine.BanditMethod
        harness.bandit_engine.BanditLearner harness.bandit_engine.Runs harness.noise.gaussian_pair harness.ball.radius
        harness.ball.noise_of_update harness.sweep.Search harness.sweep.Job harness.sweep.run
        search_with_states.contextual_search""",
}
"""Names in modules of a package that the pages explain and that it does not re-export."""

MAIN = """InfluenceNetwork wrap FactoredPPO credit factor_baseline discover close_over check_problem variance_report
    report"""
"""The names that most users need: the first table of the index."""

OPTIONS = {
    "factorax.InfluenceNetwork": ":exclude-members: form",
    "factorax.structure.StructureWarning": ":no-members:",
    "factorax.gradients.ProductFormError": ":no-members:",
    "factorax.gradients.VarianceReport": ":no-show-inheritance:",
    "factorax.gradients.Estimate": ":no-members:",
    "factorax_paper.market.Market": ":members: influence",
    "factorax_paper.market.Optimum": ":members: value, rule",
    "factorax_traffic.LaneProblem": ":members: influence",
    "factorax_traffic.city.CityEnv": ":members: reset, step, influence, local, score",
    "factorax.integrations.BatchedSimulator": ":members: reset, step",
    "factorax.integrations.FactoredVector": ":members: reset, step",
    "factorax.runs.Interval": ":special-members: __truediv__",
}
"""Options of directives: most leave out members of base classes of other packages."""

_PACKAGES = ("factorax", "factorax_traffic", "factorax_paper")
_HELPERS = ("factorax._checks", "factorax._lazy")


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return the public names of a module: what it defines, and what a package re-exports."""
    package = hasattr(module, "__path__")
    names = {}
    for name in dir(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None)
        if name.startswith("_") or inspect.ismodule(value) or not callable(value) or home is None:
            continue
        if home == module.__name__ or (package and home.split(".")[0] in _PACKAGES and home not in _HELPERS):
            names[name] = value
    return names


def documented() -> dict[str, list[str]]:
    """Return the dotted names on the page of every module; no object is on two pages."""
    import factorax

    top = {id(value): f"factorax.{name}" for name, value in public_names(factorax).items()}
    listed: set[int] = set()
    pages = {}
    for path in MODULES:
        module = importlib.import_module(path)
        values = {f"{path}.{name}": value for name, value in public_names(module).items()}
        more = [f"{path}.{name}" for name in MORE.get(path, "").split()]
        values |= {name: find(name) for name in more}
        new = {name: value for name, value in values.items() if id(value) not in listed}
        listed |= {id(value) for value in new.values()}
        pages[path] = [top.get(id(value), name) for name, value in new.items()]
    return pages


def aliases() -> dict[str, str]:
    """Return the documented name for every other public path of the same object."""
    names = {id(find(name)): name for page in documented().values() for name in page}
    other = {}
    for path in ("factorax", *MODULES):
        for name, value in public_names(importlib.import_module(path)).items():
            if id(value) in names and names[id(value)] != f"{path}.{name}":
                other[f"{path}.{name}"] = names[id(value)]
    patterns = {name for name in names.values() if name.startswith("factorax.structure.patterns.")}
    return other | {name.replace(".structure.", "."): name for name in patterns}  # `fx.patterns` is an attribute


def find(name: str) -> Any:
    """Return the object of a dotted name.

    >>> find("factorax.credit").__name__
    'credit'
    """
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise ImportError(f"name: got {name!r}, want a module and names in it")


def summary(value: Any) -> str:
    """Return the first sentence of a docstring."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def directive(name: str) -> str:
    """Return the directive that documents an object."""
    value = find(name)
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) and not issubclass(value, Warning) else "class"
    else:
        kind = "function" if callable(value) else "data"
    options = f"\n   {OPTIONS[name]}" if name in OPTIONS else ""
    return f".. auto{kind}:: {name}{options}"


def title(path: str) -> str:
    """Return the heading of a module."""
    return "Credit" if path == "factorax._credit" else path


def file_name(path: str) -> str:
    """Return the name of the page of a module, without its extension.

    >>> file_name("factorax._credit"), file_name("factorax_traffic.city")
    ('credit', 'factorax_traffic.city')
    """
    return path.removeprefix("factorax.").strip("_")


def page(path: str, names: list[str]) -> str:
    """Return the page of a module."""
    module = importlib.import_module(path)
    directives = "\n".join(directive(name) for name in names)
    return f"# {title(path)}\n\n{inspect.getdoc(module)}\n\n```{{eval-rst}}\n{directives}\n```\n"


def table(names: list[str]) -> str:
    """Return a table of names, with links and their first sentences."""
    rows = "".join(f"| {{py:obj}}`{name}` | {summary(find(name))} |\n" for name in names)
    return f"| name | description |\n|---|---|\n{rows}"


def index(pages: dict[str, list[str]]) -> str:
    """Return a table of all names of every module, with links."""
    parts = ["## The names that most users need\n\n" + table([f"factorax.{name}" for name in MAIN.split()])]
    parts += [f"## [{title(path)}](api/{file_name(path)}.md)\n\n{table(names)}" for path, names in pages.items()]
    tree = "\n".join(f"api/{file_name(path)}" for path in pages)
    return "\n".join(parts) + f"\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def resolve_alias(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Link a public path of an object to the path under which it is documented."""
    name = aliases_once(app).get(node.get("reftarget"))
    if name is None or node.get("refdomain") != "py":
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)


def aliases_once(app: Any) -> dict[str, str]:
    """Return `aliases()`, computed once per build."""
    if not hasattr(app, "factorax_aliases"):
        app.factorax_aliases = aliases()
    return app.factorax_aliases


def main() -> None:
    """Write all pages; a page that did not change keeps its time, so that builds stay incremental."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    INDEX.parent.mkdir(exist_ok=True)
    pages = documented()
    texts = {FOLDER / f"{file_name(path)}.md": page(path, names) for path, names in pages.items()}
    for stale in set(FOLDER.glob("*.md")) - set(texts):
        stale.unlink()
    for path, text in {**texts, INDEX: index(pages)}.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
