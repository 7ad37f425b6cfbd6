"""Weights from files that earlier builds have hashed and cut into shards: a build after a change of
the code takes their digests and shards from the cache, and does not read the files.

A file is the same as long as its device, number, size, time of modification and time of change are
(`aotc.capture.file_digests.State`); else it is hashed, and with the same digest it still needs no
cutting.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from aotc.base.msgpack_values import unpacked
from aotc.capture import file_digests
from aotc.pipeline.cache.cache_store import Cache
from aotc.pipeline.scratch_folder import KnownWeights, Scratch
from aotc.pipeline.tasks import code_identity
from aotc_runtime.base.digest import cores, sha256
from aotc_runtime.base.parallel_calls import map_on_threads

DIGESTS_KEPT = 4096
"""States of files that are remembered for one manifest, the latest ones."""

CUTS_KEPT = 8
"""Weights sets that are remembered for one manifest, the latest ones."""


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
        """Leave what is known for the capture, and the shards that are as they were. Raises OSError
        if there is no room.
        """
        if (store := self._store) is None:
            return
        known = self._read()
        scratch.write_known(known)
        scratch.kept.mkdir()
        map_on_threads(
            lambda digest: store.get_file(digest, scratch.kept / digest.removeprefix("sha256:")),
            sorted({digest for cut in known.cuts.values() for digest in cut}),
            cores(),
        )

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
