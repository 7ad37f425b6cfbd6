"""A cache elsewhere gives and takes sealed entries; whatever happens there, the build goes on."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.remote_cache.bounded_reads import HEAD_BYTES_MAX, Limit, OutageError, read_all
from aotc.commands.remote_cache.cache_seal import Seals
from aotc.commands.remote_cache.http_blobs import HttpBlobs
from aotc.commands.remote_cache.remote_cache import RemoteStore, SharedStore
from aotc.commands.remote_cache.remote_cache_service import blobs_at, redact, share
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.digest import sha256
from aotc_runtime.verification.public_keys import load_public_key
from tests.refusals import error_of

KEY, OTHER = sha256(b"key"), sha256(b"other")
OURS = LocalSigner.ephemeral()
TRUSTED = {OURS.key_id: load_public_key(OURS.public_pem(), "", "")}

Server = Callable[[str], str]
"""A mode of http_storage.py to the URL of a server."""


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


@pytest.fixture
def server(serve: Callable[[str, Path, str], str], storage: Path) -> Server:
    """Servers that all keep their files in `storage`."""
    return lambda mode: f"http://{serve('http_storage.py', storage, mode)}/cache"


def remote(url: str, *, limit: int = 10_000, seconds: float = 20.0) -> RemoteStore:
    return RemoteStore(blobs_at(url, seconds), redact(url), Seals(OURS, TRUSTED), limit)


@pytest.mark.parametrize("kind", ["http", "file"])
def test_entry_reaches_other_host(kind: str, storage: Path, server: Server, tmp_path: Path) -> None:
    url = server("good") if kind == "http" else f"file://{storage}/new/folder"
    ours = share(LocalStore(tmp_path / "a", 10_000), url, OURS, TRUSTED)
    assert ours.get(KEY) is None
    ours.put(KEY, b"data")
    local = LocalStore(tmp_path / "b", 10_000)
    theirs = share(local, url, None, TRUSTED)
    assert theirs.get(KEY) == b"data" == local.get(KEY)
    theirs.put(OTHER, b"made by who cannot seal")
    assert ours.get(OTHER) is None
    assert ours.notes() == theirs.notes() == ()


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "moved"])
def test_wrong_entry_is_told(damage: str, storage: Path, server: Server, tmp_path: Path) -> None:
    store = SharedStore(LocalStore(tmp_path / "a", 10_000), remote(server("good")))
    store.remote.put(KEY, b"some data")
    store.remote.put(OTHER, b"other data")
    path = storage / KEY.removeprefix("sha256:")
    entry = path.read_bytes()
    other = (storage / OTHER.removeprefix("sha256:")).read_bytes()
    path.write_bytes(
        {"changed": entry[:-1] + b"?", "cut": entry[:-1], "empty": b"", "moved": other}[damage]
    )
    assert store.get(KEY) is None
    assert LocalStore.get(store, KEY) is None
    (note,) = store.notes()
    assert "not used: 1" in note and "127.0.0.1" in note


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the requests to servers."""
    names: list[str] = []
    read, write = HttpBlobs.read, HttpBlobs.write

    def noted_read(blobs: HttpBlobs, name: str, limit: Limit) -> bytes | None:
        names.append(name)
        return read(blobs, name, limit)

    def noted_write(blobs: HttpBlobs, name: str, data: bytes) -> None:
        names.append(name)
        write(blobs, name, data)

    monkeypatch.setattr(HttpBlobs, "read", noted_read)
    monkeypatch.setattr(HttpBlobs, "write", noted_write)
    return names


@pytest.mark.parametrize(
    ("mode", "times"),
    [("silent", 1), ("trickle", 1), ("stall", 1), ("gone", 1), ("broken", 2), ("redirect", 2)],
)
def test_a_server_that_does_not_serve_is_given_up_with_one_note(
    mode: str, times: int, server: Server, storage: Path, asked: list[str]
) -> None:
    entry = Seals(OURS, TRUSTED).seal(KEY, b"x" * 9000)
    (storage / KEY.removeprefix("sha256:")).write_bytes(entry)
    store = remote("http://127.0.0.1:1/cache" if mode == "gone" else server(mode), seconds=0.5)
    for _ in range(3):
        assert store.get(KEY) is None
    store.put(OTHER, b"data")
    assert len(asked) == times
    (note,) = store.notes()
    assert "given up" in note and "went on without it" in note
    assert (" s" in note) == (times == 1), "after how long"


