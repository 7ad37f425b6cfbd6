"""The last step of a build: the bundle is written together with its attestations and with what
else was asked for, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from aotc.base.stages import Attestation, Bundle, CapturedProgram
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import Materials, provenance
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.atomic_files import prepared
from aotc.bundle.write.bundle_writer import Form, TargetParts, assemble, pack
from aotc.capture.installed_packages import packages_behind
from aotc.config.build_manifest import BuildManifest
from aotc_runtime.base import canonical_json
from aotc_runtime.formats.in_toto import SBOM_TYPE
from aotc_runtime.system.streamed_bundle import Told, nobody

NO_FILES: Mapping[Path, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Written:
    """attestation: of the provenance, if there was a signer.  sbom: CycloneDX JSON, if somebody
    signs or asked for it.
    """

    bundle: Bundle
    attestation: Attestation | None
    sbom: bytes | None


def write_bundle(
    path: Path,
    form: Form,
    parts: Sequence[TargetParts],
    manifest: BuildManifest,
    program: CapturedProgram,
    signer: Signer | None,
    gather: Callable[[], Materials],
    *,
    sbom_path: Path | None = None,
    beside: Mapping[Path, bytes] = NO_FILES,
    told: Told = nobody,
) -> Written:
    """Write the bundle with its attestations, so that no unsigned one is ever seen, and other
    results of the build with it: all of them or none.

    gather: finds out what the bundle was made from; called only for a signer or a bill of
    materials.  sbom_path: where to write the bill of materials, too.  beside: other files, by path.
    told: of bytes that were copied and hashed.
    Raises UsageError (AOTC-E003, E004, and the signer's).
    """
    assembled = assemble(parts)
    if signer is None and sbom_path is None:
        with prepared(beside) as put_in_place:
            bundle = pack(path, form, assembled, before=put_in_place, on_progress=told)
        return Written(bundle, None, None)
    from aotc.bundle.sign.sbom import sbom

    root = assembled.root
    built = [part.manifest for part in parts]
    packages = {**program.packages, **packages_behind(built)}
    program = replace(program, packages=dict(sorted(packages.items())))
    materials = gather()
    bill = sbom(root.digest, program, built, materials.finished)
    data = canonical_json.encode(bill)
    attestation: Attestation | None = None
    envelopes: list[bytes] = []
    if signer is not None:
        subject = f"{manifest.name}-{manifest.version}"
        predicate = provenance(manifest, program, built, materials)
        attestation = attest(root.digest, subject, predicate, signer)
        inventory = attest(root.digest, subject, bill, signer, SBOM_TYPE)
        envelopes = [attestation.envelope, inventory.envelope]
    files = {**beside, sbom_path: data} if sbom_path else beside
    with prepared(files) as put_in_place:
        bundle = pack(path, form, assembled, envelopes, put_in_place, on_progress=told)
    return Written(bundle, attestation, data)
