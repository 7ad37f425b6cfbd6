"""A store has what was fetched, whole; what is loaded from it was hashed by who loads it."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from homeless import nobody_at_home

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base.errors import IntegrityError, RegistryError, ResourceError, TrustError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import Entry, RootIndex
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.store import Store
from aotc_serve.store.blob_files import BlobFiles, FileSink, temporary
from aotc_serve.store.reference_loading import default_folder, fetch_bundle, store_at
from aotc_serve.store.stored_bundles import StoredBundle
from tests.conftest import ROOT
from tests.registries.conftest import GOLDEN, LAYERS, REPO, Registry, refused
from tests.registries.faults import always, status
from tests.registries.oci_server import Handler, sha256
from tests.waiting import until

DIGITS = GOLDEN / "digits.aotb"
GOLDEN_KEY = (GOLDEN / "golden.pub").read_text("utf-8")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """One that accepts the golden bundle `layers`."""
    path = tmp_path / "trust.toml"
    path.write_text(policy_text("layers", [GOLDEN_KEY]))
    return path


@pytest.fixture
def place(registry: Registry) -> str:
    """The digest of a bundle in the registry."""
    return str(registry.push().place)


@pytest.fixture
def root(registry: Registry, store: Store, place: str) -> str:
    """The root digest of a bundle in the registry and in the store."""
    return registry.keep(store)


def requires_whole(store: Store, root: str) -> None:
    found = store.source(root, "it")
    assert found is not None
    read_unverified(found)


def overwritten(path: Path, data: bytes) -> bytes:
    """Return what was there before."""
    before = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data)
    return before


def with_its_last_bit_turned(path: Path) -> bytes:
    data = path.read_bytes()
    return overwritten(path, data[:-1] + bytes([data[-1] ^ 1]))


def documents(store: Store, root: str) -> set[str]:
    return {d for d in store.bundle(root).blobs if store.files.path(d).read_bytes()[:1] == b"{"}


def test_fetched_bundle_is_whole_and_kept(registry: Registry, store: Store, place: str) -> None:
    assert store.bundles() == []
    root = registry.keep(store)
    (found,) = store.bundles()
    assert place.endswith(root)
    assert (found.root.digest, found.absent, len(found.attestations)) == (root, (), 2)
    read = store.source(root, "it")
    assert read is not None and read.digests() == open_streamed(LAYERS).digests()
    names = ["blobs", "bundles", "lock", "partial"]
    assert sorted(path.name for path in store.folder.iterdir()) == names
    assert list((store.folder / "partial").iterdir()) == []
    layers = registry.layers
    registry.keep(store)
    assert layers and registry.layers == layers


def test_record_keeps_lost_attestations(registry: Registry, store: Store, root: str) -> None:
    registry.server.faults += [
        always(status(200, b'{"manifests": []}'), text="/referrers/"),
        always(status(404), text="/manifests/sha256-"),
    ]
    registry.keep(store)
    assert len(store.bundle(root).attestations) == 2


def test_stored_loads_offline(registry: Registry, store: Store, place: str, policy: Path) -> None:
    read = read_policy(policy)
    first = fetch_bundle(place, read, store, None)
    registry.server.close()
    again = fetch_bundle(place, read, store.folder, None)
    assert first.digests() == again.digests() == open_streamed(LAYERS).digests()
    tag = place.partition("@")[0] + ":1.0.0"
    refused(fetch_bundle, tag, read, store, None, kind=RegistryError)


def test_missing_blobs_are_fetched(store: Store, root: str, place: str, policy: Path) -> None:
    for digest in store.bundle(root).blobs:
        store.files.path(digest).unlink()
        found = fetch_bundle(place, read_policy(policy), store, None)
        assert found.digests() == open_streamed(LAYERS).digests(), digest


def test_changed_blob_is_never_used(store: Store, root: str, place: str, policy: Path) -> None:
    for digest in {*store.bundle(root).blobs} - documents(store, root):
        path = store.files.path(digest)
        before = with_its_last_bit_turned(path)
        for use in (aotc_runtime.load, aotc_runtime.verify):
            told = refused(use, place, trust=policy, store=store.folder, kind=IntegrityError)
            assert told.code == "AOTC-E201"
        path.write_bytes(before)


def test_hashed_bytes_are_loaded(store: Store, root: str, place: str, policy: Path) -> None:
    verified = aotc_runtime.verify(place, trust=policy, store=store.folder)
    assert verified.root_digest == root
    for digest, size in store.bundle(root).blobs.items():
        if size > 2:
            path = store.files.path(digest)
            path.chmod(0o644)
            with path.open("r+b") as file:
                file.write(b"other")
    assert refused(verified.load, kind=IntegrityError).code == "AOTC-E206"


def test_what_nobody_trusts_is_not_fetched(store: Store, place: str, policy: Path) -> None:
    text = policy_text("layers", [LocalSigner.ephemeral().public_pem()])
    policy.write_text(text, "utf-8")
    refused(fetch_bundle, place, read_policy(policy), store, None, kind=TrustError)
    assert store.bundle(place.partition("@")[2]) is None


def test_policy_needs_digests(registry: Registry, store: Store, place: str, policy: Path) -> None:
    text = policy.read_text("utf-8").replace("name =", 'references = "digest"\nname =', 1)
    policy.write_text(text, "utf-8")
    read, before = read_policy(policy), len(registry.server.asked)
    tag = place.partition("@")[0] + ":1.0.0"
    assert refused(fetch_bundle, tag, read, store, None, kind=TrustError).code == "AOTC-E326"
    assert len(registry.server.asked) == before
    fetch_bundle(place, read, store, None)


def sizes(*bundles: StoredBundle) -> int:
    blobs: dict[str, int] = {}
    for each in bundles:
        blobs |= each.blobs
    return sum(blobs.values())


def test_what_was_used_longest_ago_goes_first(registry: Registry, store: Store) -> None:
    places = [
        registry.push(GOLDEN / f"{name}.aotb", f"models/{name}").place
        for name in ("layers", "sizes", "trees")
    ]
    for number, place in enumerate(places):
        registry.keep(store, f"{place.repository}:1.0.0")
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
        requires_whole(store, root)


def test_a_store_stays_within_its_limit(registry: Registry, tmp_path: Path) -> None:
    first = registry.push().place.digest
    second = registry.push(DIGITS, "models/other").place.digest
    size = sum(len(open_streamed(DIGITS).blob(d) or b"") for d in open_streamed(DIGITS).digests())
    store = Store(tmp_path / "store", size + 100)
    registry.keep(store)
    registry.keep(store, "models/other:1.0.0")
    assert [b.root.digest for b in store.bundles()] == [second]
    assert store.size_bytes() <= size + 100
    assert store.bundle(first) is None
    small = Store(tmp_path / "small", size - 1)
    assert refused(registry.keep, small, "models/other:1.0.0").code == "AOTC-E561"


def test_nothing_is_removed_while_somebody_adds(store: Store, root: str) -> None:
    with store.files.keep_blobs():
        assert store.prune(0, patience=0.1) is None
    requires_whole(store, root)
    held = store.source(root, "it")
    assert store.prune(0) is not None
    assert store.bundles() == [] and store.size_bytes() == 0
    assert held is not None, "what is loaded stays when the store forgets it"
    assert read_unverified(held)[0].root_digest == root


def test_damaged_blob_is_fetched_again(registry: Registry, store: Store, root: str) -> None:
    bad = max(store.bundle(root).blobs)
    path = store.files.path(bad)
    data = with_its_last_bit_turned(path)
    assert [digest for digest, is_whole in store.verify() if not is_whole] == [bad]
    assert not path.exists()
    registry.keep(store)
    assert path.read_bytes() == data
    assert all(is_whole for _, is_whole in store.verify())


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that this process may read and not write, for as long as this lasts."""
    places, user = [folder, *folder.rglob("*")], os.geteuid()
    for each in places:
        each.chmod(0o555 if each.is_dir() else 0o444)
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        for each in places:
            each.chmod(0o755 if each.is_dir() else 0o644)


