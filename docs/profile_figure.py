"""Draw where the time of one update goes, `docs/images/profile.png`, from the profiles in `benchmarks/`.

    python -m benchmarks.profile_update "my machine"     # and on other devices
    python docs/profile_figure.py

The panels show the milliseconds of each part of an update on a device. A dark line marks what the part's limit allows
(operations at the speed of a large product, bytes at the speed of a copy), a dotted line what the launches of its
kernels take on a GPU.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

HERE = Path(__file__).parent
DATA = [HERE.parent / "benchmarks" / name for name in ("profile_update.json", "profile_h200.json")]
PICTURE = HERE / "images" / "profile.png"
BAR, INK = "#56B4E9", "#1b1f24"


def draw(ax: Axes, title: str, parts: list[dict[str, Any]]) -> None:
    """Draw the parts of one update."""
    total = sum(part["ms"] for part in parts)
    for y, part in enumerate(parts):
        ax.barh(y, part["ms"], color=BAR)
        ax.plot([part["limit_ms"]] * 2, [y - 0.4, y + 0.4], color=INK, lw=2)
        if "launch_ms" in part:
            ax.plot([part["launch_ms"]] * 2, [y - 0.4, y + 0.4], color=INK, lw=2, ls=":")
        share = f"{part['ms']:,.3g} ms, {100 * part['ms'] / total:.0f} %"
        right = max(part["ms"], part.get("launch_ms", 0), part["limit_ms"])
        ax.text(right + 0.01 * total, y, share, va="center", fontsize=9, color=INK)
    labels = ["\n".join(textwrap.wrap(part["part"], 32)) for part in parts]
    ax.set_yticks(range(len(parts)), labels, fontsize=9)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.35 * max(part["ms"] for part in parts))
    launches = "; dotted: launches of its kernels" if "launch_ms" in parts[0] else ""
    ax.set_xlabel(f"milliseconds per update; dark line: what the limit allows{launches}", fontsize=9)
    ax.set_title(f"{title}: {total:,.3g} ms", fontsize=10, color=INK)
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the profiles of all devices, one below the other."""
    devices = {name: profile for path in DATA for name, profile in json.loads(path.read_text(encoding="utf-8")).items()}
    panels = [
        ("\n".join(textwrap.wrap(f"{problem.replace('`', '')}, {device}", 80)), parts)
        for device, profile in devices.items()
        for problem, parts in profile["problems"].items()
    ]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(8.5, 3.3 * len(panels)), height_ratios=[2 + len(parts) for _, parts in panels]
    )
    for ax, (title, parts) in zip(axes, panels, strict=True):
        draw(ax, title, parts)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
