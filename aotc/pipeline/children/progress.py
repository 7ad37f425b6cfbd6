"""A build's child process tells its parent what it does, whatever the user's code prints."""

from __future__ import annotations

import faulthandler
import io
import os
import sys
from functools import partial
from typing import TextIO

STARTED, FINISHED = "> ", "< "
"""Begin a line that says what the child does from here on, or which item it has finished. Others
are nobody's: what the start of an interpreter runs may print, too.
"""


class Progress:
    """What a child starts and finishes, a line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def claim_stdout(cls) -> Progress:
        """Take this process' stdout for progress.

        What the user's code prints from here on goes to stderr, which the parent keeps; so does the
        place of a crash.
        """
        sys.stdout.flush()
        stream = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        stream.write("\n")  # ends what was printed before without an end
        # What the user's code forks off may live on; the parent reads until nobody can write.
        os.register_at_fork(after_in_child=partial(os.close, stream.fileno()))
        os.dup2(2, 1)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A crash must not take with it what was printed before.
            sys.stdout.reconfigure(line_buffering=True)
        faulthandler.enable(all_threads=False)
        return cls(stream)

    def started(self, what: str) -> None:
        """what: for messages, after "while": "tracing predict (digits.model:predict)"."""
        self._stream.write(f"{STARTED}{what}\n")

    def finished(self, item: str) -> None:
        """item: its name."""
        self._stream.write(f"{FINISHED}{item}\n")
