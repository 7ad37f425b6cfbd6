"""Checks that executables are sharded as the manifest says. XLA compares sizes in bytes only:
pieces of another axis with the same number of bytes would run and give wrong results.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc_runtime.errors import BackendError, Finding
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Aval, Buffer, Executable


def check_tiles(
    executable: Executable,
    arguments: Sequence[Buffer | int],
    inputs: Sequence[Aval],
    outputs: Sequence[Aval],
    where: str,
) -> None:
    """Compare every parameter and result of an executable with the bundle's placements.

    arguments: as a ResidentExecutable's. Raises BackendError (AOTC-E757).
    """
    parameters, results = pjrt.device().tiles(executable)
    expected = [inputs[a] if isinstance(a, int) else pjrt.aval_of(a) for a in arguments]
    for what, wanted, found in (("parameter", expected, parameters), ("result", outputs, results)):
        if len(wanted) != len(found):
            raise _refused(where, f"{len(wanted)} {what}s", f"{len(found)}")
        for index, (aval, tiles) in enumerate(zip(wanted, found, strict=True)):
            assert aval.placement is not None, "made with the mesh"
            if aval.placement.tiles != tiles:
                raise _refused(
                    where,
                    f"{what} {index} cut as the manifest says: {aval.placement.tiles}",
                    "cut in another way" if tiles is None else str(tiles),
                )


def _refused(where: str, expected: str, found: str) -> BackendError:
    hint = "the bundle was put together wrongly: build it again"
    return BackendError(Finding("AOTC-E757", where, expected, found, hint))
