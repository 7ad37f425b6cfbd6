"""Bundles in OCI registries: the entry point `oci` of the group `aotc_runtime.sources`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import MapOf, MappedBundle
from aotc_runtime.verification.early_choice import AskHost
from aotc_serve.store.reference_loading import default_folder, fetched
from aotc_serve.store.reference_reading import looked_at as look
from aotc_serve.store.stored_bundles import Store

__all__ = ["fetch", "look"]


def fetch(
    place: str,
    policy: TrustPolicy,
    store: str | PathLike[str] | None,
    target: str | None,
    ask: AskHost | None,
    kind: MapOf,
    ca: Path | None,
) -> MappedBundle:
    """`BundleSource.fetch` of references to registries, out of the store and into it. A `Store` has
    certificates of its own.
    """
    kept = store if isinstance(store, Store) else Store(store or default_folder(), ca=ca)
    return fetched(place, policy, kept, target, ask, kind)
