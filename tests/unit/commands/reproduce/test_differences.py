"""In what bundles differ: by stage, the cause first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aotc.commands.reproduce.reproducibility_check import STAGES, differences
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BlobRef, BundleManifest
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.bundle_examination import read_unverified

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def side(digits_bundle: tuple[Path, Path]) -> Contents:
    contents, _ = read_unverified(open_bundle(digits_bundle[0]))
    return contents


def changed(
    side: Contents, change: Callable[[BundleManifest], BundleManifest], *new: bytes
) -> Contents:
    """The same bundle with every manifest changed, and more blobs."""
    blobs = {**side.blobs, **{sha256(data): memoryview(data) for data in new}}
    manifests = {name: change(manifest) for name, manifest in side.manifests.items()}
    return replace(side, manifests=manifests, blobs=blobs)


def of_profile(manifest: BundleManifest, **fields: Any) -> BundleManifest:
    """With other fields in the first profile of the first entry point."""
    name, entry_point = next(iter(manifest.entry_points.items()))
    first, *others = entry_point.profiles
    profiles = (replace(first, **fields), *others)
    return replace(manifest, entry_points={name: replace(entry_point, profiles=profiles)})


def test_a_bundle_differs_in_nothing_from_itself(side: Contents) -> None:
    assert differences(side, changed(side, lambda manifest: manifest)) == ()


def test_an_executable_is_told_by_where_its_bytes_part(side: Contents) -> None:
    manifest = next(iter(side.manifests.values()))
    old = next(iter(manifest.entry_points.values())).profiles[0].executable
    data = bytearray(side.blobs[old.digest])
    data[100] ^= 1
    new = BlobRef(digest=sha256(bytes(data)), size=len(data))
    other = changed(side, lambda m: of_profile(m, executable=new), bytes(data))
    found = differences(side, other)
    assert {difference.stage for difference in found} == {"executable"}
    assert "the same up to byte 100" in found[0].lines[0]


def test_a_module_is_told_by_its_text(side: Contents) -> None:
    manifest = next(iter(side.manifests.values()))
    profiles = next(iter(manifest.entry_points.values())).profiles
    other = changed(side, lambda m: of_profile(m, module=profiles[1].module))
    (found, *_) = differences(side, other)
    assert (found.stage, found.what.startswith("module ")) == ("module", True)
    assert any(line.startswith("-") and "tensor<" in line for line in found.lines)


def test_the_cause_comes_before_what_follows_from_it(side: Contents) -> None:
    def change(manifest: BundleManifest) -> BundleManifest:
        profiles = next(iter(manifest.entry_points.values())).profiles
        made = of_profile(manifest, executable=profiles[1].executable, module=profiles[1].module)
        return replace(made, built_with=replace(made.built_with, jaxlib="0.11.2"))

    found = differences(side, changed(side, change))
    stages = [difference.stage for difference in found]
    assert stages == sorted(stages, key=list(STAGES).index)
    assert (found[0].stage, found[0].first, found[0].second)[::2] == ("toolchain", "0.11.2")


def test_other_weights_fixtures_parity_and_targets_are_named(side: Contents) -> None:
    manifest = next(iter(side.manifests.values()))
    entry_point = next(iter(manifest.entry_points.values()))
    fixture = entry_point.profiles[1].fixture
    assert {
        d.stage
        for d in differences(side, changed(side, lambda m: of_profile(m, fixture=fixture)), str)
    } == {"fixture"}
    parity = entry_point.profiles[1].parity
    found = differences(side, changed(side, lambda m: of_profile(m, parity=parity)), str)
    assert {d.stage for d in found} <= {"parity"}
    (name, weights), *_ = manifest.weights.items()
    other = {**manifest.weights, name: replace(weights, blobs=weights.blobs[::-1] * 2)}
    found = differences(side, changed(side, lambda m: replace(m, weights=other)), str)
    assert {d.stage for d in found} == {"weights"}
    (gone, *_) = differences(side, replace(side, manifests={}), str)
    assert (gone.stage, gone.second) == ("target", "none")


def test_what_no_stage_looks_at_is_still_told(side: Contents) -> None:
    other = changed(side, lambda m: replace(m, accepts_jaxlib=("0.11.2",)))
    (found, *_) = differences(side, other, str)
    assert (found.stage, found.what) == ("manifest", "accepts_jaxlib")


def test_evidence_is_told_by_its_fields_or_if_it_is_none_by_its_bytes(side: Contents) -> None:
    manifest = next(iter(side.manifests.values()))
    assert manifest.evidence is not msgspec.UNSET
    good = bytes(side.blobs[manifest.evidence.digest])
    fewer = good.replace(b'"branches":0', b'"branches":1', 1)
    for data, what in ((fewer, "control_flow.branches"), (b"[" * 100_000, "evidence")):
        ref = BlobRef(digest=sha256(data), size=len(data))
        other = changed(side, lambda m, ref=ref: replace(m, evidence=ref), data)
        (found,) = differences(side, other, str)
        assert found.stage == "evidence" and found.what.endswith(what)


def test_long_or_equal_modules_have_a_line_that_says_so(side: Contents) -> None:
    manifest = next(iter(side.manifests.values()))
    profiles = next(iter(manifest.entry_points.values())).profiles
    other = changed(side, lambda m: of_profile(m, module=profiles[1].module))
    for text, said in (("x\n" * 20_001, "20001 lines"), ("x\n", "constants of many numbers")):
        (found, *_) = differences(side, other, lambda artifact, text=text: text)
        assert len(found.lines) == 1 and said in found.lines[0]
