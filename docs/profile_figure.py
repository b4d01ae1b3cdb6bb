"""Draw where the time of one update goes, `docs/images/profile.png`, from `benchmarks/profile_update.json`.

    python -m benchmarks.profile_update "one core, Intel Xeon"     # and on other devices
    python docs/profile_figure.py

A row of panels for every device, a panel for every problem: the milliseconds of every part, and, in a dark line, those
that its limit allows (operations at the speed of a large product, bytes at the speed of a copy).
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
DATA, PICTURE = HERE.parent / "benchmarks" / "profile_update.json", HERE / "images" / "profile.png"
BAR, INK = "#56B4E9", "#1b1f24"


def main() -> None:
    devices = json.loads(DATA.read_text(encoding="utf-8"))
    columns = max(len(found["problems"]) for found in devices.values())
    figure, axes = plt.subplots(len(devices), columns, figsize=(6.2 * columns, 3.4 * len(devices)), squeeze=False)
    for row, (device, found) in zip(axes, devices.items(), strict=True):
        for ax in row[len(found["problems"]) :]:
            ax.axis("off")
        for ax, (problem, parts) in zip(row, found["problems"].items(), strict=False):
            total = sum(part["ms"] for part in parts)
            for y, part in enumerate(parts):
                ax.barh(y, part["ms"], color=BAR)
                ax.plot([part["limit_ms"]] * 2, [y - 0.4, y + 0.4], color=INK, lw=2)
                share = f"{part['ms']:,.3g} ms, {100 * part['ms'] / total:.0f} %"
                ax.text(part["ms"] + 0.01 * total, y, share, va="center", fontsize=9, color=INK)
            ax.set_yticks(range(len(parts)), [part["part"] for part in parts])
            ax.invert_yaxis()
            ax.set_xlim(0, 1.35 * max(part["ms"] for part in parts))
            ax.set_xlabel("milliseconds per update; dark line: what the limit allows")
            ax.set_title(f"{problem.replace('`', '')}\n{device}: {total:,.3g} ms", fontsize=10, color=INK)
            ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
