"""Whoever can write where caches lie makes a build compile anew, and no more."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from aotc.base.stages import CompileJob, Executable, Module
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.remote_cache.remote_cache_service import share
from aotc.compile.target_files import read_target
from aotc.pipeline.cache import cache_store as stores
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_backend import CachedBackend
from aotc.pipeline.cached_tasks import Tasks
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, Memory
from aotc_runtime.verification.public_keys import PublicKey, load_public_key

OURS, BUILDER = LocalSigner.ephemeral(), LocalSigner.ephemeral()
"""The second signs bundles, which everybody loads, and no entries."""

TARGET = read_target("cpu-x86-64-v3", Path(), "test")
FIRST = CompileJob("f", Module(b"first", sha256(b"first"), "1.0.0", ()), TARGET)
SECOND = replace(FIRST, module=Module(b"second", sha256(b"second"), "1.0.0", ()))

LIMIT = 10**6


class Naming:
    """A backend whose executables say of what, and with which jaxlib."""

    platform = "cpu"

    def __init__(self, jaxlib: str) -> None:
        self.jaxlib, self.compiled = jaxlib, 0

    def toolchain(self) -> BuiltWith:
        return BuiltWith("1", self.jaxlib, self.jaxlib, "", 1, 1, "1")

    def compile(self, job: CompileJob) -> Executable:
        self.compiled += 1
        code = job.module.artifact + b" " + self.jaxlib.encode()
        memory, cost = Memory(1, 2, 3, 4, 5), Cost(1, 2, 3)
        return Executable(code, sha256(code), (), (), (), memory, cost, {}, 0.5)

    def stop(self) -> None:
        """Nothing runs."""


def trusted(*signers: LocalSigner) -> dict[str, PublicKey]:
    keys = [load_public_key(signer.public_pem(), "", "") for signer in signers]
    return {key.id: key for key in keys}


class Host:
    """A host with a cache of its own, which shares another one with others."""

    def __init__(self, folder: Path, name: str, sealer: LocalSigner | None = OURS) -> None:
        self.store = share(
            LocalStore(folder / name, LIMIT), f"file://{folder}/shared", sealer, trusted(OURS)
        )

    def made(self, job: CompileJob, jaxlib: str = "1") -> tuple[bytes, bool]:
        """An executable, and whether it was compiled for it."""
        backend = Naming(jaxlib)
        parts = {"jaxlib": jaxlib}
        code = CachedBackend(backend, Tasks(self.store, {}), parts).compile(job).serialized
        return code, bool(backend.compiled)


def shared(folder: Path) -> list[Path]:
    return sorted((folder / "shared").iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def entries(tmp_path: Path) -> list[Path]:
    """Of both jobs, as somebody has made them who is trusted."""
    host = Host(tmp_path, "builder")
    assert host.made(FIRST) == (b"first 1", True)
    assert host.made(SECOND) == (b"second 1", True)
    return shared(tmp_path)


def test_what_is_shared_is_used(entries: list[Path], tmp_path: Path) -> None:
    assert Host(tmp_path, "other").made(FIRST) == (b"first 1", False)


def test_swapped_entries_are_rebuilt(entries: list[Path], tmp_path: Path) -> None:
    first, second = (path.read_bytes() for path in entries)
    entries[0].write_bytes(second)
    entries[1].write_bytes(first)
    other = Host(tmp_path, "other", sealer=None)
    assert other.made(FIRST) == (b"first 1", True)
    assert other.made(SECOND) == (b"second 1", True)
    assert any("of another task, not used: 2" in note for note in other.store.notes())


def test_an_old_entry_is_not_one_of_a_newer_toolchain(entries: list[Path], tmp_path: Path) -> None:
    old = entries[0].read_bytes()
    assert Host(tmp_path, "newer").made(FIRST, "2") == (b"first 2", True)
    (new,) = set(shared(tmp_path)) - set(entries)
    new.write_bytes(old)
    assert Host(tmp_path, "other").made(FIRST, "2") == (b"first 2", True)


def test_a_key_that_signs_bundles_seals_no_entry(tmp_path: Path) -> None:
    theirs = share(
        LocalStore(tmp_path / "x", LIMIT), f"file://{tmp_path}/shared", BUILDER, trusted(BUILDER)
    )
    backend = CachedBackend(Naming("1"), Tasks(theirs, {}), {"jaxlib": "1"})
    assert backend.compile(FIRST).serialized == b"first 1"
    other = Host(tmp_path, "other", sealer=None)
    assert other.made(FIRST) == (b"first 1", True)
    assert any("signed by no key" in note for note in other.store.notes())


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_irregular_file_is_no_entry(kind: str, entries: list[Path], tmp_path: Path) -> None:
    entries[0].unlink()
    match kind:
        case "endless":
            entries[0].symlink_to("/dev/zero")
        case "folder":
            entries[0].mkdir()
        case _:
            os.mkfifo(entries[0])
    other = Host(tmp_path, "other", sealer=None)
    assert other.made(FIRST) == (b"first 1", True)
    (note,) = other.store.notes()
    assert "damaged or cut short, not used: 1" in note


def test_verified_bytes_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, store = sha256(b"key"), LocalStore(tmp_path, LIMIT)
    store.put(key, b"data")
    (path,) = tmp_path.glob("entries/*/*")
    digest = stores._digest

    def while_it_is_verified(key: str, data: bytes) -> bytes:
        path.write_bytes(b"another")
        return digest(key, data)

    monkeypatch.setattr(stores, "_digest", while_it_is_verified)
    assert store.get(key) == b"data"
    assert store.get(key) is None
