"""Bundles whose code IREE made: built, verified, refused, loaded and called as any others."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import ParityNotRun, ParityRan
from tests.conftest import Once
from tests.engines.sums import (
    SERVER,
    executable,
    make,
    manifests,
    run,
    write,
)
from tests.hostile.tampering import (
    Documents,
    flipped,
    in_memory,
    policy_for,
    signed,
    swap_layer,
    take_apart,
    write_folder,
)

ENGINE = '"iree"'


@pytest.fixture(scope="session")
def sums(once: Once) -> Path:
    """A folder with the bundle of this program for IREE alone, and its policy."""
    return once("iree-sums", lambda folder: make(folder, write(folder, ENGINE)))


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
    "no module": (lambda code: b"AOTC" * 64, "no module of IREE"),
    "nothing": (lambda code: b"", "no module of IREE"),
    "half a module": (lambda code: code[: len(code) // 2], "a module that is cut"),
    "a byte less": (lambda code: code[:-1], "a module that is cut"),
    "a byte more": (lambda code: code + b"\0", "a module that is cut"),
    "its tables overwritten": (
        lambda code: code[:64] + b"\xff" * 512 + code[576:],
        "a module that is damaged",
    ),
    "a bit of its code turned over": (
        lambda code: flipped(code, code.index(b"\x7fELF") + 700),
        "a module that is damaged",
    ),
}
"""Of each: what becomes of a module, and how it is told."""


@pytest.mark.parametrize("spoil", FOREIGN)
def test_signed_bytes_that_are_no_module_are_refused(
    sums: Path, tmp_path: Path, spoil: str
) -> None:
    signer = LocalSigner.ephemeral()
    documents = take_apart(in_memory(sums / "sums.aotb"))
    digest = executable(documents.manifest)
    change, told = FOREIGN[spoil]
    swap_layer(documents, digest, change(documents.layers[digest]))
    folder = write_folder(tmp_path / "bundle", signed(documents, signer))
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("sums", [signer.public_pem()]))
    done = run("-c", SERVER, folder, policy, 0)
    assert done.returncode > 0, "the process itself lives to tell"
    assert "AOTC-E753" in done.stderr, done.stderr
    assert told in done.stderr, "before IREE is asked"


@pytest.fixture(scope="session")
def arm(once: Once) -> Documents:
    """The bundle for an Arm processor."""

    def fill(folder: Path) -> None:
        make(folder, write(folder, ENGINE, targets='"cpu-neoverse-n1"'))

    return take_apart(in_memory(once("iree-sums-arm", fill) / "sums.aotb"))


def refused_at_load(documents: Documents, folder: Path) -> Finding:
    """What a trusted bundle is refused for, once this host may run it."""
    signer = LocalSigner.ephemeral()
    path = write_folder(folder, signed(documents, signer))
    with pytest.raises(aotc_runtime.BackendError) as caught:
        aotc_runtime.load(path, trust=policy_for(signer, name="sums"))
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E753"
    return finding


def test_code_for_another_architecture_under_this_ones_label_is_told_by_name(
    sums: Path, arm: Documents, tmp_path: Path
) -> None:
    here = take_apart(in_memory(sums / "sums.aotb")).manifest
    documents = deepcopy(arm)
    documents.manifest["target"] = here["target"] | {"name": "cpu-neoverse-n1"}
    documents.manifest["requires"] = here["requires"]
    finding = refused_at_load(documents, tmp_path / "bundle")
    assert finding.found == "code for aarch64"
    assert "iree-base-compiler" in finding.hint


def test_one_module_of_another_architecture_among_good_ones_is_told_as_well(
    sums: Path, arm: Documents, tmp_path: Path
) -> None:
    documents = take_apart(in_memory(sums / "sums.aotb"))
    foreign = arm.layers[executable(arm.manifest)]
    swap_layer(documents, executable(documents.manifest), foreign)
    assert refused_at_load(documents, tmp_path / "bundle").found == "code for aarch64"


def test_code_of_xla_where_the_target_is_irees_is_no_module(
    digits_bundle: tuple[Path, Path], sums: Path, tmp_path: Path
) -> None:
    xla = take_apart(in_memory(digits_bundle[0]))
    documents = take_apart(in_memory(sums / "sums.aotb"))
    code = xla.layers[executable(xla.manifest)]
    swap_layer(documents, executable(documents.manifest), code)
    assert refused_at_load(documents, tmp_path / "bundle").found == "no module of IREE"
