"""Run the Python blocks of a Markdown page: all of them in order, in one namespace.

    python docs/run_page.py docs/index.md            # a JSON list: line, what it printed, what the page shows
    python docs/run_page.py --write docs/index.md    # brings the page's text blocks up to date

Comments at the top of a page are read: ``% needs: torch`` names modules that factorax does not depend on,
``% continues: part1.md part2.md`` pages whose code runs first, without their output being shown, and ``% trains: long``
says that a page spends its time in training, not in compiling.

A ```text block that directly follows a ```python block shows what that block prints. A block whose first line is a
comment with a path, such as ``# tanks/problem.py``, is a file: it is written, not run. Files and figures are written to
the current folder, which `make_figures.py` and the tests choose.
"""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\s*^```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^```\w+\n# (?P<path>[\w/]+\.(?:py|toml))\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)


def header(text: str, key: str) -> list[str]:
    """Returns the words of the comment ``% key: ...`` at the top of a page, an empty list without one."""
    words = []
    for line in text.splitlines():
        if line and not line.startswith("%"):
            break
        if line.startswith(f"% {key}:"):
            words += line.removeprefix(f"% {key}:").replace(",", " ").split()
    return words


def needs(text: str) -> list[str]:
    """Returns the modules that a page needs and factorax does not depend on."""
    return header(text, "needs")


def environment(text: str) -> dict[str, str]:
    """Returns the environment variables of the process that runs a page."""
    variables = os.environ | {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1"}
    variables.pop("JAX_ENABLE_X64", None)
    variables.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)
    if not header(text, "trains"):  # most pages spend nearly all of their time compiling
        variables["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    return variables


class Block(NamedTuple):
    """A block of code, its first line in the page, and the output shown below it, if any."""

    line: int
    code: str
    shown: str | None
    span: tuple[int, int]  # of `shown` within the page


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page, without those that are files."""
    return [
        Block(text.count("\n", 0, m.start("code")) + 1, m["code"], m["shown"], m.span("shown"))
        for m in _BLOCK.finditer(text)
        if not _FILE.match(text, m.start())
    ]


def files(text: str) -> dict[str, str]:
    """The files that a page shows, by their path."""
    return {m["path"]: m["content"] for m in _FILE.finditer(text)}


def run(page: Path) -> Iterator[tuple[Block, str]]:
    """Yields every block of a page and what it printed; pages that it continues run first."""
    namespace = {"__name__": page.stem}
    text = page.read_text(encoding="utf-8")
    for name, content in files(text).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
        sys.path.insert(0, os.getcwd())
    for earlier in header(text, "continues"):
        for _ in _run_blocks(page.parent / earlier, namespace):
            pass
    yield from _run_blocks(page, namespace)


def _run_blocks(page: Path, namespace: dict[str, str]) -> Iterator[tuple[Block, str]]:
    for block in blocks(page.read_text(encoding="utf-8")):
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")  # tracebacks show lines of the page
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        yield block, "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def main(arguments: list[str]) -> None:
    page = Path(arguments[-1])
    ran = list(run(page))
    if "--write" in arguments:
        text = page.read_text(encoding="utf-8")
        for block, printed in reversed(ran):
            if block.shown is not None:
                text = text[: block.span[0]] + printed + text[block.span[1] :]
        page.write_text(text, encoding="utf-8")
    else:
        print(json.dumps([(block.line, printed, block.shown) for block, printed in ran]))


if __name__ == "__main__":
    main(sys.argv[1:])
