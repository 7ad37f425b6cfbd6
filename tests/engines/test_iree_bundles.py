"""Bundles whose code IREE made: built, verified, refused, loaded and called as any others."""

from collections.abc import Callable
from pathlib import Path

import pytest

import aotc_runtime
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from tests.conftest import Bundle, Once
from tests.engines.conftest import ENGINES
from tests.engines.sums import (
    executable,
    make,
    manifests,
    refused_at_load,
    refused_by_a_server,
    with_code,
    write,
)
from tests.hostile.tampering import Documents, flipped, in_memory, take_apart

ENGINE = '"iree"'


@pytest.fixture(scope="session")
def sums(once: Once) -> Path:
    return ENGINES[0].sums(once)


def test_one_bundle_holds_code_for_both_architectures(tmp_path: Path) -> None:
    path = write(tmp_path, ENGINE, targets='"cpu-x86-64-v3", "cpu-neoverse-n1", "cpu-apple-m1"')
    built = make(tmp_path, path)
    parities = {
        name: {type(profile.parity) for profile in manifest.entry_points["predict"].profiles}
        for name, manifest in built.bundle.manifests.items()
    }
    assert parities == {
        "cpu-x86-64-v3": {ParityRan},
        "cpu-neoverse-n1": {ParityNotRun},
        "cpu-apple-m1": {ParityNotRun},
    }
    arm = manifests(tmp_path / "sums.aotb")["cpu-neoverse-n1"]
    assert arm["requires"]["architecture"] == "aarch64"
    assert {"dotprod", "fullfp16"} <= {*arm["requires"]["isa"]}
    with aotc_runtime.load(tmp_path / "sums.aotb", trust=tmp_path / "trust.toml") as loaded:
        assert loaded.manifest.target.name == "cpu-x86-64-v3"
    with pytest.raises(aotc_runtime.IncompatibleHostError) as caught:
        aotc_runtime.load(
            tmp_path / "sums.aotb", trust=tmp_path / "trust.toml", target="cpu-neoverse-n1"
        )
    codes = {finding.code: finding for finding in caught.value.findings}
    assert codes["AOTC-E501"].expected == "iree aarch64 linux glibc"
    assert "AOTC-E502" in codes


FOREIGN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a byte less": (lambda code: code[:-1], "a module that is cut"),
    "a byte more": (lambda code: code + b"\0", "a module that is cut"),
    "a bit of its code turned over": (
        lambda code: flipped(code, code.index(b"\x7fELF") + 700),
        "a module that is damaged",
    ),
}
"""Of each: what becomes of a module, and how it is told before IREE is asked."""


@pytest.mark.parametrize("spoil", FOREIGN)
def test_signed_bytes_of_no_module_are_refused(sums: Path, tmp_path: Path, spoil: str) -> None:
    change, told = FOREIGN[spoil]
    assert told in refused_by_a_server(sums / "sums.aotb", tmp_path, with_code(change))


@pytest.fixture(scope="session")
def arm(once: Once) -> Path:
    """The bundle for an Arm processor."""

    def fill(folder: Path) -> None:
        make(folder, write(folder, ENGINE, targets='"cpu-neoverse-n1"'))

    return once("iree-sums-arm", fill) / "sums.aotb"


def test_code_for_another_architecture_is_named(sums: Path, arm: Path, tmp_path: Path) -> None:
    here = take_apart(in_memory(sums / "sums.aotb")).manifest

    def change(documents: Documents) -> None:
        documents.manifest["target"] = here["target"] | {"name": "cpu-neoverse-n1"}
        documents.manifest["requires"] = here["requires"]

    finding = refused_at_load(arm, tmp_path, change)
    assert (finding.code, finding.found) == ("AOTC-E753", "code for aarch64")
    assert "iree-base-compiler" in finding.hint


def test_mixed_archives_fail(sums: Path, arm: Path, digits_bundle: Bundle, tmp_path: Path) -> None:
    for bundle, told in ((arm, "code for aarch64"), (digits_bundle[0], "no module of IREE")):
        documents = take_apart(in_memory(bundle))
        code = documents.layers[executable(documents.manifest)]
        folder = tmp_path / told
        folder.mkdir()
        swapped = with_code(lambda _, code=code: code)
        finding = refused_at_load(sums / "sums.aotb", folder, swapped)
        assert (finding.code, finding.found) == ("AOTC-E753", told)
