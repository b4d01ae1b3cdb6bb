"""Every page of the library's documentation runs, and prints what it shows. The other distributions test their own."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from printed import DOCS, ROOT, agrees, broken_links, check_page, page_params, pages_with_code, runs_of, without_code

import make_figures  # isort: skip
import notebooks  # isort: skip
import run_page  # isort: skip

SECTIONS = ("get-started", "guides", "reference", "explanation")
SOURCES = [DOCS / "index.md", *(path for name in SECTIONS for path in (DOCS / name).glob("*.md"))]
PAGES = pages_with_code([ROOT / "README.md", *SOURCES])
DRAWN = {f"docs/{page}" for page in (*make_figures.PAGES, *make_figures.PARTS)}
"""Pages that run when the site is built: `test_docs_site.py` looks at what they print, so that they run once."""
MARKS = {"torch": pytest.mark.torch, "stable_baselines3": pytest.mark.sb3, "pyRDDLGym": pytest.mark.rddl}
MARKS |= dict.fromkeys(("nbclient", "ipykernel"), pytest.mark.slow)
MARKS |= {"ray": pytest.mark.ray, "ormsgpack": pytest.mark.rllib}  # what RLlib needs and Ray does not
MARKS |= dict.fromkeys(("gymnax", "jaxmarl", "brax"), pytest.mark.jaxenvs)
MARKS |= dict.fromkeys(("mo_gymnasium", "mpe2"), pytest.mark.marl)

runs = runs_of(PAGES)


def test_printed_numbers_may_differ_by_one_in_the_last_place():
    assert agrees("ratio 5.31, 12934 ± 72", "ratio 5.30, 12933 ± 72")
    assert not agrees("ratio 5.32", "ratio 5.30")
    assert not agrees("12935", "12933")
    assert not agrees("vanilla 1", "factored 1")
    assert not agrees("1 2", "1")


@pytest.mark.slow
@pytest.mark.parametrize("page", page_params({page: PAGES[page] for page in PAGES if page not in DRAWN}, MARKS))
def test_page_prints_what_it_shows(page, runs):
    check_page(PAGES[page], runs[page])


def test_every_text_block_is_the_output_of_code():
    assert without_code(SOURCES) == []


def test_links_lead_to_files_of_the_repository():
    assert broken_links([ROOT / "README.md", *SOURCES]) == []


def test_every_tutorial_offers_its_notebook():
    for page in notebooks.TUTORIALS:
        assert f"../_generated/notebooks/{page.stem}.ipynb" in page.read_text(encoding="utf-8"), page.name
        cells = notebooks.convert(page)["cells"]
        code = "".join("".join(cell["source"]) + "\n" for cell in cells if cell["cell_type"] == "code")
        for block in run_page.blocks(page.read_text(encoding="utf-8")):
            assert block.code.strip() in code
        text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert not re.search(r"\{(py:|image|download|toctree)|\.md[)#]", text), page.name


@pytest.mark.slow
def test_family_of_the_page_works_once_its_package_is_installed(tmp_path):
    for name, content in run_page.files((DOCS / "guides" / "own_family.md").read_text(encoding="utf-8")).items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=tmp_path / "source", check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("tanks-*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")

    def factorax(*arguments):
        path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "factorax.cli", *arguments]
        environment = run_page.environment("") | {"PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8")

    trained = factorax("train", "tanks:4", "--total-timesteps", "320", "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert "preset tanks" in trained.stdout + trained.stderr
    assert '"near:2"' in Path(tmp_path, "run", "config.json").read_text(encoding="utf-8")
    assert "tanks:4" in factorax("evaluate", "run", "--episodes", "2").stdout
    assert "proportional" in factorax("evaluate", "proportional", "--problem", "tanks:4").stdout


@pytest.mark.torch
def test_torch_example_of_credit_page():
    pytest.importorskip("torch")
    code = (
        (DOCS / "guides" / "credit.md").read_text(encoding="utf-8").split("```{code-block} python\n")[1].split("```")[0]
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    # The gradient of a log-probability is its credit, divided by the size of the batch and with the sign of a loss.
    assert " ".join(printed.split()) == "tensor([[-5.5000, -0.5000], [-3.0000, -1.0000]])"
