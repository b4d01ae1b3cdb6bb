"""Write the tutorials as Jupyter notebooks into `docs/_generated/notebooks/`, where the pages offer them for download.

    python docs/notebooks.py                                  # all tutorials
    python docs/notebooks.py --run docs/get-started/tour.md   # executes one; prints what `run_page.py` prints
    python docs/notebooks.py --run … FOLDER                   # and writes FOLDER/PART.json: what earlier parts printed

A notebook has the text and the code of its page. Directives and links between pages mean nothing in Jupyter, so
figures, which the code draws anyway, are left out, and links become their text.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import run_page

HERE = Path(__file__).parent
FOLDER = HERE / "_generated" / "notebooks"
TUTORIALS = tuple(
    HERE / "get-started" / f"{name}.md"
    for name in ("tour", "first_run", "tutorial", "tutorial_variance", "tutorial_training", "buildings", "one_reward")
)

_CODE = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"^(`{3,}|:{3,})\{(\w[\w-]*)\}[^\n]*\n(.*?)^\1[ ]*\n", re.MULTILINE | re.DOTALL)


def plain(text: str) -> str:
    """Return Markdown without what only Sphinx understands.

    >>> plain("See {py:func}`~factorax.credit` and [the page](../guides/credit.md#x), $K$.")
    'See `credit` and the page, $K$.'
    """
    text = re.sub(r"^%.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\([\w-]+\)=\n", "", text, flags=re.MULTILINE)
    text = _DIRECTIVE.sub(lambda match: _admonition(match[2], match[3]), text)
    text = re.sub(r"^.*\{download\}`.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{py:\w+\}`(?:[^`<]*<)?~?([\w.]+)>?`", lambda match: f"`{match[1].rpartition('.')[2]}`", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def _admonition(kind: str, body: str) -> str:
    kept = "\n".join(line for line in body.splitlines() if not line.startswith(":"))
    return "" if kind in ("image", "figure", "toctree", "code-block") else f"{kept.strip()}\n"


def convert(page: Path) -> dict[str, Any]:
    """Return a page as a notebook, as a dictionary in the format nbformat 4.5."""
    text = page.read_text(encoding="utf-8")
    cells = []
    for earlier in run_page.header(text, "continues"):
        before = run_page.blocks((page.parent / earlier).read_text(encoding="utf-8"))
        cells.append(_cell("code", f"# The code of {Path(earlier).stem}, which this part continues.\n" + _join(before)))
    position = 0
    for match in _CODE.finditer(text):
        cells.append(_cell("markdown", plain(text[position : match.start()])))
        cells.append(_cell("code", match[1]))
        position = match.end()
    cells.append(_cell("markdown", plain(text[position:])))
    cells = [cell for cell in cells if "".join(cell["source"]).strip()]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _join(blocks: list[run_page.Block]) -> str:
    return "\n".join(block.code for block in blocks)


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.strip().splitlines(keepends=True)}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def execute(page: Path) -> tuple[list[tuple[int, str, str | None]], dict[str, str]]:
    """Run the notebook of a page in a Jupyter kernel.

    Return line, printed and shown text of every block of the page; and what each part that it continues printed.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(json.dumps(convert(page)), as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    printed = [
        "".join(output["text"] for output in cell["outputs"] if output.get("name") == "stdout")
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    printed = ["".join(f"{line.rstrip()}\n" for line in out.splitlines()) for out in printed]
    text = page.read_text(encoding="utf-8")
    earlier = [Path(name).stem for name in run_page.header(text, "continues")]
    pairs = zip(run_page.blocks(text), printed[len(earlier) :], strict=True)
    return [(block.line, out, block.shown) for block, out in pairs], dict(zip(earlier, printed, strict=False))


def main(arguments: Sequence[str] = ()) -> None:
    """Write all notebooks, or run one."""
    if "--run" in arguments[:1]:
        records, earlier = execute(Path(arguments[1]))
        print(json.dumps(records))
        for name, out in earlier.items() if len(arguments) > 2 else ():
            Path(arguments[2], f"{name}.json").write_text(json.dumps(out), encoding="utf-8")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for page in TUTORIALS:
        text = json.dumps(convert(page), indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{page.stem}.ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
