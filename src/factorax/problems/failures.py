"""Failures of a simulator that are not errors of the problem."""


class EpisodeLost(RuntimeError):
    """The simulator failed, and only this episode is lost: raised by an environment in `step` or `reset`.

    Training discards the steps of the episode since the last update, makes a new environment and continues, with a
    warning that shows the message. The message should say how to reproduce the failure: seed and step.
    """
