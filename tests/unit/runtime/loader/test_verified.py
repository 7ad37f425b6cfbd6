"""Verified once, and loaded afterwards: in this process, in forked ones, and from what file."""

import gc
import importlib
import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime.base.errors import TrustError
from aotc_runtime.system import held_maps
from aotc_runtime.system.bundle_files import map_file, open_bundle
from aotc_runtime.verification.verify_bundle import Accepted
from tests.conftest import Bundle
from tests.running import printed

from ..samples import refused

VERIFIED = importlib.import_module("aotc_runtime.loader.verified")

IMAGE = np.zeros((8, 64), np.float32)


def descriptors() -> int:
    """Return the number of open descriptors, without those of unreferenced objects."""
    gc.collect()
    return len([*Path("/proc/self/fd").iterdir()])


def as_file(bundle: Path, folder: Path) -> Path:
    return Path(shutil.copy(bundle, folder / "copy.aotb"))


def as_layout(bundle: Path, folder: Path) -> Path:
    for name, data in open_bundle(bundle).members.items():
        path = folder / "copy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "copy"


@pytest.fixture(params=[as_file, as_layout])
def copied(request: pytest.FixtureRequest, digits_bundle: Bundle, tmp_path: Path) -> Bundle:
    """A bundle of one's own, in both forms, and its policy."""
    return request.param(digits_bundle[0], tmp_path), digits_bundle[1]


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that fails as soon as anything would be handed to an engine."""
    monkeypatch.setattr(VERIFIED.bundle_loader, "load_accepted", lambda *_: pytest.fail("loaded"))


def largest(bundle: Path) -> Path:
    """The file of a bundle that holds its weights."""
    files = [bundle] if bundle.is_file() else [p for p in bundle.rglob("*") if p.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def overwrite(path: Path) -> None:
    """Other weights in the same file, and the time of its last change as it was."""
    at = path.stat().st_size * 3 // 4
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def hidden(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        before = path.stat()
        change(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return changed


@pytest.mark.parametrize("sealed", [False, True])
def test_verified_bundle_loads_and_answers_repeatedly(copied: Bundle, sealed: bool) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1], sealed=sealed)
    expected = aotc_runtime.load(copied[0], trust=copied[1])
    assert verified.root_digest == expected.report()["root_digest"]
    for _ in range(2):
        loaded = verified.load()
        assert loaded.report()["compilations"] == 0
        for name, array in expected["predict"](IMAGE).items():
            np.testing.assert_array_equal(loaded["predict"](IMAGE)[name], array)


def test_verifying_starts_no_engine_and_a_fork_can_load(copied: Bundle) -> None:
    program = """
    import os, sys
    import numpy as np
    import aotc_runtime

    before = len(os.listdir("/proc/self/task"))
    verified = aotc_runtime.verify(sys.argv[1], trust=sys.argv[2])
    assert "jaxlib._jax" not in sys.modules, "no engine"
    assert len(os.listdir("/proc/self/task")) == before, "no thread is left"
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            loaded = verified.load(threads=1)
            loaded["predict"](np.zeros((8, 64), np.float32))
            os._exit(7)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ends == [7, 7, 7], ends
    """
    printed(textwrap.dedent(program), *copied)


@pytest.mark.parametrize(
    ("change", "code"), [(overwrite, "AOTC-E206"), (hidden(overwrite), "AOTC-E201")]
)
def test_a_file_that_is_written_into_after_it_was_verified_is_refused_before_any_of_it_is_loaded(
    copied: Bundle, change: Callable[[Path], None], code: str, nothing_loads: None
) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    change(largest(copied[0]))
    for _ in range(2):
        with refused(code):
            verified.load()


def test_write_during_verify_is_refused(copied: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Accepted.finish

    def and_then(accepted: Accepted) -> None:
        finish(accepted)
        overwrite(largest(copied[0]))

    monkeypatch.setattr(Accepted, "finish", and_then)
    with refused("AOTC-E206"):
        aotc_runtime.verify(copied[0], trust=copied[1])


def test_write_during_load_is_refused(copied: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    load = VERIFIED.bundle_loader.load_accepted

    def and_then(*arguments: Any) -> aotc_runtime.LoadedBundle:
        loaded: aotc_runtime.LoadedBundle = load(*arguments)
        overwrite(largest(copied[0]))
        return loaded

    monkeypatch.setattr(VERIFIED.bundle_loader, "load_accepted", and_then)
    with refused("AOTC-E206"):
        verified.load()


def test_untouched_file_is_not_rehashed(copied: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    monkeypatch.setattr(VERIFIED, "accept_bundle", lambda *_: pytest.fail("hashed again"))
    assert verified.load().report()["root_digest"] == verified.root_digest


def test_a_file_that_is_cut_short_after_it_was_verified_is_refused(copied: Bundle) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    os.truncate(largest(copied[0]), 0)
    with refused("AOTC-E206"):
        verified.load()


@pytest.mark.parametrize("change", [overwrite, hidden(overwrite), lambda p: os.truncate(p, 0)])
def test_sealed_memory_outlives_the_file(copied: Bundle, change: Callable[[Path], None]) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1], sealed=True)
    change(largest(copied[0]))
    assert verified.load().report()["root_digest"] == verified.root_digest


def test_what_replaces_a_bundle_has_no_effect(copied: Bundle, tmp_path: Path) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    copied[0].rename(tmp_path / "old")
    if copied[0].suffix:
        (tmp_path / "new").write_bytes(b"something else")
        (tmp_path / "new").replace(tmp_path / "old")
        copied[0].write_bytes(b"something else")
    else:
        shutil.rmtree(tmp_path / "old")
    loaded = verified.load()
    assert loaded.report()["root_digest"] == verified.root_digest
    loaded["predict"](IMAGE)


def test_what_load_refuses_is_refused_at_once(copied: Bundle, tmp_path: Path) -> None:
    overwrite(largest(copied[0]))
    for sealed in (False, True):
        with refused("AOTC-E201"):
            aotc_runtime.verify(copied[0], trust=copied[1], sealed=sealed)
        with pytest.raises(TrustError):
            aotc_runtime.verify(copied[0], trust=tmp_path / "none.toml", sealed=sealed)
    with refused("AOTC-E108"):
        aotc_runtime.verify(tmp_path / "none", trust=copied[1])


def test_numbers_are_judged_before_anything_is_loaded(copied: Bundle, nothing_loads: None) -> None:
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    with refused("AOTC-E552"):
        verified.load(threads=0)


def test_a_sealed_map_can_be_written_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    data = map_file(tmp_path / "file", held_maps.map_sealed)
    assert data.readonly and bytes(data) == b"bytes"


def test_a_file_that_becomes_shorter_while_it_is_sealed_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"bytes")
        file.flush()
        with pytest.raises(OSError, match="shorter"):
            held_maps.map_sealed(file.fileno(), 6)


def test_descriptors_are_given_back(copied: Bundle) -> None:
    before = descriptors()
    verified = aotc_runtime.verify(copied[0], trust=copied[1])
    assert descriptors() > before
    del verified
    assert descriptors() == before