NOBODY = 65534


def test_read_only_store_gives(registry: Registry, place: str, policy: Path) -> None:
    read, other = read_policy(policy), registry.push(DIGITS, "models/other").place
    with tempfile.TemporaryDirectory() as name:
        store = Store(name)
        fetch_bundle(place, read, store, None)
        with read_only(Path(name)):
            assert (
                fetch_bundle(place, read, store, None).digests() == open_streamed(LAYERS).digests()
            )
            told = refused(registry.keep, store, f"{other.repository}:1.0.0", kind=ResourceError)
            assert told.code == "AOTC-E560"
            refused(store.prune, 0, kind=ResourceError)
        requires_whole(store, place.partition("@")[2])


SCRIPT = """
import sys
from pathlib import Path
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.oci_references import parse
from aotc_serve.store import Store, pull
with Repository(parse(sys.argv[1])) as there:
    print(pull(there, Store(Path(sys.argv[2]))).root.digest)
"""


def pulling(place: object, store: Store) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SCRIPT, str(place), str(store.folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def test_several_processes_fetch_each_blob_once(registry: Registry, store: Store) -> None:
    place = registry.push(DIGITS).place
    for each in [pulling(place, store) for _ in range(3)]:
        out, _ = each.communicate(timeout=100)
        assert (each.returncode, out.decode().strip()) == (0, place.digest)
    layers = registry.layers
    assert layers and len(layers) == len(set(layers))
    requires_whole(store, place.digest)


def test_killed_process_leaves_nothing_wrong(registry: Registry, store: Store) -> None:
    server, place = registry.server, registry.push(DIGITS).place
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

    server.faults.append(always(hang, text=large))
    child = pulling(place, store)
    partial = store.folder / "partial" / large[7:]
    until(lambda: partial.exists() and partial.stat().st_size, "half of it is there", child)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    half = partial.stat().st_size
    server.faults.clear()
    assert 0 < half < sizes_[large]
    requires_whole(store, registry.keep(store))
    ranges = [a.headers.get("range") for a in server.asked if a.path.endswith(large)]
    assert ranges[-1] == f"bytes={half}-"


def test_only_what_was_hashed_gets_the_name_of_a_blob(store: Store) -> None:
    with pytest.raises(IntegrityError) as caught, store.files.receiving(sha256(b"a"), 1) as sink:
        assert sink is not None
        sink.write(b"b")
    assert caught.value.code == "AOTC-E201"
    assert store.size_bytes() == 0


def test_a_store_of_nothing_has_nothing(store: Store) -> None:
    assert (store.bundles(), store.size_bytes(), list(store.verify())) == ([], 0, [])
    assert store.source(sha256(b""), "it") is None
    assert not store.folder.exists() and store_at(store) is store


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"schemaVersion": 2, "manifests": []}'])
def test_a_record_that_is_none_is_no_bundle(text: bytes, store: Store, root: str) -> None:
    (store.folder / "bundles" / f"{root[7:]}.json").write_bytes(text)
    assert store.bundles() == []


