"""Checks that executables are sharded as the manifest says. XLA compares sizes in bytes only:
pieces of another axis with the same number of bytes would run and give wrong results.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines.engine_device import Aval, Tiles


def check_tiles(
    tiles: tuple[Sequence[Tiles | None], Sequence[Tiles | None]],
    arguments: Sequence[Aval],
    outputs: Sequence[Aval],
    where: str,
) -> None:
    """Compare every parameter and result of an executable with the bundle's placements.

    tiles: of its parameters and results, as the engine says. Raises BackendError (AOTC-E757).
    """
    parameters, results = tiles
    for what, wanted, found in (("parameter", arguments, parameters), ("result", outputs, results)):
        if len(wanted) != len(found):
            raise _refused(where, f"{len(wanted)} {what}s", f"{len(found)}")
        for index, (aval, has) in enumerate(zip(wanted, found, strict=True)):
            assert aval.placement is not None, "made with the mesh"
            if aval.placement.tiles != has:
                raise _refused(
                    where,
                    f"{what} {index} in tiles {aval.placement.tiles}",
                    "another sharding" if has is None else f"tiles {has}",
                )


def _refused(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E757", where, found, expected=expected)
