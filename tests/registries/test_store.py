"""A store has what was fetched, whole; what is loaded from it was hashed by who loads it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from homeless import nobody_at_home

from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import (
    AotcError,
    IntegrityError,
    RegistryError,
    ResourceError,
    TrustError,
)
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Entry, RootIndex
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.oci.oci_references import Reference
from aotc_serve.store import Store, pull
from aotc_serve.store.blob_files import BlobFiles, FileSink, temporary
from aotc_serve.store.reference_loading import default_folder, fetched, store_at
from aotc_serve.store.stored_bundles import StoredBundle
from tests.conftest import ROOT
from tests.registries.conftest import GOLDEN, LAYERS, Connect
from tests.registries.faults import always, status
from tests.registries.oci_server import Handler, OciServer, sha256
from tests.waiting import until

REPO = "models/digits"
DIGITS = GOLDEN / "digits.aotb"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """One that accepts the golden bundle `layers`."""
    from aotc.bundle.trust.trust_text import policy_text

    path = tmp_path / "trust.toml"
    path.write_text(policy_text("layers", [(GOLDEN / "golden.pub").read_text("utf-8")]))
    return path


def pushed(connect: Connect, path: Path = LAYERS, place: str = REPO) -> Reference:
    with connect(place) as there:
        return push(look_into(path), there, None, 0.0).place


def into(store: Store, connect: Connect, place: str = f"{REPO}:1.0.0") -> str:
    with connect(place) as there:
        return pull(there, store).root.digest


def source(store: Store, root: str) -> object:
    found = store.source(root, "it")
    assert found is not None
    return read_unverified(found)[0]


def test_what_is_fetched_is_there_whole(server: OciServer, connect: Connect, store: Store) -> None:
    root = pushed(connect).digest
    assert store.bundles() == []
    into(store, connect)
    (found,) = store.bundles()
    assert (found.root.digest, found.absent, len(found.attestations)) == (root, (), 2)
    read = store.source(root, "it")
    assert read is not None and read.digests() == look_into(LAYERS).digests()
    assert sorted(p.name for p in store.folder.iterdir()) == [
        "blobs", "bundles", "lock", "partial",
    ]  # fmt: skip
    assert list((store.folder / "partial").iterdir()) == []


def test_what_is_there_is_not_fetched_again(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    layers = set(store.bundle(root).blobs) - documents(store, root)
    before = [a for a in server.asked if a.path.rpartition("/")[2] in layers]
    into(store, connect)
    assert [a for a in server.asked if a.path.rpartition("/")[2] in layers] == before


def documents(store: Store, root: str) -> set[str]:
    return {d for d in store.bundle(root).blobs if store.files.path(d).read_bytes()[:1] == b"{"}


def test_a_record_keeps_attestations_that_a_registry_has_lost(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    server.faults.append(
        always(lambda h: h.answer(200, b'{"manifests": []}'), "GET", "/referrers/")
    )
    server.faults.append(always(status(404), "GET", "/manifests/sha256-"))
    into(store, connect)
    assert len(store.bundle(root).attestations) == 2


def test_a_bundle_is_loaded_from_its_reference_and_then_without_a_registry(
    server: OciServer, connect: Connect, store: Store, policy: Path
) -> None:
    place = pushed(connect)
    read = read_policy(policy)
    first = fetched(str(place), read, store, None)
    server.close()
    again = fetched(str(place), read, store.folder, None)
    assert first.digests() == again.digests() == look_into(LAYERS).digests()
    with pytest.raises(RegistryError):
        fetched(str(place).partition("@")[0] + ":1.0.0", read, store, None)


def test_what_is_missing_of_a_stored_bundle_is_fetched(
    server: OciServer, connect: Connect, store: Store, policy: Path
) -> None:
    place = pushed(connect)
    read = read_policy(policy)
    fetched(str(place), read, store, None)
    for digest in store.bundle(place.digest).blobs:
        store.files.path(digest).unlink()
        found = fetched(str(place), read, store, None)
        assert found.digests() == look_into(LAYERS).digests(), digest


def test_a_blob_that_was_changed_is_never_used(
    server: OciServer, connect: Connect, store: Store, policy: Path
) -> None:
    import aotc_runtime

    place = pushed(connect)
    fetched(str(place), read_policy(policy), store, None)
    blobs = store.bundle(place.digest).blobs
    for digest in blobs:
        if digest in documents(store, place.digest):
            continue
        path = store.files.path(digest)
        before = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        for use in (aotc_runtime.load, aotc_runtime.verify):
            with pytest.raises(IntegrityError) as caught:
                use(str(place), trust=policy, store=store.folder)
            assert caught.value.code == "AOTC-E201"
        path.write_bytes(before)


def test_a_verified_bundle_is_loaded_from_what_was_hashed(
    server: OciServer, connect: Connect, store: Store, policy: Path
) -> None:
    import aotc_runtime

    place = pushed(connect)
    verified = aotc_runtime.verify(str(place), trust=policy, store=store.folder)
    assert verified.root_digest == place.digest
    for digest, size in store.bundle(place.digest).blobs.items():
        if size > 2:
            path = store.files.path(digest)
            path.chmod(0o644)
            with path.open("r+b") as file:
                file.write(b"other")
    with pytest.raises(IntegrityError) as caught:
        verified.load()
    assert caught.value.code == "AOTC-E206"


def test_what_nobody_trusts_is_not_fetched(
    server: OciServer, connect: Connect, store: Store, tmp_path: Path
) -> None:
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text

    place = pushed(connect)
    path = tmp_path / "other.toml"
    path.write_text(policy_text("layers", [LocalSigner.ephemeral().public_pem()]))
    with pytest.raises(TrustError):
        fetched(str(place), read_policy(path), store, None)
    assert store.bundle(place.digest) is None


def test_a_policy_may_demand_digests(
    server: OciServer, connect: Connect, store: Store, policy: Path
) -> None:
    place = pushed(connect)
    text = policy.read_text("utf-8").replace("name =", 'references = "digest"\nname =', 1)
    policy.write_text(text, "utf-8")
    read = read_policy(policy)
    before = len(server.asked)
    with pytest.raises(TrustError) as caught:
        fetched(str(place).partition("@")[0] + ":1.0.0", read, store, None)
    assert (caught.value.code, len(server.asked)) == ("AOTC-E326", before)
    fetched(str(place), read, store, None)


def sizes(*bundles: StoredBundle) -> int:
    blobs: dict[str, int] = {}
    for each in bundles:
        blobs |= each.blobs
    return sum(blobs.values())


def test_what_was_used_longest_ago_goes_first(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    places = [
        pushed(connect, GOLDEN / f"{name}.aotb", f"models/{name}")
        for name in ("layers", "sizes", "trees")
    ]
    for number, place in enumerate(places):
        into(store, connect, f"{place.repository}:1.0.0")
        record = store.folder / "bundles" / f"{place.digest[7:]}.json"
        os.utime(record, (number + 1, number + 1))
    assert [b.root.digest for b in store.bundles()] == [p.digest for p in reversed(places)]
    store.source(places[0].digest, "it")  # used now
    first, _, last = store.bundles()
    gone, removed = store.prune(sizes(first, last))
    assert [b.root.digest for b in gone] == [] or removed > 0
    kept = {b.root.digest for b in store.bundles()}
    assert places[0].digest in kept and places[1].digest not in kept
    assert store.size_bytes() == sizes(*store.bundles())
    for root in kept:
        source(store, root)


def test_a_store_stays_within_its_limit(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    first = pushed(connect)
    second = pushed(connect, DIGITS, "models/other")
    size = sum(len(look_into(DIGITS).blob(d) or b"") for d in look_into(DIGITS).digests())
    store = Store(tmp_path / "store", size + 100)
    into(store, connect)
    into(store, connect, "models/other:1.0.0")
    assert [b.root.digest for b in store.bundles()] == [second.digest]
    assert store.size_bytes() <= size + 100
    assert store.bundle(first.digest) is None
    with pytest.raises(ResourceError) as caught:
        into(Store(tmp_path / "small", size - 1), connect, "models/other:1.0.0")
    assert caught.value.code == "AOTC-E561"


def test_nothing_is_removed_while_somebody_adds(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    with store.files.kept():
        assert store.prune(0, patience=0.1) is None
    source(store, root)
    assert store.prune(0) is not None
    assert store.bundles() == [] and store.size_bytes() == 0


def test_what_is_loaded_stays_when_the_store_forgets_it(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    held = store.source(root, "it")
    store.prune(0)
    assert held is not None
    assert read_unverified(held)[0].root_digest == root


def test_a_damaged_blob_is_found_and_fetched_again(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    bad = max(store.bundle(root).blobs)
    path = store.files.path(bad)
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert [digest for digest, is_whole in store.verify() if not is_whole] == [bad]
    assert not path.exists()
    into(store, connect)
    assert path.read_bytes() == data
    assert all(is_whole for _, is_whole in store.verify())


def test_a_full_disk_is_told_and_leaves_nothing_half(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect, DIGITS)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(ResourceError) as caught:
            into(store, connect)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.code == "AOTC-E560"
    assert all(is_whole for _, is_whole in store.verify())
    assert list((store.folder / "partial").iterdir()) == []
    source(store, into(store, connect))


def test_a_store_that_is_no_folder_is_told(
    server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    pushed(connect)
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError) as caught:
        into(Store(tmp_path / "file" / "store"), connect)
    assert caught.value.code == "AOTC-E560"


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], AbstractContextManager[None]]]:
    """A folder that this process may read and not write, for as long as a block takes."""

    @contextmanager
    def protect(folder: Path) -> Iterator[None]:
        places = [folder, *folder.rglob("*")]
        for each in places:
            each.chmod(0o555 if each.is_dir() else 0o444)
        user = os.geteuid()
        os.seteuid(user or NOBODY)
        try:
            yield
        finally:
            os.seteuid(user)
            for each in places:
                each.chmod(0o755 if each.is_dir() else 0o644)

    return protect


NOBODY = 65534


def test_a_read_only_store_gives_what_it_has_and_takes_nothing(
    server: OciServer,
    connect: Connect,
    policy: Path,
    read_only: Callable[[Path], AbstractContextManager[None]],
) -> None:
    place, other = pushed(connect), pushed(connect, DIGITS, "models/other")
    read = read_policy(policy)
    with tempfile.TemporaryDirectory() as name:
        store = Store(name)
        fetched(str(place), read, store, None)
        with read_only(Path(name)):
            assert fetched(str(place), read, store, None).digests() == look_into(LAYERS).digests()
            with pytest.raises(ResourceError) as caught:
                into(store, connect, f"{other.repository}:1.0.0")
            assert caught.value.code == "AOTC-E560"
            with pytest.raises(ResourceError):
                store.prune(0)
        source(store, place.digest)


SCRIPT = """
import sys
from pathlib import Path
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.oci_references import parse
from aotc_serve.store import Store, pull
with Repository(parse(sys.argv[1])) as there:
    print(pull(there, Store(Path(sys.argv[2]))).root.digest)
