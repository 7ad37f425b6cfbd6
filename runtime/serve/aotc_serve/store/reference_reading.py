"""A bundle for who looks into it and uses nothing: a file, or what a registry has, without weights
unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from aotc_runtime.base.errors import refusal
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import BlobSource, Descriptor
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system import streamed_bundle
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.oci_references import is_reference, parse
from aotc_serve.oci.parallel_transfer import OnBytes, ignore_progress
from aotc_serve.oci.registry_client import Repository
from aotc_serve.store.blob_files import temporary
from aotc_serve.store.reference_loading import require_pinned
from aotc_serve.store.store_pull import ACCEPT_ALL, all_layers, pull, signed_by
from aotc_serve.store.stored_bundles import Store


class Looked(Struct, frozen=True):
    """shown: the path, or the reference with its digest.  asked: as the caller wrote it.  unread:
    sizes by digest of weights that were left in the registry.
    """

    source: BlobSource
    shown: str
    asked: str
    unread: Mapping[str, int]

    @property
    def note(self) -> str:
        """What people have to know of it; empty if there is nothing."""
        if not self.unread:
            return ""
        size = f"{sum(self.unread.values())} bytes in {len(self.unread)} blobs"
        return f"weights not hashed: {size} were left in the registry; --full fetches them"


@contextmanager
def looked_at(
    place: str | Path,
    policy: TrustPolicy | None,
    now: float,
    *,
    full: bool = False,
    ca: Path | None = None,
    on_bytes: OnBytes = ignore_progress,
) -> Iterator[Looked]:
    """A bundle by its path or reference, while this lasts. policy: may demand digests, and has to
    have keys that signed it before more than documents are fetched.  now: seconds since the epoch.
    full: fetch weights too.  ca: as of `HttpClient`.

    Raises BundleFormatError, IntegrityError, RegistryError, ResourceError, TrustError.
    """
    if not isinstance(place, str) or not is_reference(place):
        yield Looked(streamed_bundle.look_into(place), str(place), str(place), {})
        return
    reference = parse(place)
    accept = ACCEPT_ALL
    if policy is not None:
        require_pinned(reference, policy)
        accept = signed_by(policy, now, place)
    with temporary() as folder:
        store = Store(folder)
        with Repository(reference, HttpClient(ca)) as there:
            wanted = all_layers if full else _but_weights
            listing = pull(there, store, (), on_bytes, accept, wanted=wanted)
        layers = listing.layers().items()
        unread = {digest: layer.size for digest, layer in layers if not wanted(layer)}
        shown = str(reference.at(listing.root.digest))
        source = store.source(listing.root.digest, shown, streamed_bundle.PassedMap, unread)
        if source is None:
            raise refusal("AOTC-E560", str(folder), "another process removes what is fetched")
        yield Looked(source, shown, place, unread)


def _but_weights(layer: Descriptor) -> bool:
    return layer.mediaType != oci_layout.WEIGHTS_TYPE
