"""Runs pages of the documentation, and compares what they print with what they show."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FORKED_PAGES = Path(__file__).parent / "forked_pages.py"
sys.path.insert(0, str(DOCS))

import notebooks  # noqa: E402
import run_page  # noqa: E402

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def pages_with_code(sources: Iterable[Path]) -> dict[str, Path]:
    """The pages that have Python blocks, by their path in the repository."""
    with_code = (path for path in sorted(sources) if run_page.blocks(path.read_text(encoding="utf-8")))
    return {path.relative_to(ROOT).as_posix(): path for path in with_code}


def needs(path: Path) -> list[str]:
    """The modules that a page needs and its distribution does not depend on."""
    if path in notebooks.TUTORIALS:
        return ["nbclient", "ipykernel"]
    return run_page.needs(path.read_text(encoding="utf-8"))


def page_params(pages: Mapping[str, Path], marks: Mapping[str, pytest.MarkDecorator] | None = None) -> list:
    """The names of pages as parameters, with the marks of the modules they need, skipped where one is missing."""
    params = []
    for page, path in pages.items():
        missing = [module for module in needs(path) if find_spec(module) is None]
        skip = [pytest.mark.skip(reason=f"{page} needs {', '.join(missing)}")] if missing else []
        params.append(pytest.param(page, marks=[*((marks or {})[module] for module in needs(path)), *skip]))
    return params


def runs_of(pages: Mapping[str, Path]) -> Callable:
    """A fixture: the runs of the pages that a module tests, as many at a time as there are processors, because most of
    the time is compilation."""

    @pytest.fixture(scope="module")
    def runs(request, tmp_path_factory):
        items = [item for item in request.session.items if item.path == request.path and "runs" in item.fixturenames]
        wanted = [item.callspec.params["page"] for item in items if item.get_closest_marker("skip") is None]
        folders = {page: tmp_path_factory.mktemp("page") for page in wanted}
        alone = {page for page in wanted if pages[page] in notebooks.TUTORIALS or "ray" in needs(pages[page])}
        alone |= {page for page in wanted if run_page.header(pages[page].read_text(encoding="utf-8"), "trains")}
        plain = [page for page in wanted if page not in alone] if hasattr(os, "fork") else []
        futures = {page: Future() for page in plain}
        with ThreadPoolExecutor(2) as pool:
            if plain:
                of_paths = {pages[page]: futures[page] for page in plain}
                pool.submit(_run_forked, {pages[page]: folders[page] for page in plain}, of_paths)
            others = (page for page in wanted if page not in futures)
            yield futures | {page: pool.submit(_run, pages[page], folders[page]) for page in others}

    return runs


def _run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: no page sees another's imports, settings, warnings or files."""
    environment = run_page.environment(path.read_text(encoding="utf-8"))
    strict = [] if run_page.needs(path.read_text(encoding="utf-8")) else ["-W", "error"]  # others' code may warn
    command = [sys.executable, *strict, str(DOCS / "run_page.py"), str(path)]
    if path in notebooks.TUTORIALS:  # as readers run them who download the notebook
        command = [sys.executable, str(DOCS / "notebooks.py"), "--run", str(path)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")


def _run_forked(folders: dict[Path, Path], runs: dict[Path, Future]) -> None:
    """The same in less time (`forked_pages.py`)."""
    command = [sys.executable, str(FORKED_PAGES), str(max(1, (os.cpu_count() or 1) - 1))]
    command += [str(path) for pair in folders.items() for path in pair]
    try:
        with subprocess.Popen(command, env=run_page.environment(""), stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                page, code = json.loads(line)
                folder = folders[Path(page)]
                printed, errors = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
                runs[Path(page)].set_result(subprocess.CompletedProcess(page, code, printed, errors))
    finally:
        for run in runs.values():
            if not run.done():
                run.set_exception(RuntimeError(f"{FORKED_PAGES.name} ended before the page did"))


def check_page(path: Path, run: Future) -> None:
    """Fail unless the run of a page succeeds and prints what the page shows."""
    done = run.result()
    assert done.returncode == 0, f"{path} does not run:\n{done.stderr}"
    check_printed(path, json.loads(done.stdout))


def check_printed(page: Path, records: list[tuple[int, str, str | None]]) -> None:
    """Fail unless every block of a page has its record (line, printed and shown text), and shows what it printed."""
    assert len(records) == len(run_page.blocks(page.read_text(encoding="utf-8")))
    for line, printed, shown in records:
        if shown is not None:
            where = f"{page}, block at line {line}; `python docs/run_page.py --write {page}` brings the page up to date"
            assert agrees(printed, shown), f"{where}\nshown:\n{shown}\nprinted:\n{printed}"


def without_code(sources: Iterable[Path]) -> list[str]:
    """Pages with a text block that follows no Python block: it is compared with nothing, perhaps because of a typo in a
    fence."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
    compared = {name: sum(block.shown is not None for block in run_page.blocks(text)) for name, text in texts.items()}
    return [name for name, text in texts.items() if text.count("\n```text\n") != compared[name]]


def broken_links(sources: Iterable[Path]) -> list[str]:
    """Links and images of pages that are no files of the repository, except for what is generated."""
    broken = []
    for path in sources:
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"\]\(([^)#\s]+)[^)]*\)|^```\{(?:image|include)\} (\S+)", text, re.MULTILINE)
        links = [link for pair in found for link in pair if link and "://" not in link]
        links = [link for link in links if "_generated/" not in link and "reference/api/" not in link]
        broken += [f"{path.name}: {link}" for link in links if not (path.parent / link).exists()]
    return broken


def agrees(printed: str, shown: str) -> bool:
    """Word for word the same, but that a number may differ by one in its last place: processors round differently."""
    words = list(zip(printed.split(), shown.split(), strict=False))
    return len(printed.split()) == len(shown.split()) and all(
        map(_same_word, *zip(*words, strict=True)) if words else ()
    )


def _same_word(printed: str, shown: str) -> bool:
    if _NUMBER.sub("#", printed) != _NUMBER.sub("#", shown):
        return False
    return all(
        abs(Decimal(a) - Decimal(b)) <= Decimal((0, (1,), Decimal(b).as_tuple().exponent))
        for a, b in zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=True)
    )
