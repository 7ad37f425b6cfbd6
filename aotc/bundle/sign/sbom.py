"""Bill of materials of a bundle and of its toolchain, in CycloneDX 1.7.

https://cyclonedx.org/docs/1.7/json. The same bundle, packages and time give the same bytes.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot7
from cyclonedx.spdx import is_expression
from msgspec import UNSET
from packageurl import PackageURL

from aotc.base.stages import CapturedProgram, Package
from aotc.config.build_manifest import BuildManifest
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, engine_name
from aotc_runtime.schema.tensor_text import tensor_text

LOADED = ("aotc-runtime", "cryptography", "ml-dtypes", "msgspec", "numpy")
"""Packages that a process has which loads a bundle, beside those of the engines that run it; the
others were there at build only.
"""

OF_XLA = ("jaxlib", "scipy")


def sbom(
    root_digest: str,
    manifest: BuildManifest,
    program: CapturedProgram,
    built: Sequence[BundleManifest],
    finished: datetime,
) -> dict[str, Any]:
    """Return the CycloneDX document of a bundle; `finished` is in UTC."""
    first = built[0]
    bundle = Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=first.name,
        version=first.version,
        bom_ref=f"{first.name}-{first.version}",
        hashes=[_sha256(root_digest)],
        properties=[
            Property(name=f"aotc:target:{part.target.name}", value=_built_with(part))
            for part in built
        ],
    )
    # A number of its own for every bundle, the same each time: no randomness.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"{root_digest} {finished.isoformat()}")
    bom = Bom(serial_number=serial)
    bom.metadata.timestamp = finished
    bom.metadata.component = bundle
    bom.metadata.tools.components.add(
        Component(type=ComponentType.APPLICATION, name="aotc", version=version("aotc"))
    )
    parts = [*_packages(program.packages, _packages_to_load(built)), *_hashed_files(program, first)]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(bundle, parts)
    document: dict[str, Any] = json.loads(JsonV1Dot7(bom).output_as_string())
    document["metadata"]["component"] |= _model_card(manifest, built)
    return document


def _packages_to_load(built: Sequence[BundleManifest]) -> frozenset[str]:
    """Return the packages that loading one of these targets takes."""
    needs = {part.requires.device.plugin for part in built if part.requires.device is not UNSET}
    needs |= {e.plugin for part in built for e in (part.requires.engines or {}).values()}
    has_xla = any(engine_name(part.target) == XLA for part in built)
    return frozenset({*LOADED, *needs, *(OF_XLA if has_xla else ())})


def _packages(packages: Mapping[str, Package], loaded: frozenset[str]) -> Iterator[Component]:
    for name, package in sorted(packages.items()):
        purl = PackageURL("pypi", None, name, package.version)
        yield Component(
            type=ComponentType.LIBRARY,
            name=name,
            version=package.version,
            purl=purl,
            bom_ref=purl.to_string(),
            scope=ComponentScope.REQUIRED if name in loaded else ComponentScope.EXCLUDED,
            properties=[Property(name="aotc:files", value=package.files)],
        )


def _hashed_files(program: CapturedProgram, first: BundleManifest) -> Iterator[Component]:
    """Yield the files that the build read, the weights and the assets, each with its digest."""
    named = [(f"file:{name}", name, digest) for name, digest in sorted(program.made_from.items())]
    named += (
        (f"weights:{name}:{number}", f"weights {name} {number}", ref.digest)
        for name, weights in sorted(first.weights.items())
        for number, ref in enumerate(weights.blobs)
    )
    named += (
        (f"asset:{name}:{path}", f"asset {name} {path}", ref.digest)
        for name, asset in sorted((first.assets or {}).items())
        for path, ref in sorted(asset.files.items())
    )
    for ref, name, digest in named:
        kind = ComponentType.FILE if ref.startswith("file:") else ComponentType.DATA
        yield Component(type=kind, name=name, bom_ref=ref, hashes=[_sha256(digest)])


def _built_with(manifest: BundleManifest) -> str:
    tools = manifest.built_with.tools
    made = {"jaxlib": manifest.built_with.jaxlib, **tools}
    by = made if engine_name(manifest.target) == XLA else tools
    named = ", ".join(f"{name} {version}" for name, version in sorted(by.items()))
    return f"{named}, {len(manifest.entry_points)} entry points"


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))


def _model_card(stated: BuildManifest, built: Sequence[BundleManifest]) -> dict[str, Any]:
    """Return the keys of a component: its card with measurements by target, licence, owners.

    https://cyclonedx.org/docs/1.7/json/#metadata_component_modelCard
    """
    entries = built[0].entry_points.items()
    sides = {
        side: [
            {"format": f"{name} {spec.path or 'result'}: {tensor_text(spec)}"}
            for name, entry in entries
            for spec in getattr(entry, side)
        ]
        for side in ("inputs", "outputs")
    }
    measured = [metric for manifest in built for metric in _metrics(manifest)]
    card: dict[str, Any] = {"modelParameters": {side: v for side, v in sides.items() if v}}
    if measured:
        card["quantitativeAnalysis"] = {"performanceMetrics": measured}
    described: dict[str, Any] = {"modelCard": card}
    if text := stated.license:
        expression = {"expression": text}
        described["licenses"] = [expression if is_expression(text) else {"license": {"name": text}}]
    if stated.owners:
        described["authors"] = [{"name": owner} for owner in stated.owners]
    return described


def _metrics(manifest: BundleManifest) -> Iterator[dict[str, Any]]:
    for name, entry in manifest.entry_points.items():
        of, precision = f"{name} for {manifest.target.name}", _precision(entry)
        for each in entry.evaluations or ():
            if isinstance(each.result, bundle_manifest.EvaluationRan):
                ends = {"lowerBound": each.result.low, "upperBound": each.result.high}
                yield {
                    "type": each.metric,
                    "value": each.result.value,
                    "slice": f"{of}, {each.samples} samples{precision}",
                    "confidenceInterval": ends,
                }
        ran = [p.parity for p in entry.profiles if isinstance(p.parity, bundle_manifest.ParityRan)]
        if ran:
            yield {
                "type": "largest absolute error against the reference",
                "value": max((parity.max_abs for parity in ran), key=float),
                "slice": f"{of}, {len(ran)} executables{precision}",
            }


def _precision(entry: bundle_manifest.EntryPoint) -> str:
    """Return the precisions of an entry point's quantized weights; empty if it has none."""
    stored = sorted({p.precision.weights for p in entry.profiles if p.precision})
    return f", weights in {' and '.join(stored)}" if stored else ""
