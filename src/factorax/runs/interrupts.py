"""Handling of signals that stop a run: the first interrupts training, and none interrupts saving."""

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupts:
    """A context in which signals raise `KeyboardInterrupt` only where `allowed`, and not while one is on its way.

    A signal that arrives elsewhere is remembered, and the context ends with a `KeyboardInterrupt`. Only handlers that
    raise `KeyboardInterrupt` are replaced, such as those of the command line for SIGINT, SIGTERM and SIGHUP. Outside
    the main thread, no handler is replaced.

        with Interrupts() as interrupts:
            try:
                with interrupts.allowed:
                    for update in range(1000):
                        train()
                        interrupts.check()
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

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None or self.allowed.raised is None:
            self.check()

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has arrived and nothing has stopped.

        Python prints and drops exceptions in callbacks of the garbage collector, in weak references and in `__del__`:
        a signal that arrives there stops training here.
        """
        if self.allowed.pending:
            self.allowed.interrupt()


class _Allowed:
    """The part of an `Interrupts` in which a signal may raise."""

    def __init__(self) -> None:
        self.here = self.pending = False
        self.raised: KeyboardInterrupt | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt` if allowed, otherwise remember the signal."""
        self.pending = True
        if self.here and not self._is_on_its_way():
            self.interrupt()

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt`."""
        self.raised = KeyboardInterrupt()
        raise self.raised

    def _is_on_its_way(self) -> bool:
        """Return whether the interrupted code handles an earlier `KeyboardInterrupt`, as in a `finally` clause."""
        error = sys.exception()
        while error is not None and error is not self.raised:
            error = error.__context__
        return error is not None

    def __enter__(self) -> None:
        self.here = True

    # If a signal arrives before `here` becomes False, its exception is the only one.
    def __exit__(self, *error: object) -> None:
        self.here = False
