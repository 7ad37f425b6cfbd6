"""Bundles of one program, built on different machines, as one: read, believed or not, joined and
signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aotc.bundles.believe import read_believed
from aotc.packing.bundle import Form, pack, require_place
from aotc.packing.merging import merge
from aotc.packing.parts import TargetPart, target_parts_of
from aotc.signing.attest import attest
from aotc.signing.provenance import Ingredient, merging
from aotc.signing.signer import Signer
from aotc.stages import Attestation, Bundle
from aotc_runtime.errors import BundleFormatError
from aotc_runtime.formats.foreign import decode_foreign
from aotc_runtime.formats.provenance import Provenance
from aotc_runtime.formats.statement import SIGN_TYPE
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification import signatures
from aotc_runtime.verification.contents import (
    Contents,
)
from aotc_runtime.verification.signatures import Voucher


@dataclass(frozen=True, slots=True)
class MergedBundle:
    """What was written. inputs: in the order they were given."""

    bundle: Bundle
    inputs: tuple[Ingredient, ...]
    attestation: Attestation | None


def merge_bundles(
    paths: Sequence[Path],
    output: Path,
    form: Form,
    policy: TrustPolicy | None,
    signer: Signer | None,
    now: datetime,
) -> MergedBundle:
    """Join the targets of these bundles in a new one.

    policy: every input has to satisfy it at this time, the rules on the host and its jaxlib left
    out; None takes what is there, signed or not, on the caller's word.  signer: of the result,
    which has a root of its own, so that no signature of an input is one of it.
    Raises what verification raises, UsageError: AOTC-E003, E004, E050 different programs, E051
    different targets of one name.
    """
    require_place(output, form)
    inputs: list[Ingredient] = []
    parts: list[TargetPart] = []
    for path in paths:
        source = open_bundle(path)
        contents, vouchers = read_believed(source, policy, now)
        inputs.append(_ingredient(contents, vouchers))
        parts += target_parts_of(source, contents)
    merged = merge(parts)
    attestation = None
    if signer is not None:
        targets = list(merged.manifests)
        first = merged.manifests[targets[0]]
        subject = f"{first.name}-{first.version}"
        attestation = attest(merged.root.digest, subject, merging(inputs, targets), signer)
    envelopes = [attestation.envelope] if attestation else []
    return MergedBundle(pack(output, form, merged, envelopes), tuple(inputs), attestation)


def _ingredient(contents: Contents, vouchers: Sequence[Voucher]) -> Ingredient:
    first = next(iter(contents.manifests.values()))
    return Ingredient(
        name=f"{first.name}-{first.version}",
        root_digest=contents.root_digest,
        targets=tuple(sorted(contents.manifests)),
        signers=signatures.signers_of(vouchers),
        finished=_finished(vouchers),
    )


def _finished(vouchers: Sequence[Voucher]) -> datetime | None:
    """When the build ended, by the earliest of the accounts that count; None if one states none."""
    times = []
    for voucher in vouchers:
        try:
            account = decode_foreign(voucher.predicate, Provenance, where=voucher.where)
        except BundleFormatError:
            # No SLSA provenance, which only a policy that asks for it refuses: it states no time.
            return None
        if account.buildDefinition.buildType != SIGN_TYPE:
            times.append(account.runDetails.metadata.finishedOn)
    stated = [time for time in times if time is not None]
    return min(stated) if stated and len(stated) == len(times) else None