def test_where_the_default_store_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_folder({"AOTC_STORE": "/s"}) == Path("/s")
    assert default_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/aotc-store")
    assert default_folder({"HOME": "/h"}) == Path("/h/.cache/aotc-store")
    nobody_at_home(monkeypatch)
    told = refused(default_folder, {})
    assert told.code == "AOTC-E560" and "AOTC_STORE" in told.hint


def test_api_alone_gives_attestations(registry: Registry, store: Store, place: str) -> None:
    registry.server.faults.append(always(status(500), text="/tags/"))
    root = registry.keep(store)
    expected = len(read_root(open_streamed(LAYERS)).attestations)
    assert len(store.bundle(root).attestations) == expected
    assert oci_layout.INDEX_FILE in store.source(root, "it").members
    refused(registry.keep, store, f"{REPO}:none")


def test_a_document_that_is_another_is_not_there(store: Store) -> None:
    data = b"root"
    entry = Entry(mediaType=oci_layout.INDEX_TYPE, digest=sha256(data), size=len(data))
    store.files.put(entry.digest, data)
    assert store.data(entry, len(data)) == data
    assert store.data(entry, len(data) - 1) is None
    overwritten(store.files.path(entry.digest), b"rood")
    assert store.data(entry, len(data)) is None


@pytest.mark.parametrize("lost", ["image", "config"])
def test_documents_are_there_all_or_none(lost: str, store: Store, root: str) -> None:
    (found,) = store.bundles()
    documents = store.documents(found.root)
    assert documents is not None and all(image and config for image, config in documents)
    index = store.document(found.root, RootIndex, 2**20)
    assert index is not None
    digests = {"image": index.manifests[0].digest, "config": documents[0][0].config.digest}
    store.files.path(digests[lost]).unlink()
    assert store.documents(found.root) is None


def test_present_blobs_are_not_received_again(store: Store) -> None:
    store.files.put(sha256(b"root"), b"root")
    with store.files.receiving(sha256(b"root"), 4) as sink:
        assert sink is None
    partial = store.folder / "partial"
    assert not list(partial.iterdir())
    partial.rmdir()
    partial.touch()
    store.files.put(sha256(b"root"), b"root")


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


def _no_temporary_files(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(tempfile, "tempdir", str(folder))
        with temporary():
            pytest.fail("there is no such folder")


@pytest.mark.parametrize(
    "use",
    [
        _no_folder,
        _not_readable,
        _not_writable,
        _record_in_the_way,
        _blob_in_the_way,
        _no_temporary_files,
    ],
)
def test_a_store_that_cannot_be_used_is_told(use: Callable[[Path], None], tmp_path: Path) -> None:
    assert refused(use, tmp_path / "store", kind=ResourceError).code == "AOTC-E560"


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


def test_who_can_only_read_a_store_cannot_lock_it(store: Store) -> None:
    store.files.make()
    for _ in range(2):
        with store.files.keep_blobs():
            assert (store.folder / "lock").stat().st_mode & 0o077 == 0
        (store.folder / "lock").chmod(0o644)  # as it was made before


def test_a_lock_that_is_held_for_ever_is_waited_for_no_longer_than_stated(
    store: Store, place: str, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened it while its mode allowed that may hold it still."""
    monkeypatch.setattr("aotc_serve.store.blob_files.LOCK_SECONDS", 0.1)
    store.files.make()
    held = os.open(store.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        found = fetch_bundle(place, read_policy(policy), store, None)
        assert found.digests() and time.monotonic() - began < 5
        assert store.prune(0, patience=0.1) is None
    finally:
        os.close(held)
