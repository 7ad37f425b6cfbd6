"""An entry of a cache written over an older one, stopped at every call in turn:
`python -m tests.faults.cache_sweep FAULT FOLDER`.

A process of its own, with one thread, since it forks. Prints one JSON document.
"""

import json
import shutil
import sys
from pathlib import Path

from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.digest import sha256

from .tracer import Fault, run

KEY, OTHER = sha256(b"key"), sha256(b"other")
OLD, NEW = b"old" * 1000, b"new" * 50_000
LIMIT = 10**6
NEVER = -1


def write(folder: Path) -> None:
    """Outcome of a build."""
    store = LocalStore(folder, LIMIT)
    store.put(KEY, NEW)
    store.write_record("ab", b"{}")
    store.trim(2 * len(NEW))


def state(folder: Path) -> str:
    """Return what a later build finds there."""
    found = LocalStore(folder, LIMIT).get(KEY)
    return {OLD: "old", NEW: "new", None: "none"}.get(found, "half")


def litter(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*"))


def main(fault: str, folder: str) -> None:
    work = Path(folder) / "cache"

    def fresh() -> Path:
        shutil.rmtree(work, ignore_errors=True)
        store = LocalStore(work, LIMIT)
        store.put(OTHER, OLD)
        store.put(KEY, OLD)
        return work

    calls = len(run(lambda: write(work), Fault[fault], NEVER).calls) if fresh() else 0
    records = []
    for at in range(calls):
        fresh()
        ended = run(lambda: write(work), Fault[fault], at)
        record = {"call": ended.call, "code": ended.code, "state": state(work)}
        record["litter"] = litter(work)
        record["again"] = run(lambda: write(work), Fault[fault], NEVER).code
        records.append(record | {"then": state(work), "left": litter(work)})
    print(json.dumps(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
