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
