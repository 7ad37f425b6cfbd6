"""The last step of a build: the bundle is written together with its attestations, in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.config.build_manifest import BuildManifest
from aotc.packing.bundle import Form, TargetParts, assemble, pack
from aotc.signing.attest import attest
from aotc.signing.provenance import Materials, provenance
from aotc.signing.signer import Signer
from aotc.stages import Attestation, Bundle, CapturedProgram
from aotc_runtime import canonical
from aotc_runtime.formats.statement import SBOM_TYPE


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
    with_sbom: bool,
) -> Written:
    """Write the bundle with its attestations, so that no unsigned one is ever seen.

    gather: finds out what the bundle was made from; called only for a signer or a bill of
    materials.  with_sbom: make the bill of materials without a signer too.
    Raises UsageError (AOTC-E003, E004, and the signer's).
    """
    assembled = assemble(parts)
    if signer is None and not with_sbom:
        return Written(pack(path, form, assembled), None, None)
    from aotc.signing.sbom import sbom

    root = assembled.root
    built = [part.manifest for part in parts]
    materials = gather()
    bill = sbom(root.digest, program, built, materials.finished)
    data = canonical.encode(bill)
    if signer is None:
        return Written(pack(path, form, assembled), None, data)
    subject = f"{manifest.name}-{manifest.version}"
    predicate = provenance(manifest, program, built, materials)
    attestation = attest(root.digest, subject, predicate, signer)
    inventory = attest(root.digest, subject, bill, signer, SBOM_TYPE)
    bundle = pack(path, form, assembled, [attestation.envelope, inventory.envelope])
    return Written(bundle, attestation, data)
