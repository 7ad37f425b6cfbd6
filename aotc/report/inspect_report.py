"""A reviewed bundle as data: what it contains and who claims to have signed it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from aotc.base.evidence import EntryPointEvidence, Evidence
from aotc.base.source_locations import EntryPointLines
from aotc.bundle.read.bundle_review import Claim, Review
from aotc.bundle.read.call_memory import call_bytes, total_bytes
from aotc.report.sizes_report import shapes_report
from aotc_runtime.base.canonical_json import decoder
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE
from aotc_runtime.formats.slsa_provenance import Provenance
from aotc_runtime.schema import bundle_manifest, pytrees
from aotc_runtime.schema.shard_layout import mesh_report
from aotc_runtime.schema.tensor_text import tensor_text


def bundle_report(review: Review) -> dict[str, Any]:
    """Return contents of a bundle, and what its attestations claim."""
    lines = review.lines()
    return {
        "bundle": review.bundle,
        "name": review.name,
        "version": review.version,
        "root_digest": review.root_digest,
        "signatures": [said for claim in review.claims for said in _claims(claim)],
        "signatures_verified": review.verified,
        "targets": {
            name: manifest_report(target.manifest, target.evidence, lines)
            for name, target in review.targets.items()
        },
        "absent_targets": list(review.absent),
        "blobs": review.blobs,
    }


def _claims(claim: Claim) -> list[dict[str, Any]]:
    """Return who says they signed, and with what provenance."""
    definition = _Definition()  # of a predicate that is none, or malformed
    with suppress(msgspec.ValidationError):
        definition = decoder(_Built).decode(claim.stated).buildDefinition
    variables = definition.internalParameters.variables
    said = {
        "predicate_type": claim.predicate_type,
        "build_type": definition.buildType,
        **_build(claim.stated),
        **({"variables": variables} if variables else {}),
        **_certificate(claim),
    }
    first, *others = [{"key_id": key_id, **said} for key_id in claim.key_ids]
    for other in others:
        other.pop("sources", None)  # many, and those of the statement beside the first signature
    return [first, *others]


class _Internal(Struct, frozen=True):
    variables: dict[str, str] = {}


class _Definition(Struct, frozen=True):
    buildType: str | None = None
    internalParameters: _Internal = _Internal()


class _Built(Struct, frozen=True):
    buildDefinition: _Definition = _Definition()


def _build(predicate: bytes) -> dict[str, Any]:
    """Return the facts for a policy's rules on builds; empty if it is not provenance."""
    try:
        found = decoder(Provenance).decode(predicate)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    finished = found.runDetails.metadata.finishedOn
    return {
        "builder": found.runDetails.builder.id,
        "finished_on": finished.isoformat().replace("+00:00", "Z") if finished else None,
        "sources": {
            f"{algorithm}:{digest}": source.name or source.uri
            for source in found.sources()
            for algorithm, digest in source.digest.items()
        },
    }


def _certificate(claim: Claim) -> dict[str, Any]:
    """Return what a certificate claims; empty for any other statement."""
    if claim.predicate_type != CERTIFICATE_TYPE:
        return {}
    try:
        found = decoder(Certificate).decode(claim.stated)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return {
        "target": found.target,
        "package": found.release.package,
        "version": found.release.version,
        "outcome": found.outcome,
        "certified_on": found.certifiedOn.isoformat().replace("+00:00", "Z"),
    }


