"""Rows of the search experiments: who chose, and what would settle them."""

import dataclasses

from factorax_paper.harness.claims import Claim
from factorax_paper.harness.search_claims import MORE_SEEDS, chosen, settled

ROW = Claim("FPG is stable.", "Sec. 5.1", "curves only", "0.1", "holds", would_settle="A larger grid.")


def test_only_what_holds_in_part_is_to_be_settled():
    partly = dataclasses.replace(ROW, verdict="holds in part", would_settle="A larger grid.")
    rows = settled([ROW, partly, dataclasses.replace(partly, would_settle="")])
    assert [row.would_settle for row in rows] == ["", "A larger grid.", MORE_SEEDS]


def test_who_chose():
    assert chosen(us="the grid") == "We: the grid."
    assert chosen(paper="n", us="the grid") == "The paper: n. We: the grid."
