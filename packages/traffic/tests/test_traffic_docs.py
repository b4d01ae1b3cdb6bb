"""Every page of the traffic documentation runs, and prints what it shows."""

from pathlib import Path

import pytest
from printed import broken_links, check_page, page_params, pages_with_code, runs_of, without_code

SOURCES = list((Path(__file__).parents[1] / "docs").glob("*.md"))
PAGES = pages_with_code(SOURCES)

runs = runs_of(PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("page", page_params(PAGES))
def test_page_prints_what_it_shows(page, runs):
    check_page(PAGES[page], runs[page])


def test_every_text_block_is_the_output_of_code():
    assert without_code(SOURCES) == []


def test_links_lead_to_files_of_the_repository():
    assert broken_links(SOURCES) == []
