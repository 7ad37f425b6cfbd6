"""A bundle of a registry for who loads it: out of the store, after what lacks was fetched."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping, Set
from pathlib import Path

from aotc_runtime.base.errors import AotcError, RegistryError, raise_if, refusal
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import MapOf, MappedBundle
from aotc_runtime.verification.early_choice import AskHost, choose
from aotc_runtime.verification.policy_rules import check_reference
from aotc_serve.http_client import HttpClient
from aotc_serve.oci.oci_references import Reference, parse
from aotc_serve.oci.registry_client import PATIENT, Repository, RetryLimits
from aotc_serve.oci.registry_listing import target_name
from aotc_serve.store.store_pull import accept_signed, for_host, pull
from aotc_serve.store.stored_bundles import Store, sizes_of

ATTEMPTS = 4
"""Number of fetches of blobs that another process removes meanwhile."""

UNREACHABLE = "AOTC-E772"

type Place = Store | str | os.PathLike[str] | None


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return $AOTC_STORE, or the user's cache.

    Raises ResourceError (AOTC-E560) for a user without a home, such as a container's numeric user.
    """
    if named := environment.get("AOTC_STORE", ""):
        return Path(named)
    if cache := environment.get("XDG_CACHE_HOME", ""):
        return Path(cache, "aotc-store")
    try:
        home = environment.get("HOME", "") or Path.home()
    except RuntimeError as error:
        cause = "no-default-artifact-store"
        raise refusal("AOTC-E560", "default store", "", cause=cause) from error
    return Path(home, ".cache", "aotc-store")


def store_at(place: Place, ca: Path | None = None, tries: RetryLimits = PATIENT) -> Store:
    """Return the store that a caller passes, or the named or default one with these settings."""
    if isinstance(place, Store):
        return place
    return Store(default_folder() if place is None else place, ca=ca, tries=tries)


def require_pinned(place: Reference, policy: TrustPolicy) -> None:
    """Raises TrustError (AOTC-E326) for a tag where the policy takes digests alone."""
    raise_if(check_reference(bool(place.digest), policy, str(place)))


def fetch_bundle(
    text: str,
    policy: TrustPolicy,
    folder: Place,
    target: str | None,
    ask: AskHost | None = None,
    kind: MapOf = mmap.mmap,
) -> MappedBundle:
    """Return a bundle of a registry, opened from the store, with framing checked only.

    A stored digest needs no registry, nor do its stored targets if the registry is unreachable.
    The policy's keys must have signed what is fetched. `target` None takes the best for the host by
    `ask`, or all without it. `kind` makes the maps. Raises RegistryError, IntegrityError,
    BundleFormatError, TrustError, ResourceError, and with `ask` why no target fits.
    """
    place, store = parse(text), store_at(folder)
    require_pinned(place, policy)
    for _ in range(ATTEMPTS):
        root, needed = place.digest, _needed_blobs(store, place, policy, target, ask)
        if not needed:
            root, needed = _fetch(place, policy, store, target, ask)
        with store.files.keep_blobs():
            source = store.source(root, str(place.at(root)), kind)
            if source is not None and needed and needed <= source.digests():
                return source
    raise refusal("AOTC-E560", str(store.folder), "", cause="artifact-store-is-in-use")


def _needed_blobs(
    store: Store, place: Reference, policy: TrustPolicy, target: str | None, ask: AskHost | None
) -> Set[str]:
    """Return the blobs that a load here takes, if the store has all of them; else none."""
    found = store.bundle(place.digest) if place.digest else None
    if found is None or not found.targets or found.lost:
        return frozenset()
    if not found.absent if target is None else target in found.targets:
        return found.blobs.keys()
    documents = store.documents(found.root) if target is None and ask else None
    source = store.source(place.digest, str(place))
    if documents is None or ask is None or source is None:
        return frozenset()
    try:
        chosen = choose(source, documents, (), policy, time.time(), ask)
    except AotcError:
        # OnProgress by the registry's copy, or by the load.
        return frozenset()
    images = {target_name(data, ""): image for image, data in documents}
    needed = frozenset(sizes_of(images[chosen].config, *images[chosen].layers))
    return needed if needed <= source.digests() else frozenset()


def _fetch(
    place: Reference, policy: TrustPolicy, store: Store, target: str | None, ask: AskHost | None
) -> tuple[str, Set[str]]:
    """Return the root and blobs fetched, or those of a stored digest if that is impossible."""
    now, name = time.time(), str(place)
    accept = accept_signed(policy, now, name)
    if target is None and ask is not None:
        accept = for_host(policy, now, name, ask)
    try:
        with Repository(place, HttpClient(store.ca), tries=store.tries) as repository:
            wanted = () if target is None else (target,)
            found = pull(repository, store, wanted, accept=accept)
            return found.root.digest, found.layers().keys() | {found.root.digest}
    except RegistryError as error:
        there = store.bundle(place.digest) if place.digest else None
        is_there = there and (there.targets if target is None else target in there.targets)
        if error.code != UNREACHABLE or there is None or not is_there:
            raise
        return place.digest, there.blobs.keys()
