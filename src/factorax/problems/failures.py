"""Failures of a simulator that are no fault of the problem."""


class EpisodeLost(RuntimeError):
    """The simulator failed, and only this episode with it: raised by an environment in `step` or `reset`.

    Training discards what was seen of the episode since the last update, makes the environment anew and goes on, with a
    warning that shows the message. Say in it what repeats the failure: seed and step.
    """