"""


def test_several_processes_fetch_each_blob_once(
    server: OciServer, connect: Connect, store: Store
) -> None:
    place = pushed(connect, DIGITS)
    before = len(server.asked)
    command = [sys.executable, "-c", SCRIPT, str(place), str(store.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) for _ in range(3)]
    for each in running:
        out, _ = each.communicate(timeout=100)
        assert (each.returncode, out.decode().strip()) == (0, place.digest)
    contents = read_unverified(look_into(DIGITS))[0]
    layers = [d.digest for image in contents.targets.values() for d in image.layers]
    for digest in layers:
        asked = [a for a in server.asked[before:] if a.path.endswith(f"/blobs/{digest}")]
        assert len(asked) == 1
    source(store, place.digest)


def test_who_is_killed_leaves_nothing_wrong_and_the_next_one_goes_on(
    server: OciServer, connect: Connect, store: Store
) -> None:
    place = pushed(connect, DIGITS)
    sizes_ = {d: len(data) for (_, d), data in server.blobs.items()}
    large = max(sizes_, key=lambda digest: sizes_[digest])

    def hang(handler: Handler) -> None:
        data = server.blobs[REPO, large]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.wfile.flush()
        time.sleep(60)

    fault = always(hang, "GET", large)
    server.faults.append(fault)
    command = [sys.executable, "-c", SCRIPT, str(place), str(store.folder)]
    child = subprocess.Popen(command, cwd=ROOT)
    partial = store.folder / "partial" / large[7:]
    until(lambda: partial.exists() and partial.stat().st_size, "half of it is there", child)
    child.send_signal(signal.SIGKILL)
    child.wait()
    half = partial.stat().st_size
    server.faults.remove(fault)
    assert 0 < half < sizes_[large]
    source(store, into(store, connect, f"{REPO}:1.0.0"))
    ranges = [a.headers.get("range") for a in server.asked if a.path.endswith(large)]
    assert ranges[-1] == f"bytes={half}-"


def test_only_what_was_hashed_gets_the_name_of_a_blob(store: Store) -> None:
    with pytest.raises(IntegrityError) as caught, store.files.receiving(sha256(b"a"), 1) as sink:
        assert sink is not None
        sink.write(b"b")
    assert caught.value.code == "AOTC-E201"
    assert store.size_bytes() == 0


def test_a_store_of_nothing_has_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert (store.bundles(), store.size_bytes(), list(store.verify())) == ([], 0, [])
    assert store.source(sha256(b""), "it") is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"schemaVersion": 2, "manifests": []}'])
def test_a_record_that_is_none_is_no_bundle(
    text: bytes, server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    root = into(store, connect)
    (store.folder / "bundles" / f"{root[7:]}.json").write_bytes(text)
    assert store.bundles() == []


def test_where_the_default_store_is() -> None:
    assert default_folder({"AOTC_STORE": "/s"}) == Path("/s")
    assert default_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/aotc-store")
    assert default_folder({"HOME": "/h"}) == Path("/h/.cache/aotc-store")


def test_who_has_no_home_is_told_to_name_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_at_home(monkeypatch)
    with pytest.raises(ResourceError) as caught:
        default_folder({})
    assert caught.value.code == "AOTC-E560" and "AOTC_STORE" in caught.value.findings[0].hint
    assert default_folder({"AOTC_STORE": "/s"}) == Path("/s")


def test_attestations_come_by_the_api_alone_where_there_is_one(
    server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    server.faults.append(always(status(500), "GET", "/tags/"))
    root = into(store, connect)
    expected = len(read_root(look_into(LAYERS)).attestations)
    assert len(store.bundle(root).attestations) == expected
    assert oci_layout.INDEX_FILE in store.source(root, "it").members
    with pytest.raises(AotcError):
        into(store, connect, f"{REPO}:none")


def test_a_document_that_is_another_is_not_there(store: Store) -> None:
    data = b"root"
    entry = Entry(mediaType=oci_layout.INDEX_TYPE, digest=sha256(data), size=len(data))
    store.files.put(entry.digest, data)
    assert store.data(entry, len(data)) == data
    assert store.data(entry, len(data) - 1) is None
    path = store.files.path(entry.digest)
    path.chmod(0o600)
    path.write_bytes(b"rood")
    assert store.data(entry, len(data)) is None


@pytest.mark.parametrize("lost", ["image", "config"])
def test_documents_are_there_all_or_none(
    lost: str, server: OciServer, connect: Connect, store: Store
) -> None:
    pushed(connect)
    into(store, connect)
    (found,) = store.bundles()
    documents = store.documents(found.root)
    assert documents is not None and all(image and config for image, config in documents)
    index = store.document(found.root, RootIndex, 2**20)
    assert index is not None
    digests = {"image": index.manifests[0].digest, "config": documents[0][0].config.digest}
    store.files.path(digests[lost]).unlink()
    assert store.documents(found.root) is None


def test_what_is_there_needs_no_place_to_be_written(store: Store) -> None:
    store.files.put(sha256(b"root"), b"root")
    (store.folder / "partial").rmdir()
    (store.folder / "partial").touch()
    store.files.put(sha256(b"root"), b"root")


def test_what_is_there_is_not_received_again(store: Store) -> None:
    store.files.put(sha256(b"root"), b"root")
    with store.files.receiving(sha256(b"root"), 4) as sink:
        assert sink is None
    assert not list((store.folder / "partial").iterdir())


def _no_folder(folder: Path) -> None:
    folder.touch()
    BlobFiles(folder).make()


def _not_readable(folder: Path) -> None:
    FileSink(os.open(folder, os.O_WRONLY | os.O_CREAT), "it")


def _not_writable(folder: Path) -> None:
    folder.touch()
    FileSink(os.open(folder, os.O_RDONLY), "it").restart()


def _record_in_the_way(folder: Path) -> None:
    (folder / "bundles" / "name").mkdir(parents=True)
    BlobFiles(folder).write_record("name", b"data")


def _blob_in_the_way(folder: Path) -> None:
    files = BlobFiles(folder)
    files.path(sha256(b"root")).mkdir(parents=True)
    files.put(sha256(b"root"), b"root")


@pytest.mark.parametrize(
    "use", [_no_folder, _not_readable, _not_writable, _record_in_the_way, _blob_in_the_way]
)
def test_a_store_that_cannot_be_used_is_told(use: Callable[[Path], None], tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        use(tmp_path / "store")
    assert caught.value.code == "AOTC-E560"


def test_a_host_without_room_for_temporary_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ResourceError) as caught, temporary():
        pytest.fail("there is no such folder")
    assert caught.value.code == "AOTC-E560"


def test_who_waits_for_another_process_may_stop(store: Store) -> None:
    store.files.make()
    digest = sha256(b"root")
    place = store.folder / "partial" / digest.removeprefix("sha256:")

    def stop(seconds: float) -> None:
        raise RuntimeError("stopped")

    with place.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match="stopped"), store.files.receiving(digest, 4, stop):
            pytest.fail("another process writes it")


def test_a_store_that_is_passed_is_used_as_it_is(store: Store) -> None:
    assert store_at(store) is store


def test_who_can_only_read_a_store_cannot_lock_it(store: Store) -> None:
    store.files.make()
    with store.files.kept():
        assert (store.folder / "lock").stat().st_mode & 0o077 == 0
    (store.folder / "lock").chmod(0o644)  # as it was made before
    with store.files.kept():
        assert (store.folder / "lock").stat().st_mode & 0o077 == 0


def test_a_lock_that_is_held_for_ever_is_waited_for_no_longer_than_stated(
    store: Store, connect: Connect, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened it while its mode allowed that may hold it still."""
    monkeypatch.setattr("aotc_serve.store.blob_files.LOCK_SECONDS", 0.1)
    store.files.make()
    held = os.open(store.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        place = pushed(connect)
        began = time.monotonic()
        found = fetched(str(place), read_policy(policy), store, None)
        assert found.digests() and time.monotonic() - began < 5
        assert store.prune(0, patience=0.1) is None
    finally:
        os.close(held)
