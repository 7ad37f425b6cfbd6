"""`aotc merge`: joins bundles of one program, built for different targets, into one bundle."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from aotc.base.errors import finding, raise_if
from aotc.base.stages import Attestation, Bundle
from aotc.bundle.read.bundle_facts import program_texts
from aotc.bundle.read.opened_bundle import Opened, open_valid
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import Ingredient, merging
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.bundle_writer import (
    Assembled,
    Blob,
    Form,
    assemble_root,
    pack,
    require_place,
)
from aotc.bundle.write.hashed_weights import hash_rest, sizes_of, unmodified
from aotc.report.report_text import copy_lines, copy_report
from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import BundleFormatError, Finding
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import Descriptor, ImageDescriptor, ImageManifest, RootIndex
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.formats.slsa_provenance import SIGN_TYPE, Provenance
from aotc_runtime.schema.bundle_manifest import BundleManifest, Tolerance
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.serving.readiness import compare
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress, open_streamed
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.root_signatures import AcceptedProvenance

type Array = np.ndarray[Any, Any]

OUTPUTS = "outputs/"


@dataclass(frozen=True, slots=True)
class TargetPart:
    """One target of an existing bundle; `bundle` is its path, for messages.

    `reference` is the image manifest's in the root index; `blobs` by digest include both manifests.
    """

    bundle: str
    reference: ImageDescriptor
    manifest: BundleManifest
    image: ImageManifest
    blobs: Mapping[str, Blob]


def target_parts_of(source: BlobSource, contents: Contents) -> Iterator[TargetPart]:
    """Yield the targets that a bundle holds, in the order of its root index.

    source: what the contents were read from, every digest checked but perhaps those of weights:
    what is written of them is to be hashed. Raises IntegrityError (AOTC-E201).
    """
    data = unmodified(source, contents.root_digest)
    root = canonical_json.decode(data, RootIndex, where=f"{source.name} root index")
    names = {_document(image).digest: name for name, image in contents.targets.items()}
    for reference in root.manifests:
        if reference.digest in names:
            name = names[reference.digest]
            image, manifest = contents.targets[name], contents.manifests[name]
            config = Blob(canonical_json.encode(manifest), oci_layout.CONFIG_TYPE)
            blobs = {
                reference.digest: _document(image),
                image.config.digest: config,
                **{d.digest: _layer(d, source, contents) for d in image.layers},
            }
            yield TargetPart(source.name, reference, manifest, image, blobs)


def _layer(layer: Descriptor, source: BlobSource, contents: Contents) -> Blob:
    data = contents.blobs.get(layer.digest) or source.blob(layer.digest) or b""
    return Blob(data, layer.mediaType, known=layer.digest)


def _document(image: ImageManifest) -> Blob:
    # Read strictly as canonical JSON, so that this gives the bytes that were read.
    return Blob(canonical_json.encode(image), oci_layout.MANIFEST_TYPE)


def check_fixtures(parts: Sequence[TargetPart]) -> Iterator[Finding]:
    """Yield AOTC-E050 for each fixture that differs from the same one of a bundle before it.

    Raises:
        BundleFormatError: AOTC-E131 to E133 for one that is no safetensors file.
    """
    first: dict[str, tuple[TargetPart, str]] = {}
    seen: set[tuple[str, str]] = set()
    for part in parts:
        for name, entry_point in sorted(part.manifest.entry_points.items()):
            for profile in entry_point.profiles:
                place, digest = label(name, profile.sizes), profile.fixture.digest
                other, before = first.setdefault(place, (part, digest))
                if (place, digest) in seen or before == digest:
                    continue
                seen.add((place, digest))
                expected, actual = _arrays(other, before, place), _arrays(part, digest, place)
                if found := _difference(expected, actual, entry_point.tolerance):
                    where, shown = f"{part.bundle} fixture {place}", f"{digest}: {found}"
                    cause = "fixtures-of-the-bundles-differ"
                    wanted = f"{before}, as in {other.bundle}"
                    yield finding("AOTC-E050", where, shown, cause=cause, expected=wanted)


def _difference(one: dict[str, Array], other: dict[str, Array], tolerance: Tolerance) -> str:
    """Return the differences beyond the tolerance; empty if there are none."""
    if one.keys() != other.keys():
        return f"only one of them has {', '.join(sorted(one.keys() ^ other.keys()))}"
    for name, expected in one.items():
        actual = other[name]
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            shown = [f"{a.dtype.name}{list(a.shape)}" for a in (actual, expected)]
            return f"{name} is {shown[0]} instead of {shown[1]}"
        is_output = name.startswith(OUTPUTS)
        rtol, atol = (float(tolerance.rtol), float(tolerance.atol)) if is_output else (0.0, 0.0)
        difference = compare(actual, expected, rtol, atol)
        if not difference.within:
            return f"{name} differs by up to {difference.max_abs:.3g}, {difference.ulp_max} ulp"
    return ""


def _arrays(part: TargetPart, digest: str, place: str) -> dict[str, Array]:
    where = f"{part.bundle} fixture {place}"
    views = tensor_views(memoryview(part.blobs[digest].data), where)
    return {name: array for name, (array, _) in views.items()}


def check_same_source(parts: Sequence[TargetPart]) -> Iterator[Finding]:
    """Yield AOTC-E050 for everything in which a bundle differs from those before it.

    Fixtures are compared apart (`fixtures_match`): what plain JAX computed differs in the last bits
    between machines.
    """
    first: dict[str, tuple[str, str]] = {}
    told: set[tuple[str, str]] = set()
    for part in parts:
        for what, value in program_texts(part.manifest):
            expected, bundle = first.setdefault(what, (value, part.bundle))
            if value != expected and (part.bundle, what) not in told:
                told.add((part.bundle, what))
                where = f"{part.bundle} {what}"
                yield finding("AOTC-E050", where, value, expected=f"{expected}, as in {bundle}")


def merge(parts: Sequence[TargetPart]) -> Assembled:
    """Join targets of the same program.

    The result depends on the targets alone, not on their order or on how they were distributed
    over bundles. Raises UsageError: AOTC-E050 bundles of different programs, every difference at
    once; E051 two different targets of one name.
    """
    raise_if([*check_same_source(parts), *check_fixtures(parts)])
    raise_if(_check_targets(parts))
    chosen = {part.manifest.target.name: part for part in reversed(parts)}
    ordered = [chosen[name] for name in sorted(chosen)]
    return assemble_root(
        [part.reference for part in ordered],
        {digest: blob for part in ordered for digest, blob in part.blobs.items()},
        {part.manifest.target.name: part.manifest for part in ordered},
    )


def _check_targets(parts: Iterable[TargetPart]) -> Iterator[Finding]:
    first: dict[str, TargetPart] = {}
    for part in parts:
        name = part.manifest.target.name
        other = first.setdefault(name, part)
        if other.reference.digest != part.reference.digest:
            found = f"{part.reference.digest}, {_executables(part, other)}"
            where, digest, there = f"{part.bundle} {name}", other.reference.digest, other.bundle
            yield finding("AOTC-E051", where, found, target=name, digest=digest, bundle=there)


def _executables(part: TargetPart, other: TargetPart) -> str:
    """Return the executables in which two targets differ."""
    one, two = (
        {
            (name, index): profile.executable.digest
            for name, entry_point in p.manifest.entry_points.items()
            for index, profile in enumerate(entry_point.profiles)
        }
        for p in (part, other)
    )
    differ = sum(one.get(key) != two.get(key) for key in one.keys() | two.keys())
    return f"of whose {len(one)} executables {differ} differ"


@dataclass(frozen=True, slots=True)
class MergedBundle:
    """The written bundle. inputs: in the order they were given."""

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
    told: OnProgress = ignore_progress,
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
        source = open_streamed(path, told)
        read = open_valid(source, policy, now.timestamp(), sizes_of(source))
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
    written = pack(output, form, merged, envelopes, sources=every, on_progress=told)
    return MergedBundle(written, tuple(inputs), attestation)


def _ingredient(read: Opened) -> Ingredient:
    return Ingredient(
        name=f"{read.name}-{read.version}",
        root_digest=read.root_digest,
        targets=tuple(sorted(read.contents.manifests)),
        signers=read.signers,
        finished=_build_end(read.provenance),
    )


def _build_end(provenance: Sequence[AcceptedProvenance]) -> datetime | None:
    """Return the earliest time at which the build ended, as accepted provenance says.

    None if a provenance statement names no time.
    """
    times = []
    for each in provenance:
        try:
            account = decode_foreign(each.predicate, Provenance, where=each.where)
        except BundleFormatError:
            # Not SLSA provenance, so it states no time. Only a policy that requires it refuses it.
            return None
        if account.buildDefinition.buildType != SIGN_TYPE:
            times.append(account.runDetails.metadata.finishedOn)
    stated = [time for time in times if time is not None]
    return min(stated) if stated and len(stated) == len(times) else None


def merge_report(merged: MergedBundle) -> dict[str, Any]:
    """Return the report: output file, signers, inputs, and notes for the user."""
    return {
        **copy_report(merged.bundle),
        "signed_by": merged.attestation.key_id if merged.attestation else None,
        "inputs": [
            {
                "name": found.name,
                "root_digest": found.root_digest,
                "targets": list(found.targets),
                "signers": list(found.signers),
            }
            for found in merged.inputs
        ],
        "notes": list(_notes(merged.bundle)),
    }


def _notes(bundle: Bundle) -> Iterator[str]:
    accepted = {name: m.accepts_jaxlib for name, m in sorted(bundle.manifests.items())}
    if len(set(accepted.values())) > 1:
        listed = ", ".join(f"{name} {' or '.join(found)}" for name, found in accepted.items())
        yield f"no jaxlib runs all targets alike: {listed}"


def merge_lines(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines = copy_lines(report, f"signed  {(report['signed_by'] or 'no')[:16]}")
    for found in report["inputs"]:
        signers = ", ".join(signer[:16] for signer in found["signers"])
        by = f"signed by {signers}" if signers else "with unverified signatures"
        lines.append(f"from    {found['root_digest']}, {by}")
    return lines
