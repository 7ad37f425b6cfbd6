"""Blobs in a repository of an OCI registry: an entry is a tag, whose manifest has one layer.

It uses the client for bundles (`aotc_serve.oci`), without retries.
"""

import json
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from aotc.commands.remote_cache.bounded_reads import (
    CONNECT_SECONDS,
    SECONDS,
    Limit,
    OutageError,
    read_entry,
    unseen_seconds,
)
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import is_digest, sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.oci_layout import EMPTY_BLOB, EMPTY_TYPE, MANIFEST_TYPE
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.docker_credentials import Credentials, credentials_for
from aotc_serve.oci.oci_references import Reference
from aotc_serve.oci.registry_blobs import push_blob
from aotc_serve.oci.registry_client import ONCE, PULL, Repository

MANIFEST_BYTES_MAX = 2**16
ENTRY = "application/vnd.aotc.cache-entry.v1"


class _Descriptor(Struct, frozen=True):
    digest: str
    size: int


class _Manifest(Struct, frozen=True):
    layers: tuple[_Descriptor, ...]


def layer_of(manifest: bytes) -> str | None:
    """Return the digest of the only layer in an entry's manifest; None for other documents."""
    try:
        (layer,) = canonical_json.decoder(_Manifest).decode(manifest).layers
    except (ValueError, RecursionError):  # MsgspecError is a ValueError
        return None
    return layer.digest if is_digest(layer.digest) else None


class OciBlobs:
    """Blobs in oci://HOST/REPOSITORY.

    `user:password@` is for the registry or its token server, instead of `docker login`'s.
    """

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        parts = urlsplit(url)
        place = Reference(parts.netloc.rpartition("@")[2], parts.path.strip("/"))
        seconds += unseen_seconds()  # of reads too: one client does both
        http = HttpClient(stall_seconds=seconds, connect_seconds=CONNECT_SECONDS)
        self._repository = Repository(place, http, lambda: _credentials(parts, place), ONCE)
        self._repository.commit_seconds = seconds

    def read(self, name: str, limit: Limit) -> bytes | None:
        """Return the bytes under a name, up to the limit; None if there are none.

        A tag of something else counts as empty.
        """
        try:
            manifest = self._repository.manifest(name, MANIFEST_BYTES_MAX)
            if manifest is None:
                return None
            digest = layer_of(manifest.data)
            if not digest:
                return b""
            with self._repository.ask("GET", f"blobs/{digest}", PULL) as response:
                return read_entry(response, limit)
        except AotcError as error:
            raise _outage(error) from error

    def write(self, name: str, data: bytes) -> None:
        """Put bytes under a name, replacing what was there."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": ENTRY,
            "config": _descriptor(EMPTY_TYPE, EMPTY_BLOB),
            "layers": [_descriptor(ENTRY, data)],
        }
        body = json.dumps(manifest, separators=(",", ":")).encode()
        try:
            for blob in (EMPTY_BLOB, data):
                push_blob(self._repository, sha256(blob), memoryview(blob))
            self._repository.put_manifest(name, body, MANIFEST_TYPE)
        except AotcError as error:
            raise _outage(error) from error

    def close(self) -> None:
        """End what runs, and begin nothing."""
        self._repository.close()


def _credentials(parts: SplitResult, place: Reference) -> Credentials:
    if parts.username is None:
        return credentials_for(place.host)
    return Credentials(unquote(parts.username), unquote(parts.password or ""))


def _outage(error: AotcError) -> Exception:
    """Return why nothing could be read or written, as a cache tells it."""
    cause = error.__cause__
    return cause if isinstance(cause, OSError) else OutageError(error.findings[0].found)


def _descriptor(media_type: str, data: bytes) -> dict[str, str | int]:
    return {"mediaType": media_type, "digest": sha256(data), "size": len(data)}
