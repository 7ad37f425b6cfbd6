"""Somebody writes into the files of a layout folder, in place, while a command reads and copies
it: what comes out is the bundle as it was read, or one refusal and nothing.
"""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.bundle_writer import Form
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_whole

from .copies import COPIES
from .tampering import BLOBS, MemoryBundle, flipped, signed, take_apart, to_json, write_folder

DISABLE = sys.monitoring.DISABLE

Change = Callable[[Path], None]

STEPS = (
    *("open_streamed", "sizes_of", "read_root", "read_envelopes", "check_consistency"),
    *("begin_contents", "read_whole", "attest", "target_parts_of", "add_attestation"),
    *("layout_index", "_check_attestations", "fchmod"),
)
"""Functions after which files are changed, each time that one of them has returned."""


FORMS = {"extract": Form.LAYOUT, "merge": Form.ARCHIVE, "sign": Form.LAYOUT}


def written(path: Path, data: bytes) -> None:
    """In place, and as long as before: JSON may end in spaces."""
    with path.open("r+b") as file:
        file.write(data.ljust(path.stat().st_size))


def index_with(change: Callable[[list[dict[str, object]]], object]) -> Change:
    def changed(folder: Path) -> None:
        document = json.loads((folder / "index.json").read_bytes())
        if len(document["manifests"]) == 3:
            change(document["manifests"])
            written(folder / "index.json", to_json(document))

    return changed


def root_of(folder: Path) -> Path:
    (root, *_) = json.loads((folder / "index.json").read_bytes())["manifests"]
    return folder / (BLOBS + root["digest"][7:])


def another_platform(folder: Path) -> None:
    root = root_of(folder)
    written(root, root.read_bytes().replace(b'"amd64"', b'"arm64"'))


CHANGES: dict[str, Change] = {
    "an attestation less": index_with(lambda entries: entries.pop()),
    "attestations in another order": index_with(lambda entries: entries.reverse()),
    "another root": index_with(lambda entries: entries[0].update(digest="sha256:" + "0" * 64)),
    "a root for another platform": another_platform,
    "a root of other bytes": lambda folder: written(
        root_of(folder), flipped(root_of(folder).read_bytes())
    ),
}


class Watch:
    """Whoever is told each time that a function of STEPS has returned; one of another name tells of
    itself once, so that watching takes no time (sys.monitoring).
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.returned: Callable[[str], None] | None = None

    def python(self, code: CodeType, offset: int, value: object) -> object:
        return self.told(code.co_name)

    def called(self, code: CodeType, offset: int, function: object, argument: object) -> object:
        """Without this, nobody is told of what it returns."""
        is_step = getattr(function, "__name__", "") in STEPS
        return None if is_step and not isinstance(function, FunctionType) else DISABLE

    def native(self, code: CodeType, offset: int, function: object, argument: object) -> object:
        self.told(getattr(function, "__name__", ""))
        return None

    def told(self, name: str) -> object:
        if name not in STEPS:
            return DISABLE
        if self.returned is not None and threading.get_ident() == self.thread:
            self.returned(name)
        return None


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    made, tool, events = Watch(), sys.monitoring.PROFILER_ID, sys.monitoring.events
    sys.monitoring.use_tool_id(tool, "steps")
    for event, told in {
        events.PY_RETURN: made.python,
        events.PY_YIELD: made.python,
        events.CALL: made.called,
        events.C_RETURN: made.native,
    }.items():
        sys.monitoring.register_callback(tool, event, told)
    sys.monitoring.set_events(tool, events.PY_RETURN | events.PY_YIELD | events.CALL)
    yield made
    sys.monitoring.set_events(tool, events.NO_EVENTS)
    sys.monitoring.free_tool_id(tool)


@contextmanager
def after(watch: Watch, step: str, number: int, change: Callable[[], None]) -> Iterator[list[int]]:
    """Change something when a function of this name has returned for the nth time; how often it has
    been until then.
    """
    returned = [0]

    def one(name: str) -> None:
        if name == step:
            returned[0] += 1
            if returned[0] == number:
                watch.returned = None
                change()

    watch.returned = one
    try:
        yield returned
    finally:
        watch.returned = None


@pytest.fixture(scope="module")
def bundle(genuine: MemoryBundle) -> MemoryBundle:
    return signed(take_apart(genuine), LocalSigner.ephemeral(), LocalSigner.ephemeral())


@pytest.mark.parametrize("command", COPIES)
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_written_into_while_it_is_copied_is_copied_as_it_was_read_or_refused(
    bundle: MemoryBundle, watch: Watch, tmp_path: Path, command: str, change: str
) -> None:
    run = partial(COPIES[command], form=FORMS[command])

    def attempt(step: str, number: int) -> int:
        shutil.rmtree(tmp_path)
        folder = write_folder(tmp_path / "old", bundle)
        # Of whoever has it open, also when another has taken its place.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        opened = Path(f"/proc/self/fd/{descriptor}")

        def changed() -> None:
            with suppress(FileNotFoundError):
                CHANGES[change](opened)

        places = {"old"}
        with after(watch, step, number, changed) as returned:
            try:
                made = run(folder)
            except AotcError as error:
                assert len(error.findings) == 1
            else:
                places.add(made.name)
                root, envelopes, contents = read_whole(open_streamed(made))
                found = root.entry.digest, len(envelopes), list(contents.manifests)
                assert found == expected, (step, number)
        os.close(descriptor)
        assert {each.name for each in tmp_path.iterdir()} == places, (step, number)
        return returned[0]

    folder = write_folder(tmp_path / "old", bundle)
    root, envelopes, contents = read_whole(open_streamed(run(folder)))
    expected = root.entry.digest, len(envelopes), list(contents.manifests)
    tried = 0
    for step in STEPS:
        number = 1
        while attempt(step, number) >= number and number < 3:
            number, tried = number + 1, tried + 1
    assert tried > len(STEPS)
