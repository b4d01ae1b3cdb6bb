"""What is said of 2×6 lights."""

from traffic_outcomes import traffic_outcome


def test_two_by_six_must_fall_with_every_level():
    for ends, verdict in (
        ([-150.0, -160.0, -170.0, -180.0, -190.0, -200.0, -250.0], "holds"),
        ([-150.0, -160.0, -155.0, -180.0, -190.0, -200.0, -250.0], "holds in part"),
        ([-250.0, -240.0, -230.0, -220.0, -210.0, -200.0, -190.0], "does not hold"),
    ):
        one, settings, _, summary = traffic_outcome("traffic-2x6", ends)
        (claim,) = one.claims(settings, summary)
        assert claim.verdict == verdict


def test_every_reading_of_n_has_its_claim_and_its_line():
    ends = [-150.0 - 10 * n for n in range(7)] + [-150.0 - 5 * n for n in range(5)] + [-210.0 + 5 * n for n in range(7)]
    one, settings, table, summary = traffic_outcome("traffic-2x6", ends)
    assert [claim.verdict for claim in one.claims(settings, summary)] == ["holds", "holds", "does not hold"]
    figure = one.draw(settings, table, summary)
    assert len(figure.axes) == 3
    assert len(figure.axes[0].lines) == 7
    at_end = [line.get_xdata().tolist() for line in figure.axes[1].containers[1].lines[:1]]
    assert len(at_end[0]) == 6  # both rows: five levels, and all streets
    assert max(at_end[0]) == 6
