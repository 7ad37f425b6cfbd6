"""A bundle pulled into a file, a folder or a store, stopped at every call in turn:
`python -m tests.faults.registry_sweep WHAT FAULT PLACE FOLDER`. And one pushed, by processes that
wait for their end: `python -m tests.faults.registry_sweep push BUNDLE PLACE`.

A process of its own, with one thread, since it forks. Prints one JSON document; for pushes a line
for each, with its process, which goes on when it is told to (SIGCONT), and how it ended.
"""

import gc
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc.bundle.write.bundle_writer import Form
from aotc.commands.registry import bundle_pull, bundle_push
from aotc_runtime.base import codes
from aotc_runtime.formats import safetensors_reader
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.docker_credentials import NOBODY
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository, RetryLimits
from aotc_serve.store import Store

from .tracer import Fault, run

NEVER = -1

FORKED_WITH = (codes, safetensors_reader)
"""Imported when they are needed: here once, and not by each fork anew."""

STRIDE = 1 if os.environ.get("AOTC_FAULTS") == "all" else 20
ENDS = 4
"""The same calls are made for each blob: of those in the middle some are hit, at the beginning and
at the end all.
"""

TRIES = RetryLimits(2, 0.001, 0.002)


@contextmanager
def there(place: str) -> Iterator[Repository]:
    repository = Repository(parse(place), HttpClient(None, 10), lambda: NOBODY, TRIES)
    try:
        yield repository
    finally:
        repository.close()


def pulled(form: Form, name: str) -> Callable[[str, Path], object]:
    def work(place: str, folder: Path) -> None:
        with there(place) as repository:
            bundle_pull.pull(repository, folder / name, form)

    return work


def kept(place: str, folder: Path) -> None:
    with there(place) as repository:
        bundle_pull.keep(repository, Store(folder / "store"))


WORK = {"file": pulled(Form.ARCHIVE, "b.aotb"), "folder": pulled(Form.LAYOUT, "b"), "store": kept}


def state(folder: Path) -> str:
    """Return what a later command finds there."""
    place = next((folder / n for n in ("b.aotb", "b") if (folder / n).exists()), None)
    if place is not None:
        source = open_streamed(place)
        read_unverified(source)
        return "new" if all(source.blob(each) is not None for each in source.digests()) else "half"
    store = Store(folder / "store")
    if not store.folder.exists():
        return "none"
    if not all(is_whole for _, is_whole in store.verify()):
        return "half"
    found = store.bundles()
    return "new" if found and not found[0].lost else "none"


def litter(folder: Path) -> list[str]:
    """Return files that have no final name yet."""
    names = [path.name for path in folder.rglob(".*")]
    return sorted(names + [path.name for path in folder.rglob("partial/*")])


def sweep(what: str, fault: Fault, place: str, folder: Path) -> list[dict[str, object]]:
    work = folder / "work"

    def fresh() -> Path:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        return work

    def once(at: int) -> tuple[str, int, str, int]:
        ended = run(lambda: WORK[what](place, work), fault, at)
        return ended.call, ended.code, ended.said, len(ended.calls)

    fresh()
    _, code, _, calls = once(NEVER)
    assert (code, state(work), litter(work)) == (0, "new", []), (code, state(work), litter(work))
    records = []
    points = {*range(ENDS), *range(0, calls, STRIDE), *range(calls - ENDS, calls)}
    for at in sorted(points):
        fresh()
        call, code, said, _ = once(at)
        left = litter(work)
        record = {"call": call, "code": code, "said": said, "litter": left, "state": state(work)}
        records.append(
            record | {"again": once(NEVER)[1], "then": state(work), "left": litter(work)}
        )
    return records


def pushes(bundle: str, place: str) -> None:
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.kill(os.getpid(), signal.SIGSTOP)
                with there(place) as repository:
                    bundle_push.push(open_streamed(Path(bundle)), repository, None, 0.0)
                code = 0
            finally:
                os._exit(code)
        os.waitpid(pid, os.WUNTRACED)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def main(what: str, *given: str) -> None:
    gc.freeze()  # a fork's collections would copy the pages of what was imported
    if what == "push":
        pushes(*given)
        return
    fault, place, folder = given
    print(json.dumps(sweep(what, Fault[fault], place, Path(folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
