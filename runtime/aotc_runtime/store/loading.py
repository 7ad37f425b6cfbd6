"""A bundle of a registry for who loads it: out of the store, after what lacks was fetched."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from pathlib import Path

from aotc_runtime.errors import RegistryError, raise_if, refusal
from aotc_runtime.registries.client import Repository
from aotc_runtime.registries.references import Reference, parse
from aotc_runtime.registries.transport import Transport
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.store.bundles import Store
from aotc_runtime.store.pulling import pull, signed_by
from aotc_runtime.system.store import MapOf, MappedBundle
from aotc_runtime.verification.stated_rules import check_reference

ATTEMPTS = 4
"""How often to fetch what another process removes meanwhile."""

UNREACHABLE = "AOTC-E772"

type Place = Store | str | os.PathLike[str] | None


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """$AOTC_STORE, or the user's cache."""
    if named := environment.get("AOTC_STORE", ""):
        return Path(named)
    cache = environment.get("XDG_CACHE_HOME", "")
    return Path(cache or Path(environment.get("HOME", "") or Path.home(), ".cache"), "aotc-store")


def store_at(place: Place) -> Store:
    """The store that a caller passes or names; None for the default one."""
    if isinstance(place, Store):
        return place
    return Store(default_folder() if place is None else place)


def require_pinned(place: Reference, policy: TrustPolicy) -> None:
    """Raises TrustError (AOTC-E326) for a tag where the policy takes digests alone."""
    raise_if(check_reference(bool(place.digest), policy, str(place)))


def fetched(
    text: str, policy: TrustPolicy, folder: Place, target: str | None, kind: MapOf = mmap.mmap
) -> MappedBundle:
    """A bundle of a registry, opened from the store: framing only, nothing in it is believed. What
    a digest names and is there whole needs no registry; nor does what is there of it, where the
    registry cannot be reached.

    policy: keys of it have to have signed what is fetched.  target: None for all.  kind: makes the
    maps. Raises RegistryError, IntegrityError, BundleFormatError, TrustError, ResourceError.
    """
    place, store = parse(text), store_at(folder)
    require_pinned(place, policy)
    for _ in range(ATTEMPTS):
        root = place.digest
        if not root or not _is_there(store, root, target):
            root = _fetch(place, policy, store, target)
        with store.files.kept():
            source = store.source(root, str(place.at(root)), kind)
            if source is not None and _is_there(store, root, target, some=True):
                return source
    raise refusal("AOTC-E560", str(store.folder), "another process removes what is fetched")


def _is_there(store: Store, root: str, target: str | None, *, some: bool = False) -> bool:
    """Whether the store has the target, or without one, all; some: or any."""
    found = store.bundle(root)
    if found is None or not found.targets:
        return False
    is_whole = some or not (found.absent or found.lost)
    return is_whole if target is None else target in found.targets and (some or not found.lost)


def _fetch(place: Reference, policy: TrustPolicy, store: Store, target: str | None) -> str:
    """The root of what was fetched; or of what is there, where the registry cannot be reached."""
    accept = signed_by(policy, time.time(), str(place))
    try:
        with Repository(place, Transport(store.ca)) as repository:
            wanted = () if target is None else (target,)
            return pull(repository, store, wanted, accept=accept).root.digest
    except RegistryError as error:
        is_there = place.digest and _is_there(store, place.digest, target, some=True)
        if error.code != UNREACHABLE or not is_there:
            raise
        return place.digest
