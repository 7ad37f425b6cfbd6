"""The sources of a server's bundles, and the releases that serve."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from aotc_runtime.base.errors import Finding, refusal
from aotc_runtime.formats.oci_layout import LAYOUT_FILE
from aotc_runtime.serving.bundle_slot import BundleSlot
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.verification.bundle_versions import version_key
from aotc_serve.inference.served_models import models_of
from aotc_serve.oci.oci_references import is_reference
from aotc_serve.service.served_loading import Trust


class Standing(StrEnum):
    """The state of a source, as the protocol's index names it."""

    LOADING = "LOADING"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"


class Release:
    """A bundle that serves; `models` has its models by every name that they answer to."""

    def __init__(self, bundle: LoadedBundle) -> None:
        self.bundle = bundle
        self.models = models_of(bundle)


class ServedSource:
    """A bundle's source, and the releases of it that serve.

    `reference` is the user's path or `oci://…`, `trust` a policy or its file. `was` is the state of
    the files at the last load, `refused` the errors of a failed one, and `revoked` the reasons why
    the policy no longer accepts what serves. An operator set `is_unloaded`, and may load it again.
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
    """Return the reference, or the bundles in a folder that is not itself a bundle."""
    folder = Path(reference)
    if is_reference(reference) or not folder.is_dir() or (folder / LAYOUT_FILE).exists():
        return [reference]
    found = sorted(
        str(each)
        for each in folder.iterdir()
        if each.name.endswith(".aotb") or (each / LAYOUT_FILE).exists()
    )
    if not found:
        raise refusal("AOTC-E108", reference, "", cause="no-bundles-in-the-directory")
    return found


def newest_first(place: ServedSource) -> tuple[bool, object]:
    """Return a sort key: the highest version last, invalid ones first."""
    release = place.release
    version = release.bundle.version if release is not None else ""
    key = version_key(version)
    return key is not None, key if key is not None else version


def file_state_of(place: ServedSource) -> tuple[object, ...]:
    """Return the identity, size and time of each bundle and policy file, to notice changes."""
    files = [place.trust] if isinstance(place.trust, Path) else []
    state: list[object] = []
    if not is_reference(place.reference):
        files += [Path(place.reference), Path(place.reference) / "index.json"]
    for file in files:
        try:
            found = file.stat()
        except OSError:
            state.append(None)
        else:
            state.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(state)
