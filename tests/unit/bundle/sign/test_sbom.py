"""The bill of materials: valid CycloneDX, and the same each time."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from msgspec.structs import replace

from aotc.base.stages import CapturedProgram, Package
from aotc.bundle.sign.sbom import sbom
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.base import canonical_json
from aotc_runtime.schema.bundle_manifest import BundleManifest, DeviceRequirements
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import MANIFESTS, Bundle

PROGRAM = CapturedProgram(
    entry_points={},
    weights={},
    sources={"model.py": f"sha256:{'a' * 64}"},
    files={"model/params.safetensors": f"sha256:{'e' * 64}"},
    packages={
        "jaxlib": Package("0.12.0.1", f"sha256:{'b' * 64}"),
        "pydantic": Package("2.14.3", f"sha256:{'c' * 64}"),
    },
)
ROOT = f"sha256:{'d' * 64}"
STATED = dataclasses.replace(
    read_build_manifest(MANIFESTS / "digits.toml"), license="Ours alone", owners=("Vision", "QA")
)
FINISHED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def bill(digits_bundle: Bundle) -> dict[str, Any]:
    contents, _ = read_unverified(open_bundle(digits_bundle[0]))
    built = list(contents.manifests.values())
    first = sbom(ROOT, STATED, PROGRAM, built, FINISHED)
    again = sbom(ROOT, STATED, PROGRAM, built, FINISHED)
    assert canonical_json.encode(first) == canonical_json.encode(again)
    return first


def of_iree(manifest: BundleManifest) -> BundleManifest:
    """The same bundle manifest, of executables that IREE compiled."""
    needs = DeviceRequirements(
        kinds=("local-sync",),
        memory_bytes=0,
        plugin="iree-base-runtime",
        accepts_plugin=("3.13.0",),
    )
    return replace(
        manifest,
        target=replace(manifest.target, platform="iree"),
        requires=replace(manifest.requires, platform="iree", device=needs),
        built_with=replace(manifest.built_with, tools={"iree-base-compiler": "3.13.0"}),
    )


IREE = {
    name: Package("3.13.0", f"sha256:{'f' * 64}")
    for name in ("iree-base-compiler", "iree-base-runtime")
}


@pytest.mark.parametrize("is_mixed", [False, True])
def test_runtime_needs_are_the_engines(digits_bundle: Bundle, is_mixed: bool) -> None:
    contents, _ = read_unverified(open_bundle(digits_bundle[0]))
    (xla,) = contents.manifests.values()
    program = dataclasses.replace(PROGRAM, packages={**PROGRAM.packages, **IREE})
    built = [of_iree(xla), xla] if is_mixed else [of_iree(xla)]
    found = sbom(ROOT, STATED, program, built, FINISHED)
    scopes = {part["name"]: part["scope"] for part in found["components"] if "scope" in part}
    assert scopes["iree-base-runtime"] == "required"
    assert scopes["iree-base-compiler"] == "excluded"
    assert scopes["jaxlib"] == ("required" if is_mixed else "excluded")
    told = [each["value"] for each in found["metadata"]["component"]["properties"]]
    assert "iree-base-compiler 3.13.0, 1 entry points" in told
    assert any(each.startswith("jaxlib ") for each in told) is is_mixed


def test_it_is_valid_by_the_schema(bill: dict[str, Any]) -> None:
    # It takes a second, in every process that collects this file.
    from cyclonedx.validation.json import JsonStrictValidator

    text = canonical_json.encode(bill).decode()
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None


def test_model_card_has_interface_errors_licence_and_owners(bill: dict[str, Any]) -> None:
    described = bill["metadata"]["component"]
    assert described["licenses"] == [{"license": {"name": "Ours alone"}}], "no SPDX expression"
    assert described["authors"] == [{"name": "Vision"}, {"name": "QA"}]
    card = described["modelCard"]
    assert card["modelParameters"]["inputs"] == [{"format": "predict image: float32[batch, 64]"}]
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    assert [metric["slice"] for metric in metrics] == ["predict for cpu-x86-64-v3, 3 executables"]
    assert 0 <= float(metrics[0]["value"]) < 1e-3


def test_it_names_bundle_packages_sources_files_and_weights(bill: dict[str, Any]) -> None:
    described = bill["metadata"]["component"]
    assert (described["name"], described["hashes"][0]["content"]) == ("digits", "d" * 64)
    found = {part["bom-ref"]: part for part in bill["components"]}
    assert found["pkg:pypi/jaxlib@0.12.0.1"]["scope"] == "required", "loading needs it"
    assert found["pkg:pypi/pydantic@2.14.3"]["scope"] == "excluded", "building needed it"
    assert found["file:model.py"]["hashes"][0]["content"] == "a" * 64
    assert found["file:model/params.safetensors"]["hashes"][0]["content"] == "e" * 64
    assert any(name.startswith("weights:") for name in found)
    (depends,) = (d for d in bill["dependencies"] if d["ref"] == described["bom-ref"])
    assert set(depends["dependsOn"]) == set(found)
