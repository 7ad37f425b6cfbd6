"""Entries of a cache lie in object stores: moto for S3, gcp-storage-emulator for Google Cloud
Storage, Azurite for Azure, each a server of its own on this host.

`make test-stores` installs them.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.remote_cache.bounded_calls import OutageError, Pace
from aotc.commands.remote_cache.fsspec_blobs import FsspecBlobs
from aotc.commands.remote_cache.remote_cache_service import blobs_at, share
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.digest import sha256
from aotc_runtime.verification.public_keys import load_public_key

STORES = Path(os.environ.get("AOTC_STORES", ""))
AZURITE = STORES / "azurite" / "node_modules" / ".bin" / "azurite-blob"

pytestmark = [
    pytest.mark.stores,
    pytest.mark.skipif("AOTC_STORES" not in os.environ, reason="make test-stores"),
]

AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Of the account that every Azurite has; its documentation names it."""

NAME, OTHER = "ab" * 32, "cd" * 32
KEY = sha256(b"key")
OURS = LocalSigner.ephemeral()
TRUSTED = {OURS.key_id: load_public_key(OURS.public_pem(), "", "")}


def commands(port: int, folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """By scheme, a server and what tells its clients where it is."""
    place = f"http://127.0.0.1:{port}"
    host, number = ["127.0.0.1", str(port)]
    emulator = f"{Path(sys.executable).parent}/gcp-storage-emulator"
    return {
        "s3": (
            [f"{Path(sys.executable).parent}/moto_server", "-H", host, "-p", number],
            {
                "AWS_ENDPOINT_URL": place,
                "AWS_ACCESS_KEY_ID": "me",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
        ),
        "gs": (
            [emulator, "start", f"--host={host}", f"--port={number}", "--in-memory"],
            {"STORAGE_EMULATOR_HOST": place},
        ),
        "az": (
            [
                *(str(AZURITE), "--blobHost", host, "--blobPort", number, "--silent"),
                *("--location", str(folder), "--skipApiVersionCheck", "--disableTelemetry"),
            ],
            {
                "AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=http;"
                f"AccountName=devstoreaccount1;AccountKey={AZURE_KEY};"
                f"BlobEndpoint={place}/devstoreaccount1;"
            },
        ),
    }


@pytest.fixture(scope="module", params=["s3", "gs", "az"])
def scheme(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A store with a bucket `cache`, which the libraries find by their own variables."""
    import fsspec

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command, variables = commands(port, tmp_path_factory.mktemp("store"))[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {Path(command[0]).name} here; it needs npm")
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while process.poll() is None:
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            fsspec.filesystem(request.param).mkdir("cache")
            yield request.param
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("size", [0, 1, 300_000, 12_000_000])
def test_entries_are_written_and_read(scheme: str, size: int) -> None:
    blobs = blobs_at(f"{scheme}://cache/team/{size}")
    assert isinstance(blobs, FsspecBlobs)
    data = os.urandom(size)
    assert blobs.read(NAME, size, Pace()) is None
    blobs.write(NAME, data, Pace())
    assert blobs.read(NAME, size, Pace()) == data
    blobs.write(NAME, b"newer", Pace())
    blobs.write(OTHER, b"other", Pace())
    assert blobs.read(NAME, 10, Pace()) == b"newer"
    assert blobs.read(OTHER, 10, Pace()) == b"other"
    with pytest.raises(OutageError, match="more than 4 bytes"):
        blobs.read(NAME, 4, Pace())


def test_a_sealed_entry_is_given_to_another_host(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}://cache/shared"
    ours = share(LocalStore(tmp_path / "a", 10_000), url, OURS, TRUSTED)
    assert ours.get(KEY) is None
    ours.put(KEY, b"data")
    theirs = share(LocalStore(tmp_path / "b", 10_000), url, None, TRUSTED)
    assert theirs.get(KEY) == b"data"
    assert ours.notes() == theirs.notes() == ()


def test_what_libraries_log_is_not_printed(scheme: str) -> None:
    # In a process of its own: under pytest everything logged has a handler.
    program = f"""
from aotc.commands.remote_cache.bounded_calls import Pace
from aotc.commands.remote_cache.remote_cache_service import blobs_at
blobs = blobs_at("{scheme}://cache/quiet")
assert blobs.read("{NAME}", 9, Pace()) is None
blobs.write("{NAME}", b"data", Pace())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_missing_bucket_is_told_in_one_line(scheme: str, tmp_path: Path) -> None:
    store = share(LocalStore(tmp_path, 10_000), f"{scheme}://missing/x", OURS, TRUSTED)
    assert store.get(KEY) is None
    store.put(KEY, b"data")
    (note,) = store.notes()
    assert f"{scheme}://missing/x could not be used" in note and len(note.splitlines()) == 1
    assert "RequestId" not in note
