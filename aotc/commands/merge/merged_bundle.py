"""`aotc merge`: joins bundles of one program, built for different targets, into one bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aotc.base.stages import Attestation, Bundle
from aotc.bundle.read.opened_bundle import Opened, opened
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import Ingredient, merging
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.bundle_writer import Form, pack, require_place
from aotc.bundle.write.hashed_weights import hash_rest, sizes_of
from aotc.commands.merge.bundle_parts import TargetPart, target_parts_of
from aotc.commands.merge.merged_targets import merge
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats.in_toto import SIGN_TYPE
from aotc_runtime.formats.oci_layout import BlobSource
from aotc_runtime.formats.slsa_provenance import Provenance
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import Told, look_into, nobody
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.root_signatures import Voucher


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
    told: Told = nobody,
) -> MergedBundle:
    """Join the targets of these bundles in a new one.

    policy: every input must satisfy it at this time, except for its rules on the host and jaxlib;
    None accepts any input, signed or not.  signer: of the result, whose root digest is a new one,
    so that it carries no signature of an input.  told: of bytes that were copied and hashed.
    Raises what verification raises, UsageError: AOTC-E003, E004, E050 different programs, E051
    different targets of one name.
    """
    require_place(output, form)
    inputs: list[Ingredient] = []
    parts: list[TargetPart] = []
    sources: dict[str, tuple[BlobSource, Contents]] = {}
    for path in paths:
        source = look_into(path, told)
        read = opened(source, policy, now.timestamp(), sizes_of(source))
        inputs.append(_ingredient(read))
        sources[source.name] = (source, read.contents)
        parts += target_parts_of(source, read.contents)
    merged = merge(parts)
    for name, (of, contents) in sources.items():
        # Of weights that several inputs hold, one copy is written, and hashed there.
        own = [part.blobs for part in parts if part.bundle == name]
        taken = {
            digest for blobs in own for digest in blobs if merged.blobs[digest] is blobs[digest]
        }
        hash_rest(of, contents, taken)
    attestation = None
    if signer is not None:
        targets = list(merged.manifests)
        first = merged.manifests[targets[0]]
        subject = f"{first.name}-{first.version}"
        attestation = attest(merged.root.digest, subject, merging(inputs, targets), signer)
    envelopes = [attestation.envelope] if attestation else []
    every = [of for of, _ in sources.values()]
    written = pack(output, form, merged, envelopes, sources=every, told=told)
    return MergedBundle(written, tuple(inputs), attestation)


def _ingredient(read: Opened) -> Ingredient:
    return Ingredient(
        name=f"{read.name}-{read.version}",
        root_digest=read.root_digest,
        targets=tuple(sorted(read.contents.manifests)),
        signers=read.signers,
        finished=_finished(read.vouchers),
    )


def _finished(vouchers: Sequence[Voucher]) -> datetime | None:
    """The earliest time at which a voucher says the build ended; None if one of them states
    none.
    """
    times = []
    for voucher in vouchers:
        try:
            account = decode_foreign(voucher.predicate, Provenance, where=voucher.where)
        except BundleFormatError:
            # Not SLSA provenance, so it states no time. Only a policy that requires it refuses it.
            return None
        if account.buildDefinition.buildType != SIGN_TYPE:
            times.append(account.runDetails.metadata.finishedOn)
    stated = [time for time in times if time is not None]
    return min(stated) if stated and len(stated) == len(times) else None
