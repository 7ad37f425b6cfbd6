"""The console script: the outermost line, where signals arrive.

It imports next to nothing, so that Ctrl-C during the imports of everything else is handled too.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> None:
    """Run `aotc` with the arguments of this process."""
    restored = signal.getsignal(signal.SIGTERM)
    if restored is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
    try:
        from aotc.cli.group import run_command

        code = run_command(sys.argv[1:])
    except KeyboardInterrupt as stopped:
        # Of a second one nobody would learn more, and it would leave a traceback.
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
        from aotc.cli.stopping import report_stop

        code = report_stop(stopped, sys.argv[1:])
        signal.signal(signal.SIGINT, interrupted)
    finally:
        signal.signal(signal.SIGTERM, restored)
    sys.exit(code)


def _terminated(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a command as Ctrl-C does: child processes are ended, temporary files removed."""
    # Exactly KeyboardInterrupt, because subprocess asks for exactly that.
    raise KeyboardInterrupt(signal.Signals(number))


if __name__ == "__main__":
    main()
