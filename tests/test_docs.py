"""Every page of the documentation runs, and prints what it shows."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from printed import agrees, check_printed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FORKED_PAGES = Path(__file__).parent / "forked_pages.py"
sys.path.insert(0, str(DOCS))

import make_figures  # noqa: E402
import notebooks  # noqa: E402
import run_page  # noqa: E402

SECTIONS = ("get-started", "guides", "reference", "explanation")
SOURCES = [DOCS / "index.md", *(path for name in SECTIONS for path in (DOCS / name).glob("*.md"))]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in sorted([ROOT / "README.md", *SOURCES])
    if run_page.blocks(path.read_text(encoding="utf-8"))
}
NEEDS = {page: run_page.needs(path.read_text(encoding="utf-8")) for page, path in PAGES.items()}
NEEDS |= {str(page.relative_to(ROOT)): ["nbclient", "ipykernel"] for page in notebooks.TUTORIALS}
DRAWN = {f"docs/{page}" for page in (*make_figures.PAGES, *make_figures.PARTS)}
"""Pages that run when the site is built: `test_docs_site.py` looks at what they print, so that they run once."""
MARKS = {"torch": pytest.mark.torch, "stable_baselines3": pytest.mark.sb3, "pyRDDLGym": pytest.mark.rddl}
MARKS |= dict.fromkeys(("nbclient", "ipykernel"), pytest.mark.slow)
MARKS |= {"ray": pytest.mark.ray, "ormsgpack": pytest.mark.rllib}  # what RLlib needs and Ray does not
MARKS |= dict.fromkeys(("gymnax", "jaxmarl", "brax"), pytest.mark.jaxenvs)


def _param(page):
    """A page with the marks of the modules it needs, skipped where one is missing."""
    missing = [module for module in NEEDS[page] if find_spec(module) is None]
    skip = [pytest.mark.skip(reason=f"{page} needs {', '.join(missing)}")] if missing else []
    return pytest.param(page, marks=[*(MARKS.get(module, pytest.mark.marl) for module in NEEDS[page]), *skip])


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


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """The pages that this session tests, as many at a time as there are processors: most of it is compiling."""
    items = [item for item in request.session.items if "runs" in item.fixturenames]
    wanted = [item.callspec.params["page"] for item in items if item.get_closest_marker("skip") is None]
    folders = {page: tmp_path_factory.mktemp("page") for page in wanted}
    texts = {page: PAGES[page].read_text(encoding="utf-8") for page in wanted}
    alone = {page for page in wanted if PAGES[page] in notebooks.TUTORIALS or "ray" in NEEDS[page]}
    alone |= {page for page in wanted if run_page.header(texts[page], "trains")}
    plain = [page for page in wanted if page not in alone] if hasattr(os, "fork") else []
    futures = {page: Future() for page in plain}
    with ThreadPoolExecutor(2) as pool:
        if plain:
            of_paths = {PAGES[page]: futures[page] for page in plain}
            pool.submit(_run_forked, {PAGES[page]: folders[page] for page in plain}, of_paths)
        others = (page for page in wanted if page not in futures)
        yield futures | {page: pool.submit(_run, PAGES[page], folders[page]) for page in others}


def test_printed_numbers_may_differ_by_one_in_the_last_place():
    assert agrees("ratio 5.31, 12934 ± 72", "ratio 5.30, 12933 ± 72")
    assert not agrees("ratio 5.32", "ratio 5.30")
    assert not agrees("12935", "12933")
    assert not agrees("vanilla 1", "factored 1")
    assert not agrees("1 2", "1")


@pytest.mark.slow
@pytest.mark.parametrize("page", [_param(page) for page in PAGES if page not in DRAWN])
def test_page_prints_what_it_shows(page, runs: dict[str, Future]):
    done = runs[page].result()
    assert done.returncode == 0, f"{page} does not run:\n{done.stderr}"
    check_printed(PAGES[page], json.loads(done.stdout))


def test_every_text_block_is_the_output_of_code():
    """A text block that follows no Python block is never compared with anything; a typo in a fence would hide one."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        compared = [block for block in run_page.blocks(text) if block.shown is not None]
        assert text.count("\n```text\n") == len(compared), path.name


def test_every_tutorial_offers_its_notebook():
    for page in notebooks.TUTORIALS:
        assert f"../_generated/notebooks/{page.stem}.ipynb" in page.read_text(encoding="utf-8"), page.name
        cells = notebooks.convert(page)["cells"]
        code = "".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
        for block in run_page.blocks(page.read_text(encoding="utf-8")):
            assert block.code.strip() in code
        text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert not re.search(r"\{(py:|image|download|toctree)|\.md[)#]", text), page.name


@pytest.mark.torch
def test_torch_example_of_credit_page():
    pytest.importorskip("torch")
    code = (
        (DOCS / "guides" / "credit.md").read_text(encoding="utf-8").split("```{code-block} python\n")[1].split("```")[0]
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    # The gradient of a log-probability is its credit, divided by the size of the batch and with the sign of a loss.
    assert " ".join(printed.split()) == "tensor([[-5.5000, -0.5000], [-3.0000, -1.0000]])"
