"""Handling of signals that stop a run: the first interrupts training, and none interrupts saving."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupts:
    """A context in which signals raise `KeyboardInterrupt` only where `allowed`, and only once.

    A signal that arrives elsewhere is remembered, and the context ends with a `KeyboardInterrupt` if none was raised
    before. Only handlers that raise `KeyboardInterrupt` are replaced, such as those of the command line for SIGINT,
    SIGTERM and SIGHUP. Outside the main thread, no handler is replaced.

        with Interrupts() as interrupts:
            try:
                with interrupts.allowed:
                    train()
            finally:
                save()
    """

    def __init__(self) -> None:
        self.allowed = _Allowed()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.default_int_handler:
                    self._before[number] = signal.signal(number, self.allowed.receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.allowed.pending and not self.allowed.raised:
            raise KeyboardInterrupt


class _Allowed:
    """The part of an `Interrupts` in which a signal may raise."""

    def __init__(self) -> None:
        self.here = self.pending = self.raised = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt` if allowed, otherwise remember the signal."""
        self.pending = True
        if self.here and not self.raised:
            self.raised = True
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        self.here = True

    # If a signal arrives before `here` becomes False, its exception is the only one.
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.here = False
