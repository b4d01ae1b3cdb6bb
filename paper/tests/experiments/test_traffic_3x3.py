"""What is said of 3×3 lights, and their figure."""

import pytest
from factorax_paper.experiments.traffic_3x3 import LOCAL
from traffic_outcomes import traffic_outcome


def test_three_by_three_says_faster_and_better():
    ends = [-180.0, -230.0, -240.0, -182.0]
    one, settings, table, summary = traffic_outcome("traffic-3x3", ends)
    faster, better = one.claims(settings, summary)
    assert (faster.verdict, better.verdict) == ("holds", "holds")
    assert summary["controllers"]["gap-out"] == -153.5
    assert summary["methods"][LOCAL]["sumo"]["mean"] == pytest.approx(-180, abs=0.5)
    figure = one.draw(settings, table, summary)
    assert len(figure.axes[0].lines) == len(settings.methods) + 3
    assert "in SUMO" in figure.axes[1].get_title()
    _, settings, _, summary = traffic_outcome("traffic-3x3", [-230.0, -180.0, -240.0, *ends[3:]])
    assert [claim.verdict for claim in one.claims(settings, summary)] == ["holds in part"] * 2
