"""What a build's targets have in common, so that the parts of one take only its executables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aotc.config.build_manifest import BuildManifest
from aotc.packing.bundle import TargetParts
from aotc.pipeline.assemble import Executables, Parities, target_parts, weight_blobs
from aotc.pipeline.policies import Proofs
from aotc.pipeline.staging import Staging
from aotc.stages import CapturedProgram, Executable
from aotc_runtime.schema.manifest import BuiltWith, ParityNotRun, Target

NOT_YET = ParityNotRun(reason="parity runs after packing")


class Assembler:
    """Makes the parts of one target after another from the same program and weights.

    built_with: by platform.
    """

    def __init__(
        self,
        manifest: BuildManifest,
        program: CapturedProgram,
        built_with: dict[str, BuiltWith],
        staging: Staging,
    ) -> None:
        self._manifest, self._program, self._staging = manifest, program, staging
        self._built_with = built_with
        self._weights = weight_blobs(program, staging)

    def of(
        self,
        target: Target,
        executables: Executables,
        parities: Parities = MappingProxyType({}),
        proofs: Proofs = MappingProxyType({}),
    ) -> TargetParts:
        """The parts of a target with these executables, which may be candidates not yet checked.

        parities: of the executables that have run; the others are noted as not run yet.
        """
        return target_parts(
            self._manifest,
            self._program,
            target,
            executables,
            {key: parities.get(key, NOT_YET) for key in executables},
            self._weights,
            self._built_with[target.platform],
            self._staging,
            proofs,
        )


def own(
    executables: Mapping[tuple[str, str, int], Executable], target: Target
) -> dict[tuple[str, int], Executable]:
    """The executables of one target, by entry point and profile."""
    return {
        (name, index): executable
        for (owner, name, index), executable in executables.items()
        if owner == target.name
    }
