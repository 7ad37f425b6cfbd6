"""`python -m aotc.pipeline.children.recorded WORKER MANIFEST FOLDER`: run a worker that runs the
user's code, and leave in the folder what it read.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from aotc.constants import CAPTURE_WORKER, FULL, NO_ROOM
from aotc.pipeline.children import child
from aotc.pipeline.scratch import Scratch, no_scratch
from aotc.pipeline.watching.import_places import path_at
from aotc.pipeline.watching.reads import Looking
from aotc.pipeline.watching.recorder import Recorder
from aotc.pipeline.watching.recording import Recording
from aotc.processes import end_with_parent


def main() -> int:
    # Before the recorder starts: it loads native code, for which the recorder refuses a program.
    end_with_parent()
    worker, manifest, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    root = manifest.resolve().parent
    environment = dict(os.environ)
    recorder = Recorder(root, folder)
    sys.argv = [worker, str(folder)]
    try:
        status: int = importlib.import_module(worker).main()
    except OSError as error:
        if error.errno in FULL:
            # Nothing of this may fit on the full disk either; then the status says it.
            with suppress(OSError):
                return child.report(folder, no_scratch(error))
            return NO_ROOM
        raise
    if status == 0:
        if (unsteady := Scratch(folder).unsteady).exists():
            recorder.refuse(unsteady.read_text("utf-8"))
        reads = recorder.finish()
        parts = {} if reads.refusals else Looking(root, environment, recorder.path).parts(reads)
        if not reads.refusals and not recorder.is_unchanged():
            reads = msgspec.structs.replace(reads, refusals=("a file changed meanwhile",))
        Recording(reads, dict(parts)).write(folder, worker)
        read = recorder.variables(environment)
        Scratch(folder).write_variables(
            worker, {name: read[name] for name in read if not child.decides(name)}
        )
        if worker == CAPTURE_WORKER:
            _write_files(Scratch(folder), reads.files, manifest, root)
    return status


def _write_files(scratch: Scratch, opened: Iterable[str], manifest: Path, root: Path) -> None:
    # The worker has imported them; before it, they would count as packages that it read.
    from aotc.capture import own_files

    named = scratch.read_job().manifest.files()
    told = {path.resolve() for path in (manifest, *(file.path for file in named))}
    paths = [os.fspath(path_at(name, root)) for name in opened]
    scratch.write_files(own_files.read_by(paths, root, told))


if __name__ == "__main__":
    child.end(main())