def manifest_report(
    manifest: bundle_manifest.BundleManifest,
    evidence: Evidence | None = None,
    lines: Mapping[str, EntryPointLines] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return one target's requirements, toolchain, weights and entry points.

    Their evidence is included if it was read. `lines` has source lines by entry point.
    """
    by_entry_point = evidence.entry_points if evidence else {}
    chosen = evidence.chosen if evidence else msgspec.UNSET
    refused = (evidence.refused or ()) if evidence else ()
    return {
        "target": msgspec.to_builtins(manifest.target),
        "engine": bundle_manifest.engine_name(manifest.target),
        "engines": [bundle_manifest.engine_of(each) for each in manifest.platforms],
        **_present_facts(engine_choice=chosen, engines_refused=refused),
        "requires": msgspec.to_builtins(manifest.requires),
        "built_with": msgspec.to_builtins(manifest.built_with),
        "accepts_jaxlib": list(manifest.accepts_jaxlib),
        "dimensions": msgspec.to_builtins(manifest.dimensions),
        "mesh": mesh_report(manifest),
        "weights": {
            name: {
                "origin": weights.origin,
                "tensors": len(weights.tensors),
                "size_bytes": sum(ref.size for ref in weights.blobs),
                "digests": [ref.digest for ref in weights.blobs],
            }
            for name, weights in manifest.weights.items()
        },
        **_present_facts(assets=manifest.assets),
        "entry_points": {
            name: _entry_point(entry_point, by_entry_point.get(name), manifest)
            | ({"lines": msgspec.to_builtins(lines[name])} if name in lines else {})
            for name, entry_point in manifest.entry_points.items()
        },
    }


def _entry_point(
    entry_point: bundle_manifest.EntryPoint,
    evidence: EntryPointEvidence | None,
    manifest: bundle_manifest.BundleManifest,
) -> dict[str, Any]:
    return {
        "function": entry_point.function,
        "parameters": [parameter.name for parameter in entry_point.parameters],
        "donated": [p.name for p in entry_point.parameters if p.donated],
        "bound": entry_point.bound,
        "static": entry_point.static,
        "inputs": {spec.path: tensor_text(spec) for spec in entry_point.inputs},
        "outputs": {spec.path or "result": tensor_text(spec) for spec in entry_point.outputs},
        "structures": structures(entry_point),
        **shapes_report(entry_point),
        "tolerance": msgspec.to_builtins(entry_point.tolerance),
        "numerics": entry_point.numerics or "ieee",
        **_present_facts(evaluations=entry_point.evaluations),
        "lifted": [msgspec.to_builtins(constant) for constant in entry_point.lifted],
        "profiles": [
            {
                "sizes": profile.sizes,
                "engine": bundle_manifest.engine_of(manifest.platform_of(profile)),
                "executable_bytes": profile.executable.size,
                "module_bytes": profile.module.size,
                "memory": {
                    **msgspec.to_builtins(profile.memory),
                    "call_bytes": call_bytes(profile, entry_point.inputs, manifest.mesh),
                    "total_bytes": total_bytes(profile.memory),
                },
                "cost": msgspec.to_builtins(profile.cost),
                "thunks": profile.thunks,
                "custom_call_targets": list(profile.custom_call_targets),
                "parity": msgspec.to_builtins(profile.parity),
                **_present_facts(precision=profile.precision, tuned=profile.tuned),
                **_present_facts(evidence=evidence and evidence.profiles[index]),
            }
            for index, profile in enumerate(entry_point.profiles)
        ],
        **({} if evidence is None else _evidence(evidence)),
    }


def _evidence(evidence: EntryPointEvidence) -> dict[str, Any]:
    coverage = evidence.coverage
    counted = {"lines": coverage.lines, "traced": coverage.traced, "files": coverage.files}
    return _present_facts(
        coverage=counted,
        reference=evidence.reference,
        model=evidence.model,
        precision=evidence.precision,
        allowance=evidence.allowance,
        tried=evidence.tried,
    )


def _present_facts(**facts: Any) -> dict[str, Any]:
    """Return facts that are there, as data: none that is UNSET, None or empty."""
    return {name: msgspec.to_builtins(value) for name, value in facts.items() if value}


def structures(entry_point: bundle_manifest.EntryPoint) -> dict[str, str]:
    """Return the structure of each parameter and of the result, except for single arrays.

    As "State(step=weak int32[], params={'w': float32[2, 3]})", by parameter and "result".
    """
    found = {
        parameter.name: structure_text(parameter.tree, entry_point.inputs)
        for parameter in entry_point.parameters
        if not isinstance(parameter.tree, pytrees.Leaf)
    }
    if not isinstance(entry_point.result, pytrees.Leaf):
        found["result"] = structure_text(entry_point.result, entry_point.outputs)
    return found


def structure_text(tree: pytrees.Tree, specs: Sequence[bundle_manifest.TensorSpec]) -> str:
    """Return a structure with its classes' names, and its leaves' dtypes and shapes."""

    def joined(items: Sequence[pytrees.Tree]) -> str:
        return ", ".join(structure_text(item, specs) for item in items)

    def pair(key: str | int, item: pytrees.Tree) -> str:
        return f"{key!r}: {structure_text(item, specs)}"

    match tree:
        case pytrees.Leaf(index=index):
            spec = specs[index]
            return f"weak {tensor_text(spec)}" if spec.weak_type else tensor_text(spec)
        case pytrees.NoneNode():
            return "None"
        case pytrees.DictNode(items=named):
            return f"{{{', '.join(starmap(pair, sorted(named.items())))}}}"
        case pytrees.IntDictNode(keys=keys, items=items):
            return f"{{{', '.join(map(pair, keys, items))}}}"
        case pytrees.ListNode(items=items):
            return f"[{joined(items)}]"
        case pytrees.TupleNode(items=items):
            return f"({joined(items)}{',' * (len(items) == 1)})"
        case pytrees.NamedTupleNode() | pytrees.RecordNode():
            named_items = zip(tree.fields, tree.items, strict=True)
            fields = (f"{name}={structure_text(item, specs)}" for name, item in named_items)
            return f"{tree.type}({', '.join(fields)})"
