"""`verify`, and `load` afterwards, perhaps in other processes: hashed once, loaded many times."""

from __future__ import annotations

import os
import time

from aotc_runtime.base.errors import IntegrityError, finding
from aotc_runtime.loader import bundle_sources
from aotc_runtime.loader.bundle_loader import (
    Folder,
    Laps,
    Trust,
    load_vouched,
    policy_of,
    require_numbers,
)
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.system.held_maps import Change, HeldFiles, map_sealed
from aotc_runtime.verification.verify_bundle import Vouched, vouch


class Verified:
    """A bundle that a policy accepts, every byte of which was hashed. It stays mapped, also in
    processes that are forked, which share its memory; it cannot be sent to others.
    """

    def __init__(self, vouched: Vouched, held: HeldFiles | None) -> None:
        self._vouched, self._held = vouched, held

    @property
    def root_digest(self) -> str:
        """What was signed."""
        return self._vouched.signed.framed.root_digest

    @property
    def signers(self) -> tuple[str, ...]:
        """Ids of the trusted keys that signed."""
        return self._vouched.signed.signers

    def load(
        self,
        *,
        target: str | None = None,
        threads: int | None = None,
        devices: int | None = None,
        memory_limit: int | None = None,
    ) -> LoadedBundle:
        """Load the bundle that was verified, without hashing it again; it is ready when this
        returns. The host is judged now, everything else was when it was verified.

        The parameters are those of `aotc_runtime.load`, and so is what it raises; besides
        IntegrityError (AOTC-E206) if somebody has written into a file of the bundle since.
        """
        laps = Laps()
        require_numbers(threads, devices, memory_limit)
        self._require_unchanged()
        vouched = self._vouched
        loaded = load_vouched(vouched, target, threads, devices, memory_limit, laps)
        self._require_unchanged()
        return loaded

    def _require_unchanged(self) -> None:
        """Raises IntegrityError (AOTC-E206). Hashes the bundle again, and raises what that raises,
        if nobody can say whether it was written into.
        """
        framed = self._vouched.signed.framed
        if self._held is None or (change := self._held.change()) is Change.NONE:
            return
        if change is Change.WRITTEN:
            found = "another size or modification time"
            raise IntegrityError(finding("AOTC-E206", framed.source.name, found))
        with vouch(framed.source, framed.policy, self._vouched.signed.now) as vouched:
            vouched.finish()
        self._held.accept()


def verify(
    path: str | os.PathLike[str],
    *,
    trust: Trust,
    store: Folder | None = None,
    target: str | None = None,
    sealed: bool = False,
) -> Verified:
    """Verify a bundle and keep it mapped, to be loaded later and as often as one likes. No engine
    is started, so that a server can fork afterwards and load in each of its processes.

    path, trust, store: as of `aotc_runtime.load`.  target: the one to fetch from a registry.
    sealed: copy the bundle into memory that nobody can write into, for who does not trust the owner
    of the file; processes that are forked share it.

    A file that replaces the bundle's afterwards (renamed over it) has no effect. Raises TrustError,
    IntegrityError, BundleFormatError; whether this host can run it, `Verified.load` says.
    """
    policy = policy_of(trust)
    held = None if sealed else HeldFiles()
    kind = map_sealed if held is None else held.map
    if isinstance(path, str) and "://" in path:
        source = bundle_sources.fetch(path, policy, store, target, kind=kind)
    else:
        source = open_bundle(path, kind)
    with vouch(source, policy, time.time()) as vouched:
        vouched.finish()
    found = Verified(vouched, held)
    found._require_unchanged()
    return found
