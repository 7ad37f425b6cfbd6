"""Check the environment's `XLA_FLAGS` in a child process.

XLA ends the process at unknown flags or values, with status 1 and without an exception. The module
is imported only if `XLA_FLAGS` is set. The child reads the flags, no bundle and no device. Only
XLA's own error counts; if no child can run, XLA is started all the same.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from aotc_runtime.base.errors import refusal

SECONDS = 30.0
"""The longest that is waited for an answer, which takes 0.15 s. One that never comes is none, such
as where the flags lie in a pipe.
"""

CHARACTERS_SHOWN = 500

_REFUSED = re.compile(r"^F\d{4} [^\]]*\] (.+)$", re.MULTILINE)
_REASON = re.compile(r"^E\d{4} [^\]]*\] (.+)$", re.MULTILINE)
"""Lines of XLA's log: level, date, time, thread, file and line in front of the text."""


def require(reading: str, jaxlib: str) -> None:
    """Raise BackendError (AOTC-E750) if XLA rejects the flags.

    `reading` is Python code that makes XLA read them; `jaxlib` is its version, for the message.
    """
    said = _refusal(os.environ["XLA_FLAGS"], reading)
    if not said:
        return
    expected = f"flags of jaxlib {jaxlib}, or the path of a file with such flags"
    raise refusal("AOTC-E750", "environment XLA_FLAGS", said[:CHARACTERS_SHOWN], expected=expected)


@cache
def _refusal(flags: str, reading: str) -> str:
    """Return XLA's message about these flags, or "".

    `flags` are part of the cache key, so that changed flags are tested again.
    """
    start = f"import sys; sys.path[:] = sys.argv[1:]; {reading}"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") or name == "PYTHONHOME"
    }
    try:
        done = subprocess.run(
            [_interpreter(), "-P", "-S", "-s", "-c", start, *sys.path],
            env={**inherited, "TF_CPP_MIN_LOG_LEVEL": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = done.stderr.decode(errors="replace")
    refused = _REFUSED.search(said)
    if refused is None:
        return ""
    return (_REASON.search(said, 0, refused.start()) or refused)[1]


def _interpreter() -> str:
    """Return the path of a Python like this one, or one that cannot be started.

    Programs that embed Python may set `sys.executable` to themselves.
    """
    if hasattr(sys, "frozen"):
        return ""
    if sys.executable and Path(sys.executable).name.startswith("python"):
        return sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.exec_prefix, "bin", version))
