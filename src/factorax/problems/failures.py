"""Failures of a simulator that are not errors of the problem."""


class EpisodeLost(RuntimeError):
    """Raised by an environment in `step` or `reset` if the simulator failed and only this episode is lost.

    Training discards the steps of the episode since the last update, creates a new environment and continues, with a
    warning that shows the message. The message should tell how to reproduce the failure: seed and step.
    """
