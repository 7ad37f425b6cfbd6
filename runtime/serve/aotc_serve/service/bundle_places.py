"""Where the bundles of a server come from, and what serves of each."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from aotc_runtime.base.errors import Finding, refusal
from aotc_runtime.serving.bundle_slot import BundleSlot
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.verification.bundle_versions import version_key
from aotc_serve.inference.served_models import models_of
from aotc_serve.oci.oci_references import is_reference
from aotc_serve.service.served_loading import Trust

LAYOUT = "oci-layout"
"""The file that makes a folder a bundle; other folders hold bundles."""


class Standing(StrEnum):
    """Where a place stands: as the protocol's index tells it."""

    LOADING = "LOADING"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"


class Release:
    """A bundle as it serves. models: by every name that they answer to."""

    def __init__(self, bundle: LoadedBundle) -> None:
        self.bundle = bundle
        self.models = models_of(bundle)


class Place:
    """Where a bundle comes from, and what serves of it.

    reference: as the user has it, a path or `oci://…`.  trust: the policy, or its file.
    was: what the files looked like when they were last loaded.  refused: why the last load failed.
    is_unloaded: by somebody, who may load it again.  revoked: why the policy does not accept what
    serves, or did serve, any longer.
    """

    def __init__(self, reference: str, trust: Trust) -> None:
        self.reference, self.trust = reference, trust
        self.standing = Standing.LOADING
        self.slot: BundleSlot | None = None
        self.releases: dict[LoadedBundle, Release] = {}
        self.was: tuple[object, ...] = ()
        self.refused: tuple[Finding, ...] = ()
        self.revoked: tuple[Finding, ...] = ()
        self.is_unloaded = False
        self.names: set[str] = set()

    @property
    def release(self) -> Release | None:
        """The bundle that serves new requests."""
        slot = self.slot
        return self.releases.get(slot.bundle) if slot is not None else None


def references_in(reference: str) -> list[str]:
    """The bundle itself; of a folder that is none, the bundles in it."""
    folder = Path(reference)
    if is_reference(reference) or not folder.is_dir() or (folder / LAYOUT).exists():
        return [reference]
    found = sorted(
        str(each)
        for each in folder.iterdir()
        if each.name.endswith(".aotb") or (each / LAYOUT).exists()
    )
    if not found:
        raise refusal("AOTC-E108", reference, "", cause="no-bundles-in-the-directory")
    return found


def newest_first(place: Place) -> tuple[bool, object]:
    """Return the sort key of places: the highest version last, invalid ones first."""
    release = place.release
    version = release.bundle.version if release is not None else ""
    key = version_key(version)
    return key is not None, key if key is not None else version


def looks_of(place: Place) -> tuple[object, ...]:
    """Return what changes with the bundle and policy files: identity, sizes and times."""
    files = [place.trust] if isinstance(place.trust, Path) else []
    looks: list[object] = []
    if not is_reference(place.reference):
        files += [Path(place.reference), Path(place.reference) / "index.json"]
    for file in files:
        try:
            found = file.stat()
        except OSError:
            looks.append(None)
        else:
            looks.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(looks)
