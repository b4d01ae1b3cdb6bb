"""A message if an environment hangs in this process: which one, and where in its code."""

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from .batched import BatchedEnvironments
from .host import HostEnvironments

_OF_HOSTS: frozenset[CodeType] = frozenset(
    getattr(hosts, name).__code__
    for hosts, names in (
        (HostEnvironments, ("collect", "begin", "_reset")),
        (BatchedEnvironments, ("collect", "begin", "restore")),
    )
    for name in names
)
_FRAMES = 6
_LONGEST = threading.TIMEOUT_MAX  # seconds


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Write to stderr if the block takes longer than `seconds`, and let it continue.

    One timer covers the whole block, so steps have no overhead. The message is written once.
    """
    if not seconds < _LONGEST:
        yield
        return
    timer = threading.Timer(seconds, _report, (threading.get_ident(), seconds))
    timer.daemon = True  # must not keep the process alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _report(thread: int, seconds: float) -> None:
    frame = sys._current_frames().get(thread)
    if frame is not None:
        print(f"factorax: warning: {describe(frame, seconds)}", file=sys.stderr, flush=True)


def describe(frame: FrameType, seconds: float) -> str:
    """Return the message on a slow rollout, given the innermost frame of its thread."""
    inner: list[FrameType] = []
    host: FrameType | None = frame
    while host is not None and host.f_code not in _OF_HOSTS:
        inner.append(host)
        host = host.f_back
    late = f"a rollout has not ended after {seconds:g} s (fragment_seconds)"
    advice = (
        "It continues; Ctrl+C stops it. With rollouts='processes', a worker that takes longer is replaced. If the "
        "environment is only slow, use a larger fragment_seconds or fewer n_steps."
    )
    if host is None:
        return f"{late}. {advice}"
    stack = [traceback.FrameSummary(each.f_code.co_filename, each.f_lineno or 0, each.f_code.co_name) for each in inner]
    lines = "".join(traceback.format_list(list(reversed(stack[:_FRAMES]))))
    return f"{late}; it is in {_where(host)}:\n{lines}{advice}"


def _where(frame: FrameType) -> str:
    """Return the environment and step that a frame of `HostEnvironments` or `BatchedEnvironments` is in."""
    local = frame.f_locals
    hosts, i, t = local.get("self"), local.get("i", 0), local.get("t")
    if isinstance(hosts, BatchedEnvironments):
        doing = {"begin": "the reset of ", "restore": "the replay of "}.get(frame.f_code.co_name, "")
        return f"{doing}{hosts.where()}"
    if not isinstance(hosts, HostEnvironments) or not isinstance(i, int) or i >= hosts.n_envs:
        return "an environment"
    if frame.f_code.co_name != "collect":
        return f"the reset of {hosts.where(i)}"
    return hosts.where(i, t, local.get("ends", ()))
