"""Bundles whose code IREE made: built, verified, refused, loaded and called as any others."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc.evidence import Evidence
from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from aotc_runtime import canonical
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import ParityNotRun, ParityRan
from tests.conftest import Once
from tests.engines.sums import (
    FACTORIZED,
    IMAGE,
    KERNEL,
    SCORES,
    SERVER,
    WITHOUT_JAXLIB,
    WITHOUT_PACKAGE,
    executable,
    make,
    manifests,
    run,
    served,
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


def test_a_target_says_which_engine_and_release_its_code_is_for(sums: Path) -> None:
    (manifest,) = manifests(sums / "sums.aotb").values()
    assert manifest["target"]["platform"] == manifest["requires"]["platform"] == "iree"
    assert "avx2" in manifest["requires"]["isa"]
    device = manifest["requires"]["device"]
    assert device["plugin"] == "iree-base-runtime"
    compiler = manifest["built_with"]["tools"]["iree-base-compiler"]
    assert device["accepts_plugin"] == [compiler]


def test_provenance_and_bill_of_materials_name_its_packages(sums: Path) -> None:
    envelopes = take_apart(in_memory(sums / "sums.aotb")).envelopes
    payloads = [json.loads(base64.b64decode(json.loads(each)["payload"])) for each in envelopes]
    provenance, bill = (each["predicate"] for each in payloads)
    made_from = {each["name"] for each in provenance["buildDefinition"]["resolvedDependencies"]}
    assert {"iree-base-compiler", "iree-base-runtime", "jaxlib"} <= made_from
    scopes = {each["name"]: each["scope"] for each in bill["components"] if "scope" in each}
    assert scopes["iree-base-runtime"] == "required"
    assert scopes["iree-base-compiler"] == scopes["jaxlib"] == "excluded"


def test_a_server_answers_with_it_where_there_is_no_jaxlib(sums: Path) -> None:
    answer = served(sums, 0, WITHOUT_JAXLIB)
    np.testing.assert_allclose(answer["scores"], SCORES, atol=1e-5)
    np.testing.assert_allclose(answer["padded"], SCORES[:2], atol=1e-5)
    assert answer["report"]["compilations"] == 0
    assert answer["report"]["engine"] == "iree"
    roots = {name.partition(".")[0] for name in answer["modules"]}
    assert "iree" in roots and not {"jax", "jaxlib", "aotc"} & roots


def test_jaxlib_is_asked_for_its_version_and_its_guard_and_no_more(sums: Path) -> None:
    modules = {name for name in served(sums, 0)["modules"] if name.startswith("jaxlib")}
    assert modules <= {"jaxlib", "jaxlib.version", "jaxlib.cpu_feature_guard"}


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_threads_as_asked_for(sums: Path, threads: int) -> None:
    answer = served(sums, threads)
    assert answer["report"]["threads"] == threads
    np.testing.assert_allclose(answer["scores"], SCORES, atol=1e-5)


def test_threads_that_call_at_once_get_their_own_results(sums: Path) -> None:
    barrier, wrong = Barrier(32), []
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        predict = loaded["predict"]

        def call(number: int) -> None:
            image = IMAGE + np.float32(number)
            expected = image @ KERNEL + np.arange(3, dtype=np.float32)
            barrier.wait()
            for _ in range(200):
                found = predict(image)["scores"]
                if not np.allclose(found, expected, rtol=1e-5, atol=1e-4):
                    wrong.append((number, found))

        threads = [Thread(target=call, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_state_stays_with_the_engine_and_is_used_up(sums: Path) -> None:
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        step = loaded["step"]
        state: Any = np.zeros(5, np.float32)
        for token in (1, 3, 1):
            before = state
            state, total = step.on_device(state, np.int32(token))
        assert np.asarray(state).tolist() == [0, 2, 0, 1, 0]
        assert float(np.asarray(total)) == 3.0
        with pytest.raises(aotc_runtime.ShapeError) as caught:
            step(before, np.int32(0))
    assert caught.value.code == "AOTC-E631"


def test_results_are_read_only_and_outlive_the_bundle(sums: Path) -> None:
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        scores = loaded["predict"](IMAGE)["scores"]
        again = loaded["predict"](IMAGE[::-1])["scores"]
    assert not scores.flags.writeable
    np.testing.assert_allclose(scores, SCORES, atol=1e-5)
    np.testing.assert_allclose(again, SCORES[::-1], atol=1e-5)


def test_an_input_of_any_strides_is_taken(sums: Path) -> None:
    wide = np.zeros((4, 8), np.float32)
    wide[:, ::2] = IMAGE
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        found = loaded["predict"](wide[:, ::2])["scores"]
    np.testing.assert_allclose(found, SCORES, atol=1e-5)


def test_the_same_program_in_another_folder_has_the_same_bytes(sums: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "deep"
    again = make(folder, write(folder, ENGINE))
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        assert loaded.root_digest == again.bundle.root_digest


def test_what_iree_refuses_falls_to_the_next_engine_and_is_recorded(tmp_path: Path) -> None:
    path = write(tmp_path, '"iree", "xla"')
    path.write_text(path.read_text() + FACTORIZED)
    built = make(tmp_path, path)
    assert any("compiled by xla, because iree cannot compile" in note for note in built.notes)
    documents = take_apart(in_memory(tmp_path / "sums.aotb"))
    manifest = documents.manifest
    assert manifest["target"]["platform"] == "cpu"
    assert "device" not in manifest["requires"]
    evidence = documents.layers[manifest["evidence"]["digest"]]
    (refusal,) = canonical.decode(evidence, Evidence, where="evidence").refused
    assert (refusal.engine, refusal.code) == ("iree", "AOTC-E904")
    assert "lapack_spotrf_ffi" in refusal.found


def test_without_another_engine_it_is_refused_with_its_operation(tmp_path: Path) -> None:
    path = write(tmp_path, ENGINE)
    path.write_text(path.read_text() + FACTORIZED)
    with pytest.raises(aotc_runtime.AotcError) as caught:
        make(tmp_path, path)
    assert caught.value.code == "AOTC-E904"
    assert "lapack_spotrf_ffi" in caught.value.findings[0].found


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


def test_without_the_package_its_name_and_version_are_told(sums: Path) -> None:
    done = run(
        "-c",
        WITHOUT_PACKAGE.replace("PACKAGE", "iree"),
        "verify",
        sums / "sums.aotb",
        "--trust",
        sums / "trust.toml",
    )
    assert done.returncode == 6, done.stdout + done.stderr
    assert "AOTC-E403" in done.stderr
    assert "pip install iree-base-runtime==3." in done.stderr


def test_another_release_of_the_runtime_is_refused(sums: Path, tmp_path: Path) -> None:
    signer = LocalSigner.ephemeral()
    documents = take_apart(in_memory(sums / "sums.aotb"))
    documents.manifest["requires"]["device"]["accepts_plugin"] = ["2.0.0"]
    folder = write_folder(tmp_path / "bundle", signed(documents, signer))
    with pytest.raises(aotc_runtime.IncompatibleRuntimeError) as caught:
        aotc_runtime.load(folder, trust=policy_for(signer, name="sums"))
    assert caught.value.code == "AOTC-E403"


def test_a_damaged_module_never_reaches_iree(sums: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "sums.aotb"
    shutil.copy(sums / "sums.aotb", damaged)
    documents = take_apart(in_memory(damaged))
    code = documents.layers[executable(documents.manifest)]
    data = bytearray(damaged.read_bytes())
    data[data.index(code) + len(code) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(aotc_runtime.IntegrityError) as caught:
        aotc_runtime.load(damaged, trust=sums / "trust.toml")
    assert caught.value.code == "AOTC-E201"


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


def test_a_module_of_another_function_is_refused(sums: Path, tmp_path: Path) -> None:
    signer = LocalSigner.ephemeral()
    documents = take_apart(in_memory(sums / "sums.aotb"))
    points = documents.manifest["entry_points"]
    other = points["step"]["profiles"][0]["executable"]
    mine = points["predict"]["profiles"][0]["executable"]
    taken, given = documents.layers[mine["digest"]], documents.layers[other["digest"]]
    assert taken != given
    del documents.layers[mine["digest"]]
    left = [each for each in documents.image["layers"] if each["digest"] != mine["digest"]]
    documents.image["layers"] = left
    mine |= other
    folder = write_folder(tmp_path / "bundle", signed(documents, signer))
    with pytest.raises(aotc_runtime.BackendError) as caught:
        aotc_runtime.load(folder, trust=policy_for(signer, name="sums"))
    assert caught.value.code == "AOTC-E753"
    assert "a function that gives" in caught.value.findings[0].found


def test_code_of_iree_is_refused_where_the_target_is_xlas(sums: Path, tmp_path: Path) -> None:
    """The target's record decides who is handed the bytes, so that XLA never sees IREE's, nor IREE
    XLA's.
    """
    signer = LocalSigner.ephemeral()
    documents = take_apart(in_memory(sums / "sums.aotb"))
    documents.manifest["target"]["platform"] = "cpu"
    documents.manifest["requires"]["platform"] = "cpu"
    del documents.manifest["requires"]["device"]
    folder = write_folder(tmp_path / "bundle", signed(documents, signer))
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("sums", [signer.public_pem()]))
    done = run("-c", SERVER, folder, policy, 0)
    assert done.returncode > 0
    assert "AOTC-E753" in done.stderr, done.stderr
