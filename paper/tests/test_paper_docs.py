"""Every page of the paper's documentation runs, and its generated tables refer to what exists."""

import ast
import sys
from pathlib import Path

import pytest
from factorax_paper.experiments import NAMES
from factorax_paper.harness.claims import published
from printed import ROOT, broken_links, check_page, page_params, pages_with_code, runs_of, without_code

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import api_pages  # noqa: E402
import claims_table  # noqa: E402
import concordance  # noqa: E402
import gallery  # noqa: E402

SOURCES = list(DOCS.glob("*.md"))
PAGES = pages_with_code(SOURCES)
ITEMS = [item for items in concordance.ITEMS.values() for item in items]

runs = runs_of(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("page", page_params(PAGES))
def test_page_prints_what_it_shows(page, runs):
    check_page(PAGES[page], runs[page])


def test_every_text_block_is_the_output_of_code():
    assert without_code(SOURCES) == []


def test_links_lead_to_files_of_the_repository():
    assert broken_links(SOURCES) == []


def test_every_claim_is_in_the_table_with_its_command():
    claims = published()
    page = claims_table.render(claims)
    for claim in claims:
        assert claims_table.escape(claim.claim) in page
        assert claim.command in page


def test_every_experiment_has_a_section_and_a_figure_in_the_gallery():
    shown = [name for group in gallery.GROUPS.values() for name in group]
    assert sorted(shown) == sorted(NAMES) == sorted(claims_table.FIGURE_PAGES)
    for name in NAMES:
        assert (gallery.FIGURES / f"{name}.png").is_file(), name


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.label)
def test_what_the_concordance_refers_to_exists(item):
    for name in item.names:
        assert api_pages.find(concordance.dotted(name)) is not None
    for test in item.tests:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert not name or name in {node.name for node in tree.body if hasattr(node, "name")}, test
    for anchor in item.departures:
        assert concordance.heading(anchor)
    assert not item.experiment or item.experiment in NAMES
