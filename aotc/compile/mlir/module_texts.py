"""Converts modules to text in a separate process, `python -m aotc.compile.mlir.module_texts`.

The bytes may be unsigned, and the C++ code that reads them may crash on malformed ones. Nothing is
compiled or loaded.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aotc.base.child_processes import Processes
from aotc.base.errors import quote, refusal
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.worker_child import Progress, answer

SECONDS_MAX = 600.0
"""A module of a gigabyte is read in less."""

LINES_SHOWN = 8


def texts(modules: Sequence[bytes], where: str) -> list[str]:
    """Return each StableHLO artifact as text; constants of more than a few numbers are left out.

    Raises UsageError (AOTC-E057) for bytes that this jaxlib cannot read.
    """
    if not modules:
        return []
    try:
        return worker_parent.run(
            worker_parent.module("aotc.compile.mlir.module_texts"),
            modules,
            list[str],
            within=Path(tempfile.gettempdir()),
            environment=worker_environment.bare(),
            processes=Processes(),
            seconds=SECONDS_MAX,
        )
    except worker_parent.CrashedError as crash:
        found = crash.describe(LINES_SHOWN)
        if crash.late:
            found = quote("exit status 1", [f"not done after {SECONDS_MAX:g} s"])
        raise refusal("AOTC-E057", where, found, expected="a StableHLO module") from crash


def _read(modules: list[bytes], progress: Progress) -> list[str]:
    """Convert each module to text; end the process for one that jaxlib rejects."""
    from aotc.compile.xla.jaxlib_private import MlirError, XlaError, artifact_text

    progress.started("reading")
    try:
        made = [artifact_text(module) for module in modules]
    except (XlaError, MlirError, ValueError) as error:
        sys.exit(str(error))
    return [text.encode("utf-8", "replace").decode() for text in made]


if __name__ == "__main__":
    answer(list[bytes], _read)
