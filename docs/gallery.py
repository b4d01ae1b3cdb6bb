"""Write the gallery: thumbnails into `docs/_generated/thumbnails/`, and a grid of cards, `docs/_generated/gallery.md`.

`conf.py` runs this file at every build, after the pages have drawn their figures.
"""

from pathlib import Path
from typing import NamedTuple

from PIL import Image

HERE = Path(__file__).parent
PAGE = HERE / "_generated" / "gallery.md"
THUMBNAILS = HERE / "_generated" / "thumbnails"
WIDTH = 480
"""Pixels of a thumbnail: twice the width of a card on most screens."""


class Picture(NamedTuple):
    """A figure of the documentation."""

    path: str
    title: str
    page: str
    command: str


def _experiment(name: str, title: str, page: str) -> Picture:
    command = f"factorax reproduce {name} --budget paper"
    return Picture(f"images/experiments/{name}.png", title, f"guides/{page}#{name}", command)


def _large_minibatches(name: str, title: str) -> Picture:
    command = f"factorax reproduce {name} --budget paper --set preset=traffic-paper-large-minibatches"
    return Picture(f"images/experiments/{name}-large-minibatches.png", title, "guides/traffic_study", command)


def _report(name: str, title: str) -> Picture:
    return Picture(f"images/report/{name}.png", title, "guides/report", "factorax report runs")


def _drawn_by(page: str, name: str, title: str) -> Picture:
    return Picture(f"_generated/{name}", title, page, f"python docs/run_page.py docs/{page}.md")


BANDITS, TRAINING, DISCOVERY = "experiments_bandits", "experiments_training", "experiments_discovery"
GROUPS: dict[str, tuple[Picture, ...]] = {
    "The idea": (
        Picture("images/idea.png", "Credit for every action", "explanation/idea", "python docs/idea_figure.py"),
        _drawn_by("get-started/tutorial", "greenhouse.svg", "Influence network of four greenhouses"),
        _drawn_by("get-started/tutorial", "greenhouse-matrix.svg", "Influence matrix of four greenhouses"),
        _drawn_by("get-started/tutorial_training", "training.svg", "Training with and without the network"),
    ),
    "Traffic lights": (
        Picture("images/traffic.gif", "Trained lights", "guides/traffic_study", "factorax watch every-20 RUN"),
        _experiment("traffic-3x3", "3×3 lights (Fig. 5a)", TRAINING),
        _experiment("traffic-2x6", "2×6 lights (Fig. 5b)", TRAINING),
        _experiment("traffic-better", "Better than the paper's PPO", TRAINING),
        _experiment("traffic-gradients", "Bias and variance of a light's gradient", TRAINING),
        _experiment("traffic-city", "Up to ten thousand lights", TRAINING),
        Picture(
            "images/experiments/cities.png",
            "Lights of four cities",
            "guides/cities",
            "factorax reproduce cities --budget paper",
        ),
        _large_minibatches("traffic-3x3", "3×3 lights, larger minibatches"),
        _large_minibatches("traffic-2x6", "2×6 lights, larger minibatches"),
        _drawn_by("guides/traffic", "traffic-networks.png", "Streets that a light influences"),
    ),
    "Search bandits": (
        _experiment("search-baselines", "Convergence (Fig. 4a)", BANDITS),
        _experiment("search-aliasing", "Aliasing (Fig. 4b)", BANDITS),
        _experiment("search-throughput", "Iterations per second (Table 1)", BANDITS),
        _experiment("search-stability", "Stability (Fig. 7)", BANDITS),
        _experiment("search-rate", "Steps to the optimum (Fig. 8)", BANDITS),
        _experiment("search-discrepancy", "With penalties (Fig. 9)", BANDITS),
        _experiment("search-states", "With states (App. D)", BANDITS),
    ),
    "Variance and bias": (
        _experiment("variance-decomposition", "Terms of ΔV (Fig. 3)", BANDITS),
        _experiment("variance-growth", "Growth with the number of actions", BANDITS),
        _experiment("noise-ball", "The ball around the optimum", BANDITS),
        _experiment("kappa-hop", "Truncated networks", BANDITS),
    ),
    "Training": (
        _experiment("uav-4", "UAV 4 of RDDL", TRAINING),
        _experiment("uav-5", "UAV 5 of RDDL", TRAINING),
        _experiment("market", "A market maker", TRAINING),
        _drawn_by("guides/market", "market-quotes.png", "Learned and exact quotes"),
        _experiment("learning-networks", "Networks that adapt", TRAINING),
        _experiment("curriculum", "A curriculum of networks", TRAINING),
        Picture(
            "images/relatives.png",
            "Related methods",
            "explanation/relatives",
            "factorax reproduce relatives --budget paper",
        ),
        Picture(
            "images/jaxmarl_study.png", "JaxMARL tasks", "guides/jax_environments", "python -m benchmarks.jaxmarl_study"
        ),
        Picture(
            "images/policy_study.png", "Memory and messages", "guides/policies", "python -m benchmarks.policy_study"
        ),
        Picture(
            "images/profile.png",
            "The time of an update",
            "explanation/profile",
            "python -m benchmarks.profile_update CPU",
        ),
    ),
    "Reports": (
        _report("verdict", "Verdict"),
        _report("curves", "Learning curves"),
        _report("network-map", "The influence network on the map"),
        _report("network-matrix", "The influence network as a matrix"),
        _report("credit", "What K bought"),
        _report("targets", "Targets over time"),
        _report("acting", "Two policies in action"),
        _report("reproduce", "How to reproduce a run"),
        _report("phone", "A report on a phone"),
    ),
    "Discovery": (
        _experiment("discover-exact", "By intervention", DISCOVERY),
        _experiment("discover-samples", "From samples", DISCOVERY),
        _experiment("discover-others", "In other people's models", DISCOVERY),
    ),
    "Networks": (
        Picture(
            "images/paper-networks.png",
            "The paper's networks (Figs. 1, 2, 6)",
            "explanation/networks",
            "python examples/networks.py",
        ),
        _drawn_by("guides/structure", "soft.png", "A soft network on a grid"),
    ),
}
"""All pictures. The command draws the figure again; RUN is the folder of a run."""


def thumbnail(path: str) -> str:
    """Write the thumbnail of a picture, if it is missing or older; return its path from `docs/`."""
    source = HERE / path
    if source.suffix == ".svg":
        return path  # scales by itself
    target = THUMBNAILS / f"{source.stem}.png"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        with Image.open(source) as picture:
            small = picture.convert("RGB")
            small.thumbnail((WIDTH, WIDTH))
            small.save(target)
    return target.relative_to(HERE).as_posix()


def card(picture: Picture) -> str:
    """Return the card of a picture: it links to the page, and names the command."""
    page, _, anchor = picture.page.partition("#")
    link = f"../{page}.html" + (f"#{anchor}" if anchor else "")
    return (
        f":::{{grid-item-card}} {picture.title}\n:link: {link}\n:img-top: ../{thumbnail(picture.path)}\n"
        f":img-alt: {picture.title}\n\n`{picture.command}`\n:::\n"
    )


def main() -> None:
    """Write thumbnails and page."""
    THUMBNAILS.mkdir(parents=True, exist_ok=True)
    parts = []
    for title, pictures in GROUPS.items():
        cards = "".join(card(picture) for picture in pictures)
        parts.append(f"## {title}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n:class-container: gallery\n\n{cards}::::\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
