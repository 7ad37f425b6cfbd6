"""Operations, each stopped at every call in turn: `python -m tests.faults.sweep BUNDLE`.

A process of its own, with one thread, since it forks.
"""

import gc
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from .operations import NEW, Operation, fresh, litter, operations, whole
from .tracer import Fault, run

TEMPORARY = re.compile(
    r"\.(?:b|b\.aotb|b\.json|ci\.key|ci\.pub|trust\.toml|x\.npz|model\.sig"
    r"|2\.(?:targets|snapshot)\.json|timestamp\.json)\.[a-z0-9_]{8}\.(?:part|old)"
)

ENDS = 6
"""How many calls at the beginning and at the end are all hit, besides those that rename."""

NEVER = -1
"""No call has this number."""


def sweep(operation: Operation, fault: Fault, folder: Path, stride: int) -> list[dict[str, object]]:
    """Check the files after each fault, and after the next run.

    stride: of the calls in the middle; the first and the last ones are all hit.
    """
    template, work = folder / "template", folder / "work"
    template.mkdir()
    operation.prepare(template)
    fresh(work, template)
    ended = run(lambda: operation.run(work), fault, NEVER)
    assert (ended.code, whole(operation, work), litter(work)) == (0, NEW, []), ended
    count = len(ended.calls)
    naming = [at for at, call in enumerate(ended.calls) if call.startswith(("rename", "link"))]
    points = {*range(ENDS), *range(0, count, stride), *range(count - ENDS, count)}
    points |= {at + step for at in naming for step in (-1, 0, 1)}
    return [
        _stopped(operation, fault, at, fresh(work, template))
        for at in sorted(points & {*range(count)})
    ]


def _stopped(operation: Operation, fault: Fault, at: int, work: Path) -> dict[str, object]:
    ended = run(lambda: operation.run(work), fault, at)
    left = litter(work)
    record: dict[str, object] = {
        "at": at,
        "call": ended.call,
        "code": ended.code,
        "said": ended.said,
        "state": whole(operation, work),
        "litter": left,
        "strange": [name for name in left if not TEMPORARY.fullmatch(name)],
    }
    if fault in (Fault.KILL, Fault.READ_ONLY):
        again = run(lambda: operation.run(work), fault, NEVER)
        record |= {"again": again.code, "then": whole(operation, work), "left": litter(work)}
    return record


def main(bundle: str) -> None:
    """Answer each line on stdin, [NAME, FAULT, FOLDER, STRIDE], by a line with an exit status.

    The records are in FOLDER/records.json then, and in FOLDER/errors what was written to stderr.
    Each sweep runs in a fork, which no other one has touched.
    """
    known = operations(Path(bundle))
    gc.freeze()  # a fork's collections would copy the pages of what was made until here
    for line in sys.stdin:
        name, fault, folder, stride = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _record(known[name], Fault[fault], Path(folder), stride)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _record(operation: Operation, fault: Fault, folder: Path, stride: int) -> NoReturn:
    code = 1
    try:
        os.dup2(os.open(folder / "errors", os.O_WRONLY | os.O_CREAT), 2)
        records = sweep(operation, fault, folder, stride)
        (folder / "records.json").write_text(json.dumps(records))
        code = 0
    except Exception:  # noqa: BLE001 - a fork must not return into its parent's code
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
