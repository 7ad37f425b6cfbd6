"""The signals that stop a command. Imports next to nothing, for `main` comes here first."""

from __future__ import annotations

import signal
import sys
import typing
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

type Handler = Callable[[int, FrameType | None], object] | int | None

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
USUAL = (signal.SIG_DFL, signal.default_int_handler)
RETRY_SECONDS = 0.002


class Stops:
    """SIGINT, SIGTERM and SIGHUP in this process, except those that its parent ignores.

    They are noted while the command line is being imported, raised as KeyboardInterrupt while it
    runs, ignored while it ends, and then restored.
    """

    def __init__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._noted: list[int] = []
        self._raised: KeyboardInterrupt | None = None
        self._hook = sys.unraisablehook

    def note(self) -> None:
        """Remember a signal until `raise_now`."""
        for number in STOPPING:
            if (handler := signal.getsignal(number)) in USUAL:
                self._before[number] = handler
                signal.signal(number, lambda number, frame: self._noted.append(number))
        self._before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)

    def raise_now(self) -> None:
        """From now on raise KeyboardInterrupt(signal) in the main thread, also for noted signals.

        During an import it is raised a little later: a half-done import would fail again for code
        that cleans up, and may end the process if it is one of C++ code. So it is while `typing`
        is asked for the hash of a type: msgspec drops what is raised then. Where Python drops the
        exception, as in callbacks of the garbage collector (jax has one), it is raised again.
        """
        self._hook, sys.unraisablehook = sys.unraisablehook, self._on_dropped
        for number in self._before:
            signal.signal(number, self._raise)
        for noted in self._noted:
            self._raise(noted, None)

    def ignore(self) -> None:
        """Ignore further signals, which would only interrupt the clean-up after the first one."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Leave the signals as they were before `note`."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            number = self._noted[-1]
        if _has_to_wait(frame):
            self._again(number)
            return
        self.ignore()
        # Exactly KeyboardInterrupt, because subprocess asks for exactly that.
        self._raised = KeyboardInterrupt(signal.Signals(number))
        raise self._raised

    def _again(self, number: int) -> None:
        self._noted.append(number)
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)

    def _on_dropped(self, dropped: UnraisableHookArgs) -> None:
        if self._raised is None or dropped.exc_value is not self._raised:
            self._hook(dropped)
            return
        signal.signal(signal.SIGALRM, self._raise)
        self._again(self._raised.args[0])


def _has_to_wait(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or file == typing.__file__:
            return True
        frame = frame.f_back
    return False
