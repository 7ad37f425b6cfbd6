"""Weights from files that earlier builds have hashed and cut into shards: a build after a change of
the code takes their digests and shards from the cache, and does not read the files.

A file is the same as long as its device, number, size, time of modification and time of change are
(`aotc.capture.file_digests.State`); else it is hashed, and with the same digest it still needs no
cutting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from aotc.base.errors import refusal
from aotc.base.msgpack_values import unpacked
from aotc.capture import file_digests
from aotc.pipeline.cache.cache_store import Cache
from aotc.pipeline.scratch_folder import KnownWeights, Scratch
from aotc.pipeline.tasks import code_identity
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError

DIGESTS_KEPT = 4096
"""States of files that are remembered for one manifest, the latest ones."""

OTHER_BYTES = "AOTC-E201"
"""The code of a blob that is not what its digest says."""

CUTS_KEPT = 8
"""Weights sets that are remembered for one manifest, the latest ones."""


@contextmanager
def damage_found(store: Cache | None) -> Iterator[None]:
    """If what was packed or run in the block is not what its digests say, look for it in the cache.

    Raises UsageError (AOTC-E067) in place of what a reader of the bundle raised, if it came from
    there.
    """
    try:
        yield
    except AotcError as error:
        # The process that runs fixtures reads a bundle, too, and says so in a finding of its own.
        damaged = any(OTHER_BYTES in f"{each.code} {each.found}" for each in error.findings)
        if not damaged or store is None or not (count := store.remove_damaged()):
            raise
        raise refusal("AOTC-E067", "the cache", f"{count} others") from error


class KeptWeights:
    """What this host's cache knows of the weights of a manifest. store: None for no cache."""

    def __init__(self, store: Cache | None, manifest: Path) -> None:
        self._store = store
        code = " ".join(code_identity.toolchain_code().values())
        of = f"weights\0{manifest.resolve()}\0{code}"
        self._place = sha256(of.encode(errors="surrogateescape")).removeprefix("sha256:")

    def learn(self) -> None:
        """Have this process know the digests of files that earlier builds have hashed."""
        file_digests.learn(dict(self._read().digests))

    def lay_out(self, scratch: Scratch) -> None:
        """Leave what is known for the capture, and the shards. Raises OSError if there is no
        room.
        """
        if self._store is None:
            return
        known = self._read()
        scratch.write_known(known)
        scratch.kept.mkdir()
        for digest in {digest for cut in known.cuts.values() for digest in cut}:
            self._store.get_file(digest, scratch.kept / digest.removeprefix("sha256:"))

    def keep(self, scratch: Scratch) -> None:
        """Keep what the capture has found out, and the shards."""
        if self._store is None:
            return
        found, before = scratch.read_known(), self._read()
        wanted = {digest for cut in found.cuts.values() for digest in cut}
        for path in scratch.folder.glob("weights.*/*.safetensors"):
            digest = "sha256:" + path.name.split(".")[1]
            if digest in wanted:
                self._store.put_file(digest, path)
        new = {**dict(found.digests), **file_digests.known()}
        digests = {k: v for k, v in before.digests if k not in new} | new
        cuts = {k: v for k, v in before.cuts.items() if k not in found.cuts} | found.cuts
        kept = KnownWeights(
            tuple(digests.items())[-DIGESTS_KEPT:], dict([*cuts.items()][-CUTS_KEPT:])
        )
        self._store.write_record(self._place, msgspec.msgpack.encode(kept))

    def _read(self) -> KnownWeights:
        data = self._store.read_record(self._place) if self._store else None
        try:
            return unpacked(data, KnownWeights) if data else KnownWeights()
        except ValueError:
            return KnownWeights()
