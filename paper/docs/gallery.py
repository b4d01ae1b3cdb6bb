"""Write the gallery of experiments: thumbnails, and a grid of cards, `docs/_generated/gallery.md`.

`docs/conf.py` runs this file at every build.
"""

from claims_table import FIGURE_PAGES, HERE
from PIL import Image

GENERATED = HERE.parents[1] / "docs" / "_generated"
PAGE = GENERATED / "gallery.md"
FIGURES = HERE / "images" / "experiments"
WIDTH = 480
"""Pixels of a thumbnail: twice the width of a card on most screens."""
GROUPS = {
    "Search bandits": {
        "search-baselines": "Convergence (Fig. 4a)",
        "search-aliasing": "Aliasing (Fig. 4b)",
        "search-throughput": "Iterations per second (Table 1)",
        "search-stability": "Stability (Fig. 7)",
        "search-rate": "Steps to the optimum (Fig. 8)",
        "search-discrepancy": "With penalties (Fig. 9)",
        "search-states": "With states (App. D)",
    },
    "Variance and bias": {
        "variance-decomposition": "Terms of ΔV (Fig. 3)",
        "variance-growth": "Growth with the number of actions",
        "noise-ball": "The ball around the optimum",
        "kappa-hop": "Truncated networks",
    },
    "Traffic lights": {
        "traffic-3x3": "3×3 lights (Fig. 5a)",
        "traffic-2x6": "2×6 lights (Fig. 5b)",
        "traffic-better": "Better than the paper's PPO",
        "traffic-gradients": "Bias and variance of a light's gradient",
        "traffic-city": "Up to ten thousand lights",
        "cities": "Lights of four cities",
    },
    "Training": {
        "uav-4": "UAV 4 of RDDL",
        "uav-5": "UAV 5 of RDDL",
        "market": "A market maker",
        "learning-networks": "Networks that adapt",
        "curriculum": "A curriculum of networks",
        "relatives": "Related methods",
    },
    "Discovery": {
        "discover-exact": "By intervention",
        "discover-samples": "From samples",
        "discover-others": "In other people's models",
    },
}
"""Titles of experiments by name."""


def thumbnail(name: str) -> str:
    """Write the thumbnail of a figure, if it is missing or older; return its path from `docs/`."""
    source, target = FIGURES / f"{name}.png", GENERATED / "thumbnails" / f"{name}.png"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(source) as picture:
            small = picture.convert("RGB")
            small.thumbnail((WIDTH, WIDTH))
            small.save(target)
    return target.relative_to(GENERATED.parent).as_posix()


def card(name: str, title: str) -> str:
    """Return the card of an experiment: it links to the figure's section and names the command."""
    link = f"{FIGURE_PAGES[name].replace('.md', '.html')}#{name}"
    return (
        f":::{{grid-item-card}} {title}\n:link: {link}\n:img-top: ../../docs/{thumbnail(name)}\n:img-alt: {title}\n\n"
        f"`factorax reproduce {name} --budget paper`\n:::\n"
    )


def main() -> None:
    """Write thumbnails and page."""
    parts = []
    for heading, experiments in GROUPS.items():
        cards = "".join(card(name, title) for name, title in experiments.items())
        parts.append(f"## {heading}\n\n::::{{grid}} 1 2 3 3\n:gutter: 3\n:class-container: gallery\n\n{cards}::::\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
