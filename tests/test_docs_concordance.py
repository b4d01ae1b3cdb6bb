"""The concordance of the paper and the library: what it names exists."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import api_pages  # noqa: E402
import concordance  # noqa: E402
from factorax_paper.experiments import NAMES  # noqa: E402
from factorax_paper.harness.claims import published  # noqa: E402

ITEMS = [item for items in concordance.ITEMS.values() for item in items]
LABELS = (
    *(f"Def. {number}" for number in ("2.1", "2.2", "3.1", "3.2", "3.3", "3.4", "4.1", "4.2")),
    *("Lemma 4.1", "Prop. 1", "Prop. 2", "Cor. 4.1", "Thm. 4.1", "Lemma A.1"),
    *(f"eq. {number}" for number in range(1, 14)),
    *(f"Fig. {number}" for number in ("1a", "1b", "1c", "1d", "2", "3", "4a", "4b")),
    *("Table 1", "Fig. 5a", "Fig. 5b", "Fig. 6", "Fig. 7", "Fig. 8", "Fig. 9"),
    *("App. A", "App. A.1", "App. B", "App. C", "App. D", "App. E"),
)
"""Every numbered item of the paper, counted in its source."""


def test_every_item_of_the_paper_is_listed_once():
    assert [item.label for item in ITEMS] == list(LABELS)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.label)
def test_names_tests_departures_and_experiments_exist(item):
    assert item.names
    assert item.tests
    for name in item.names:
        assert api_pages.find(f"factorax.{name}") is not None
    for test in item.tests:
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert not name or name in {node.name for node in tree.body if hasattr(node, "name")}, test
    for anchor in item.departures:
        assert concordance.heading(anchor)
    assert not item.experiment or item.experiment in NAMES


@pytest.mark.parametrize(
    ("label", "where", "matches"),
    [
        ("Def. 3.1", "Sec. 3, Defs. 3.1 and 3.2", True),
        ("Def. 3.2", "Sec. 3, Defs. 3.1 and 3.2", True),
        ("eq. 1", "Prop. 2, eq. 10", False),
        ("App. A", "App. A.1", False),
        ("App. D", "Sec. 5.1, Fig. 4a; App. D", True),
        ("Fig. 4b", "Sec. 5.1, Fig. 4a; App. D", False),
    ],
)
def test_claims_are_found_by_their_place(label, where, matches):
    claim = next(iter(published()))
    item = concordance.Item(label, "")
    assert bool(concordance.claims_of(item, [type(claim)("", where, "", "", "holds")])) == matches


def test_every_departure_is_in_the_concordance():
    linked = {anchor for item in ITEMS for anchor in item.departures}
    pages = sorted((ROOT / "docs" / "explanation").glob("departures_*.md"))
    anchors = {f"{page.name}#{name}" for page in pages for name in concordance.sections(page.name)}
    assert anchors - linked == {"departures_credit.md#difference-rewards-are-myopic"} | (
        {concordance.COMA}
    )  # both correct remarks of Sec. 4, which has no number of its own
