"""`verify`, and `load` afterwards, perhaps in other processes: hashed once, loaded many times."""

import os
import time

from aotc_runtime.base.errors import IntegrityError, finding
from aotc_runtime.loader import bundle_loader, bundle_sources
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.system.held_maps import Change, HeldFiles, map_sealed
from aotc_runtime.verification.verify_bundle import Accepted, accept_bundle


class Verified:
    """A bundle that a policy accepts, with every byte hashed.

    It stays mapped, also in forked processes, which share its memory. It cannot be pickled.
    """

    def __init__(self, accepted: Accepted, held: HeldFiles | None) -> None:
        self._accepted, self._held = accepted, held

    @property
    def root_digest(self) -> str:
        """The signed root digest."""
        return self._accepted.signed.parsed.root_digest

    @property
    def signers(self) -> tuple[str, ...]:
        """Ids of the trusted keys that signed."""
        return self._accepted.signed.signers

    def load(
        self,
        *,
        target: str | None = None,
        threads: int | None = None,
        devices: int | None = None,
        memory_limit: int | None = None,
    ) -> LoadedBundle:
        """Load the verified bundle without hashing it again; it is ready on return.

        The host is evaluated now. Parameters and errors are those of `aotc_runtime.load`, and
        IntegrityError (AOTC-E206) if a process has written into a file of the bundle since.
        """
        laps = bundle_loader.Laps()
        bundle_loader.require_numbers(threads, devices, memory_limit)
        self._require_unchanged()
        accepted = self._accepted
        loaded = bundle_loader.load_accepted(accepted, target, threads, devices, memory_limit, laps)
        self._require_unchanged()
        return loaded

    def _require_unchanged(self) -> None:
        """Raise IntegrityError (AOTC-E206) if the bundle's files were written into.

        If that is unknown, hash the bundle again, with the errors of hashing.
        """
        parsed = self._accepted.signed.parsed
        if self._held is None or (change := self._held.change()) is Change.NONE:
            return
        if change is Change.WRITTEN:
            found = "another size or modification time"
            raise IntegrityError(finding("AOTC-E206", parsed.source.name, found))
        with accept_bundle(parsed.source, parsed.policy, self._accepted.signed.now) as accepted:
            accepted.finish()
        self._held.accept()


def verify(
    path: str | os.PathLike[str],
    *,
    trust: bundle_loader.Trust,
    store: bundle_loader.Folder | None = None,
    target: str | None = None,
    sealed: bool = False,
) -> Verified:
    """Verify a bundle and keep it mapped, to be loaded later, any number of times.

    No engine is started, so a server can fork afterwards and load in each process. A file that
    replaces the bundle's later, by renaming, has no effect. `Verified.load` checks whether this
    host can run it.

    Args:
        path: as for `aotc_runtime.load`.
        trust: as for `aotc_runtime.load`.
        store: as for `aotc_runtime.load`.
        target: the target to fetch from a registry.
        sealed: copy the bundle into memory that no process can write into, if the file's owner is
            not trusted; forked processes share it.

    Raises:
        TrustError, IntegrityError, BundleFormatError: the bundle is rejected.
    """
    policy = bundle_loader.policy_of(trust)
    held = None if sealed else HeldFiles()
    kind = map_sealed if held is None else held.map
    if isinstance(path, str) and "://" in path:
        source = bundle_sources.fetch(path, policy, store, target, kind=kind)
    else:
        source = open_bundle(path, kind)
    with accept_bundle(source, policy, time.time()) as accepted:
        accepted.finish()
    found = Verified(accepted, held)
    found._require_unchanged()
    return found