def test_a_large_entry_comes_through_a_slow_line(server: Server) -> None:
    data = bytes(2**18)
    remote(server("good"), limit=2**20).put(KEY, data)
    store = remote(server("slow"), limit=2**20, seconds=1.0)
    assert store.get(KEY) == data
    assert store.notes() == ()


def test_undeliverable_entry_is_given_up_once(server: Server, asked: list[str]) -> None:
    store = remote(server("silent"), seconds=0.5)
    store.put(KEY, b"data")
    store.put(OTHER, b"data")
    assert len(asked) == 1


def test_one_bad_answer_is_no_reason_to_give_up(storage: Path, server: Server) -> None:
    store = remote(server("good"), limit=4000)
    remote(server("good")).put(KEY, b"x" * 9000)
    store.put(OTHER, b"data")
    for _ in range(3):
        assert store.get(KEY) is None
        assert store.get(OTHER) == b"data"
    (note,) = store.notes()
    assert "could not be used" in note


def test_when_a_server_is_given_up_nobody_waits_for_it_any_more() -> None:
    waiting = threading.Event()

    class Uneven:
        """Elsewhere: one entry never comes, and for another one there is no connection."""

        def __init__(self) -> None:
            self.closed = threading.Event()

        def read(self, name: str, limit: Limit) -> bytes | None:
            if KEY.endswith(name):
                waiting.set()
                self.closed.wait()
            raise ConnectionResetError

        def write(self, name: str, data: bytes) -> None:
            raise ConnectionResetError

        def close(self) -> None:
            self.closed.set()

    store = RemoteStore(Uneven(), "place", Seals(OURS, TRUSTED), 10_000)
    thread = threading.Thread(target=store.get, args=(KEY,), daemon=True)
    thread.start()
    waiting.wait()
    assert store.get(OTHER) is None
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(store.notes()) == 1


def test_connecting_is_waited_for_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotc.commands.remote_cache.http_blobs.CONNECT_SECONDS", 0.2)
    with socket.socket() as listening, ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        # Its queue is full, and what comes then is dropped, as by a firewall.
        for _ in range(3):
            other = stack.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listening.getsockname())
        store = remote(f"http://127.0.0.1:{listening.getsockname()[1]}/cache", seconds=30)
        assert store.get(KEY) is None
    (note,) = store.notes()
    assert "timed out" in note


def test_more_than_the_limit_is_neither_read_nor_written(storage: Path, server: Server) -> None:
    url = server("good")
    remote(url).put(KEY, b"x" * 9000)
    small = remote(url, limit=4000)
    assert small.get(KEY) is None
    assert "more than" in small.notes()[0]
    small.put(OTHER, b"x" * 4001)
    assert not (storage / OTHER.removeprefix("sha256:")).exists()


def test_entry_at_the_limit_is_written_and_read(storage: Path, server: Server) -> None:
    url, data = server("good"), b"x" * 9000
    remote(url, limit=9000).put(KEY, data)
    sealed = (storage / KEY.removeprefix("sha256:")).stat().st_size
    assert remote(url, limit=sealed - HEAD_BYTES_MAX).get(KEY) == data
    assert remote(url, limit=sealed - HEAD_BYTES_MAX - 1).get(KEY) is None


@pytest.mark.parametrize(
    ("mode", "told"), [("200", ""), ("204", ""), ("300", "HTTP 300"), ("broken", "HTTP 500")]
)
def test_only_success_means_written(mode: str, told: str, server: Server) -> None:
    store = remote(server(mode))
    store.put(KEY, b"data")
    assert bool(store.notes()) is bool(told) and told in "".join(store.notes())


@pytest.mark.parametrize("sealed", [True, False])
def test_surplus_bytes_are_not_read(storage: Path, server: Server, sealed: bool) -> None:
    name = KEY.removeprefix("sha256:")
    (storage / name).write_bytes(Seals(OURS, TRUSTED).seal(KEY, b"x" * 9000) if sealed else b"")
    store = remote(server("endless"), limit=2**40)
    assert store.get(KEY) is None
    assert "damaged or cut short" in store.notes()[0]
    while not (storage / "sent").exists():
        time.sleep(0.01)
    assert int((storage / "sent").read_text()) < 2**26, "what sockets hold, and not all of it"


