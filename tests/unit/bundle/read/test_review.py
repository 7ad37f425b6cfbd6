"""A review reads evidence strictly, and does without it where a build left none."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from aotc.base.evidence import Evidence
from aotc.bundle.read.bundle_review import review
from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack
from aotc.commands.diff.bundle_diff import diff
from aotc.report.inspect_report import bundle_report
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle
from tests.refusals import error_of

NOW = datetime.now(UTC)

type Repack = Callable[[Callable[[bytes], bytes] | None], MappedBundle]


@pytest.fixture
def repack(digits_bundle: Bundle, tmp_path: Path) -> Repack:
    def run(change: Callable[[bytes], bytes] | None) -> MappedBundle:
        """The bundle with other evidence, or without any, put together correctly."""
        contents, _ = read_unverified(open_bundle(digits_bundle[0]))
        parts = []
        for name, manifest in contents.manifests.items():
            blobs = [
                Blob(contents.blobs[layer.digest], layer.mediaType)
                for layer in contents.targets[name].layers
                if layer.mediaType != oci_layout.EVIDENCE_TYPE
            ]
            reference = UNSET
            if change is not None:
                assert manifest.evidence is not UNSET
                data = change(bytes(contents.blobs[manifest.evidence.digest]))
                blobs.append(Blob(data, oci_layout.EVIDENCE_TYPE))
                reference = blobs[-1].ref()
            parts.append(TargetParts(msgspec.structs.replace(manifest, evidence=reference), blobs))
        pack(tmp_path / "repacked.aotb", Form.ARCHIVE, assemble(parts))
        return open_bundle(tmp_path / "repacked.aotb")

    return run


def test_evidence_is_optional(repack: Repack, digits_bundle: Bundle) -> None:
    bundle = repack(None)
    found = review(bundle, None, NOW)
    assert [e.evidence for e in found.executables()] == [None] * 3
    report = bundle_report(found)
    assert "coverage" not in next(iter(report["targets"].values()))["entry_points"]["predict"]
    new = review(open_bundle(digits_bundle[0]), None, NOW)
    changes = diff(found, new, lines_max=0).changes
    assert {change.kind for change in changes} == {
        *("evidence", "artifact_size"),
        # Numbers that only evidence tells.
        *("custom_calls", "fusions"),
    }
    assert {c.before for c in changes if c.kind == "fusions"} == {"-"}


def test_evidence_is_a_blob_of_its_own_role(repack: Repack) -> None:
    found = review(repack(lambda data: data), None, NOW)
    assert [role for role in found.blobs.values() if role.startswith("evidence")] == [
        "evidence of cpu-x86-64-v3"
    ]
    assert found.sizes[oci_layout.EVIDENCE_TYPE] > 1000


def fewer_profiles(data: bytes) -> bytes:
    evidence = canonical_json.decode(data, Evidence, where="evidence")
    entry = evidence.entry_points["predict"]
    entry = msgspec.structs.replace(entry, profiles=entry.profiles[1:])
    return canonical_json.encode(msgspec.structs.replace(evidence, entry_points={"predict": entry}))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (fewer_profiles, "AOTC-E118"),
        (lambda data: data.replace(b'"predict"', b'"another"'), "AOTC-E118"),
        (lambda data: b" " + data, "AOTC-E102"),
        (lambda data: data.replace(b'"schema"', b'"scheme"'), "AOTC-E101"),
    ],
)
def test_foreign_proof_fails(repack: Repack, change: Callable[[bytes], bytes], code: str) -> None:
    bundle = repack(change)
    read_unverified(bundle)  # what loads bundles does not look into it
    assert error_of(BundleFormatError, review, bundle, None, NOW).code == code
