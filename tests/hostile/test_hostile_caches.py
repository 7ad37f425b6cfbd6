"""Whoever can write where caches lie makes a build compile anew, and no more."""

import gzip
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tls_server import tls_context

from aotc.base.stages import CompileJob, Executable, Module
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.remote_cache.bounded_reads import Limit
from aotc.commands.remote_cache.cache_seal import Seals
from aotc.commands.remote_cache.remote_cache import RemoteStore
from aotc.commands.remote_cache.remote_cache_service import blobs_at, share
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
        """Do nothing, since nothing runs."""


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


KEY, OTHER = sha256(b"key"), sha256(b"other")
NAME, DATA = KEY.removeprefix("sha256:"), bytes(9000)
SEALS, THEIRS = Seals(OURS, trusted(OURS)), Seals(BUILDER, trusted(BUILDER))
ENTRY = SEALS.seal(KEY, DATA)
MOVED = SEALS.seal(OTHER, DATA)
BOMB = gzip.compress(bytes(2**24))
DAMAGED, TASK, SIGNER = "damaged or cut short", "of another task", "signed by no key"
GIVEN_UP = "was given up, and the build went on without it"
PATIENCE = 0.5


def answer(body: bytes, *fields: str, length: object = None, status: str = "200 OK") -> bytes:
    """Return a response of HTTP/1.1; `length` is stated in place of the body's."""
    size = f"Content-Length: {len(body) if length is None else length}"
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, size, "", ""]).encode() + body


# What a server sends, and the note of the build; None if the genuine entry is used.
ANSWERS: dict[str, tuple[bytes, str | None]] = {
    "genuine": (answer(ENTRY), None),
    "another-coding-is-stated": (answer(ENTRY, "Content-Encoding: br"), None),
    "a-length-that-is-no-number": (answer(ENTRY, length=-5), None),
    "changed": (answer(ENTRY[:-1] + b"?"), DAMAGED),
    "not-sealed": (answer(DATA), DAMAGED),
    "sealed-by-a-stranger": (answer(THEIRS.seal(KEY, DATA)), SIGNER),
    "of-another-key": (answer(MOVED), TASK),
    "seal-of-another-key-on-these-bytes": (answer(MOVED.split(b"\n")[0] + b"\n" + DATA), TASK),
    "compressed": (answer(gzip.compress(ENTRY), "Content-Encoding: gzip"), DAMAGED),
    "bomb": (answer(BOMB, "Content-Encoding: gzip"), DAMAGED),
    "shorter-than-it-is": (answer(ENTRY, length=len(ENTRY) - 1), DAMAGED),
    "longer-than-it-is": (answer(ENTRY, length=10**18), GIVEN_UP),
    "two-lengths": (answer(ENTRY, "Content-Length: 5"), GIVEN_UP),
    "partial": (answer(ENTRY, status="206 Partial Content"), "HTTP 206"),
    "redirect-to-a-file": (answer(b"", "Location: file:///etc/passwd", status="302 Found"), "302"),
    "too-many-requests": (answer(b"", "Retry-After: 99999", status="429 Later"), "HTTP 429 Later"),
    "header-that-never-ends": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, GIVEN_UP),
    "continue-for-ever": (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, GIVEN_UP),
    "reason-of-60-kB": (answer(b"", status="500 " + "\x1b[31m" * 12_000), "HTTP 500"),
    "no-HTTP": (ENTRY, GIVEN_UP),
}

Served = Callable[[bytes, ssl.SSLContext | None], int]


@pytest.fixture
def served() -> Iterator[Served]:
    """Servers that send these bytes to everybody, and then nothing; their ports."""
    listening: list[socket.socket] = []

    def serve(sent: bytes, tls: ssl.SSLContext | None = None) -> int:
        bound = socket.create_server(("127.0.0.1", 0))
        listening.append(bound)

        def run() -> None:
            with suppress(OSError):  # ssl.SSLError is one
                found, _ = bound.accept()
                with tls.wrap_socket(found, server_side=True) if tls else found as client:
                    while b"\r\n\r\n" not in client.recv(65536):
                        pass
                    client.sendall(sent)
                    if b"\r\n\r\n" in sent[-4:]:
                        client.recv(1)

        threading.Thread(target=run, daemon=True).start()
        return bound.getsockname()[1]

    yield serve
    for each in listening:
        each.close()


def asked(url: str, limit: int = LIMIT) -> tuple[bytes | None, str]:
    """Return the entry of a remote cache for the key, and the note of the build."""
    store = RemoteStore(blobs_at(url, PATIENCE), url, SEALS, limit)
    return store.get(KEY), " ".join(store.notes())


@pytest.mark.parametrize("name", ANSWERS)
def test_server_that_lies_costs_one_bounded_note(name: str, served: Served) -> None:
    sent, note = ANSWERS[name]
    data, notes = asked(f"http://127.0.0.1:{served(sent, None)}/cache")
    assert data == (DATA if note is None else None)
    assert (note or "") in notes and len(notes) < 500
    assert (notes == "") is (note is None)


@pytest.mark.parametrize(("host", "data"), [("127.0.0.1", DATA), ("127.0.0.2", None)])
def test_certificate_has_to_be_of_the_host(
    host: str, data: bytes | None, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = tls_context(tmp_path, host)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    found, note = asked(f"https://127.0.0.1:{served(answer(ENTRY), tls)}/cache")
    assert found == data
    assert ("SSLCertVerificationError" in note) is (data is None)


def test_error_of_a_library_is_told_in_one_short_note() -> None:
    class LibraryError(Exception):
        """Its text is a page."""

    class Failing:
        def read(self, name: str, limit: Limit) -> bytes | None:
            raise LibraryError("x" * 10**6)

        def write(self, name: str, data: bytes) -> None:
            raise LibraryError("x" * 10**6)

        def close(self) -> None:
            """Do nothing, since nothing runs."""

    store = RemoteStore(Failing(), "place", SEALS, LIMIT)
    assert store.get(KEY) is None
    assert len(store.notes()[0]) < 500 and "LibraryError after" in store.notes()[0]


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
