"""What calls of a target's executables need, measured in a process of its own.

XLA's analysis does not know what its libraries allocate while they multiply, convolve or factorize.
That depends on the processor and its caches, so that it is no part of a bundle: two builds of one
program have the same bytes wherever they run.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import msgspec

from aotc.parity.peak import MALLOC
from aotc.processes import inherited, last_line

SECONDS_MAX = 1800
"""How long a process may measure: it makes some calls of every fixture."""


def run(bundle: Path, policy: Path, target: str, threads: int) -> dict[str, int]:
    """Bytes that a call of each executable needs, by label: "predict[batch=8]".

    Nothing where it cannot be measured: without glibc, on a host that cannot run the target, and if
    the process fails, which parity tells better. threads: of XLA's pool.
    """
    if platform.libc_ver()[0] != "glibc":
        return {}
    kept = inherited(without=("XLA_", "TF_", "MALLOC_"))
    command = [sys.executable, "-P", "-m", "aotc.parity.memory_worker"]
    try:
        done = subprocess.run(
            [*command, str(bundle), str(policy), target, str(threads)],
            env={**kept, **MALLOC},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    if done.returncode != 0:
        return {}
    try:
        found: dict[str, int] = msgspec.json.decode(last_line(done.stdout), type=dict[str, int])
    except (ValueError, RecursionError):  # MsgspecError is a ValueError
        return {}
    return found