def test_a_stopped_store_asks_nobody(server: Server) -> None:
    store = remote(server("good"))
    store.put(KEY, b"data")
    store.stop()
    assert store.get(KEY) is None
    assert "stopped" in store.notes()[0]


def test_a_password_is_sent_and_never_shown(storage: Path, server: Server) -> None:
    url = server("good").replace("://", "://me:s%40cret@") + "?token=hidden"
    store = remote(url)
    store.put(KEY, b"data")
    assert (storage / "authorization").read_text() == "Basic bWU6c0BjcmV0"
    gone = remote("http://me:s%40cret@127.0.0.1:1/cache?token=hidden")
    assert gone.get(KEY) is None
    assert "cret" not in str(gone.notes()) and "hidden" not in str(gone.notes())


def test_a_redirect_is_not_followed_with_the_password(storage: Path, server: Server) -> None:
    store = remote(server("redirect").replace("://", "://me:secret@"))
    assert store.get(KEY) is None
    assert "302" in store.notes()[0]
    assert not (storage / "visited").exists()


@pytest.mark.parametrize(
    ("url", "title"),
    [
        *((url, "remote cache URL is invalid") for url in ("folder", "http://", "http://[")),
        *((url, "remote cache URL is invalid") for url in ("http://a:b:c/", "file://a/b", "file:")),
        ("s3://bucket/x", "remote cache scheme is not supported"),
        ("zip:///c::file:///a.zip", "remote cache scheme is not supported"),
    ],
)
def test_a_url_that_nothing_serves_is_refused(url: str, title: str) -> None:
    (found,) = error_of(UsageError, blobs_at, url).findings
    assert (found.code, found.title) == ("AOTC-E062", title)


def test_folder_is_made_for_others_and_keeps_no_part_of_an_entry(tmp_path: Path) -> None:
    store = remote(f"file://{tmp_path}/a%20folder")
    store.put(KEY, b"data")
    (entry,) = (tmp_path / "a folder").iterdir()
    plain = tmp_path / "plain"
    plain.touch()
    assert entry.stat().st_mode == plain.stat().st_mode
    entry.unlink()
    entry.mkdir()
    store.put(KEY, b"data")
    assert [*entry.parent.iterdir()] == [entry] and "IsADirectoryError" in store.notes()[0]


def test_a_remote_cache_whose_entries_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    caught = error_of(UsageError, share, LocalStore(tmp_path, 1000), f"file://{tmp_path}", None, {})
    assert caught.code == "AOTC-E063"


def test_an_entry_may_be_as_large_as_the_limit() -> None:
    assert read_all(BytesIO(b"12345").read, 5) == b"12345"
    error_of(OutageError, read_all, BytesIO(b"123456").read, 5)


class Failing:
    """Elsewhere: whatever is asked for ends in this error."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    def read(self, name: str, limit: Limit) -> bytes | None:
        self.asked += 1
        raise self.error

    def write(self, name: str, data: bytes) -> None:
        self.read(name, 0)

    def close(self) -> None:
        """Do nothing, since nothing runs."""


@pytest.mark.parametrize(
    ("error", "times"),
    [(ConnectionResetError("x"), 1), (TimeoutError("x"), 1), (PermissionError("x"), 2)],
)
def test_only_without_connection_one_failure_is_enough(error: OSError, times: int) -> None:
    failing = Failing(error)
    store = RemoteStore(failing, "place", Seals(OURS, TRUSTED), 10_000)
    for _ in range(3):
        assert store.get(KEY) is None
    assert failing.asked == times
    (note,) = store.notes()
    assert "given up" in note and f"{type(error).__name__} after 0." in note and ": x" in note


def test_the_first_reason_to_end_is_told() -> None:
    store = RemoteStore(Failing(ConnectionResetError()), "place", Seals(OURS, TRUSTED), 10_000)
    store.stop()
    assert store.get(KEY) is None
    (note,) = store.notes()
    assert note.endswith("could not be used: the build was stopped")
