"""The generated reference: every public name and every option."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import factorax as fx
from factorax.cli import commands

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import api_pages  # noqa: E402
import cli_page  # noqa: E402

pytestmark = pytest.mark.slow  # imports every package that is installed, PyTorch and Ray among them


@pytest.fixture(scope="module")
def documented():
    return api_pages.documented()


def test_every_public_name_of_factorax_is_documented_under_that_name(documented):
    names = {name for page in documented.values() for name in page}
    public = [name for name in dir(fx) if not name.startswith("_") and not inspect.ismodule(getattr(fx, name))]
    assert {f"factorax.{name}" for name in public} <= names


def test_no_object_is_documented_twice_and_every_name_resolves(documented):
    names = [name for page in documented.values() for name in page]
    assert len(names) == len(set(names))
    objects = [id(api_pages.find(name)) for name in names]
    assert len(objects) == len(set(objects))


def test_every_documented_object_has_a_docstring(documented):
    names = [name for page in documented.values() for name in page]
    functions = [name for name in names if callable(api_pages.find(name))]
    assert [name for name in functions if not api_pages.summary(api_pages.find(name))] == []


def test_other_paths_of_an_object_lead_to_its_page():
    aliases = api_pages.aliases()
    assert aliases["factorax.structure.InfluenceNetwork"] == "factorax.InfluenceNetwork"
    assert aliases["factorax.gradients.variance_report"] == "factorax.variance_report"
    assert aliases["factorax.patterns.banded"] == "factorax.structure.patterns.banded"


def test_references_of_pages_lead_to_documented_names(documented):
    names = {name for page in documented.values() for name in page} | set(api_pages.aliases())
    broken = []
    for folder in ("docs", "packages/traffic/docs", "paper/docs"):
        for page in [*ROOT.glob(f"{folder}/*.md"), *ROOT.glob(f"{folder}/[a-z]*/*.md")]:
            text = page.read_text(encoding="utf-8")
            found = re.findall(r"\{py:\w+\}`(?:[^`<]*<)?~?([\w.]+)>?`", text)
            broken += [f"{page.name}: {name}" for name in found if not {name, name.rpartition(".")[0]} & names]
    assert broken == []


def test_every_package_is_in_the_reference_or_internal():
    packages = {path.parent.name for path in (ROOT / "src" / "factorax").glob("*/__init__.py")}
    in_reference = {path.split(".")[1] for path in api_pages.MODULES if path.startswith("factorax.")}
    assert packages - in_reference == {"cli"}  # which has its own page


def test_every_command_and_every_option_is_on_the_page_of_the_command_line():
    parsers = cli_page.parsers()
    assert parsers.keys() == commands().keys()
    for name, parser in parsers.items():
        section = cli_page.section(name, parser)
        options = [action.option_strings[-1] for action in parser._actions if action.option_strings]
        assert [option for option in options if option not in ("-h", "--help") and f"`{option}`" not in section] == []


def test_an_option_shows_its_choices_and_its_default():
    section = cli_page.section("discover", cli_page.parsers()["discover"])
    row = next(line for line in section.splitlines() if line.startswith("| `--method`"))
    assert "*One of `interventional`, `score`, `dependence`, `gated`.*" in row
    assert row.endswith("| `interventional` |")
