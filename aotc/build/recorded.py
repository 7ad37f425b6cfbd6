"""`python -m aotc.build.recorded WORKER MANIFEST FOLDER …`: run a worker that runs the user's code,
and leave in the folder what it read.
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from aotc.build import child
from aotc.build.reads import Looking
from aotc.build.recorder import Recorder
from aotc.build.recording import Recording
from aotc.build.staging import FULL, Staging, no_scratch


def main() -> int:
    worker, manifest, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    root = manifest.resolve().parent
    environment = dict(os.environ)
    recorder = Recorder(root, folder)
    sys.argv = sys.argv[1:]
    try:
        status: int = importlib.import_module(worker).main()
    except OSError as error:
        if error.errno in FULL:
            # What was cut off may leave room for saying so; if not, the parent finds none.
            with suppress(OSError):
                return child.report(folder, no_scratch(error))
        raise
    if status == 0:
        if (unsteady := Staging(folder).unsteady).exists():
            recorder.refuse(unsteady.read_text())
        reads = recorder.finish()
        parts = {} if reads.refusals else Looking(root, environment).parts(reads)
        if not reads.refusals and not recorder.is_unchanged():
            reads = msgspec.structs.replace(reads, refusals=("a file changed meanwhile",))
        Recording(reads, dict(parts)).write(folder, worker)
    return status


if __name__ == "__main__":
    child.end(main())
