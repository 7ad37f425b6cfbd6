"""Bundles in OCI registries: the entry point `oci` of the group `aotc_runtime.sources`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from aotc_runtime.base.errors import refusal
from aotc_runtime.formats.oci_layout import WEIGHTS_TYPE
from aotc_runtime.loader.bundle_sources import InspectedBundle
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system import streamed_bundle
from aotc_runtime.system.bundle_files import MapOf, MappedBundle
from aotc_runtime.system.read_progress import OnBytes
from aotc_runtime.verification.early_choice import AskHost
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository
from aotc_serve.store.blob_files import temporary
from aotc_serve.store.reference_loading import fetch_bundle, require_pinned, store_at
from aotc_serve.store.store_pull import ACCEPT_ALL, accept_signed, all_layers, pull
from aotc_serve.store.stored_bundles import Store


def fetch(
    place: str,
    policy: TrustPolicy,
    store: str | PathLike[str] | None,
    target: str | None,
    ask: AskHost | None,
    kind: MapOf,
    ca: Path | None,
) -> MappedBundle:
    """Fetch a reference (`BundleSource.fetch`); `ca` does not count for a given `Store`."""
    return fetch_bundle(place, policy, store_at(store, ca), target, ask, kind)


@contextmanager
def inspect(
    place: str,
    policy: TrustPolicy | None,
    now: float,
    *,
    full: bool,
    ca: Path | None,
    on_bytes: OnBytes,
) -> Iterator[InspectedBundle]:
    """Open a bundle in a registry, as `BundleSource.inspect`; weights are fetched with `full`."""
    reference = parse(place)
    accept = ACCEPT_ALL
    if policy is not None:
        require_pinned(reference, policy)
        accept = accept_signed(policy, now, place)
    with temporary() as folder:
        store = Store(folder)
        with Repository(reference, HttpClient(ca)) as there:
            wanted = all_layers if full else lambda layer: layer.mediaType != WEIGHTS_TYPE
            listing = pull(there, store, (), on_bytes, accept, wanted=wanted)
        layers = listing.layers().items()
        unread = {digest: layer.size for digest, layer in layers if not wanted(layer)}
        shown = str(reference.at(listing.root.digest))
        source = store.source(listing.root.digest, shown, streamed_bundle.PassedMap, unread)
        if source is None:
            raise refusal("AOTC-E560", str(folder), "", cause="artifact-store-is-in-use")
        yield InspectedBundle(source, shown, place, unread)
