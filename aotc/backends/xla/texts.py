"""Modules as text, converted in a process of their own: the bytes may be unsigned, and the C++ code
that reads them may crash on malformed ones.

`python -m aotc.backends.xla.texts` is that process: it converts each file of its working folder.
Nothing is compiled or loaded.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from aotc.backends.worker_process import environment
from aotc.errors import quoted, refusal
from aotc.processes import Processes, describe_status, end_with_parent
from aotc.temporaries import temporary_folder

SECONDS_MAX = 600.0
"""A module of a gigabyte is read in less."""

LINES_SHOWN = 8


class Form(StrEnum):
    """What is to be read: a StableHLO portable artifact, or a serialized HloModuleProto."""

    STABLEHLO = "stablehlo"
    HLO = "hlo"


def texts(modules: Sequence[tuple[Form, bytes]], where: str) -> list[str]:
    """Each module as text; constants of more than a few numbers are left out.

    Raises UsageError (AOTC-E057) for bytes that this jaxlib cannot read.
    """
    if not modules:
        return []
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-texts-", "") as folder:
        for number, (form, data) in enumerate(modules):
            (folder / f"{number}.{form}").write_bytes(data)
        status, said = _run(folder)
        made = [folder / f"{number}.txt" for number in range(len(modules))]
        if status == 0 and all(path.exists() for path in made):
            return [path.read_text("utf-8", "replace") for path in made]
        missing = next((i for i, path in enumerate(made) if not path.exists()), 0)
    raise refusal(
        "AOTC-E057",
        where,
        quoted(describe_status(status), said[-LINES_SHOWN:]),
        expected=f"a {modules[missing][0]} module that this jaxlib reads",
        hint="use the jaxlib that the bundle was built with; if that does not help, the bundle "
        "is not as `aotc build` made it",
    )


def _run(folder: Path) -> tuple[int, list[str]]:
    command = [sys.executable, "-P", "-m", "aotc.backends.xla.texts"]
    try:
        return Processes().run(command, folder, environment(), SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return 1, [f"not done after {SECONDS_MAX:g} s"]


def main() -> None:
    """Read every file of this folder, in the order of their numbers."""
    end_with_parent()
    from aotc.backends.xla import private

    readers = {Form.STABLEHLO: private.artifact_text, Form.HLO: private.hlo_module_text}
    for path in sorted(Path.cwd().iterdir(), key=lambda path: int(path.stem)):
        try:
            text = readers[Form(path.suffix[1:])](path.read_bytes())
        except (private.XlaError, private.MlirError, ValueError) as error:
            sys.exit(str(error))
        path.with_suffix(".txt").write_text(text, "utf-8", "replace")


if __name__ == "__main__":
    main()
