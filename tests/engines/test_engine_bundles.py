"""Bundles of each engine beside XLA: built, verified, refused, loaded and called as any others."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc.base.errors import EngineFailedError, finding
from aotc.base.evidence import Evidence
from aotc.check import parity_process
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import Finding
from tests.conftest import manifest_of
from tests.e2e.small_programs import build_trusted
from tests.engines.conftest import Other
from tests.engines.sums import (
    FACTORIZED,
    IMAGE,
    KERNEL,
    SCORES,
    WITHOUT_JAXLIB,
    WITHOUT_PACKAGE,
    executable,
    make,
    manifests,
    refused_at_load,
    refused_by_a_server,
    served,
    with_code,
    write,
)
from tests.hostile.tampering import Documents, in_memory, take_apart
from tests.refusals import error_of
from tests.running import python
from tests.waiting import in_threads


def test_a_target_says_which_engine_and_release_its_code_is_for(sums: Path, other: Other) -> None:
    (manifest,) = manifests(sums / "sums.aotb").values()
    assert manifest["target"]["platform"] == manifest["requires"]["platform"] == other.name
    assert "avx2" in manifest["requires"]["isa"]
    device = manifest["requires"]["device"]
    assert device["plugin"] == other.runtime
    compiler = manifest["built_with"]["tools"][other.compiler]
    assert device["accepts_plugin"] == [compiler]


def test_provenance_and_bill_of_materials_name_its_packages(sums: Path, other: Other) -> None:
    envelopes = take_apart(in_memory(sums / "sums.aotb")).envelopes
    payloads = [json.loads(base64.b64decode(json.loads(each)["payload"])) for each in envelopes]
    provenance, bill = (each["predicate"] for each in payloads)
    made_from = {each["name"] for each in provenance["buildDefinition"]["resolvedDependencies"]}
    assert {other.compiler, other.runtime, "jaxlib"} <= made_from
    scopes = {each["name"]: each["scope"] for each in bill["components"] if "scope" in each}
    assert scopes[other.runtime] == "required"
    assert scopes["jaxlib"] == "excluded"
    if other.compiler != other.runtime:
        assert scopes[other.compiler] == "excluded"


def test_a_server_answers_with_it_where_there_is_no_jaxlib(sums: Path, other: Other) -> None:
    answer = served(sums, 0, WITHOUT_JAXLIB)
    np.testing.assert_allclose(answer["scores"], SCORES, atol=1e-5)
    np.testing.assert_allclose(answer["padded"], SCORES[:2], atol=1e-5)
    assert answer["report"]["compilations"] == 0
    assert answer["report"]["engine"] == other.name
    roots = {name.partition(".")[0] for name in answer["modules"]}
    assert other.package in roots and not {"jax", "jaxlib", "aotc"} & roots


def test_jaxlib_is_not_imported_where_it_is_installed(sums: Path) -> None:
    modules = served(sums, 0)["modules"]
    assert not [name for name in modules if name.startswith("jaxlib")]


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_threads_as_asked_for(sums: Path, threads: int) -> None:
    answer = served(sums, threads)
    assert answer["report"]["threads"] == threads
    np.testing.assert_allclose(answer["scores"], SCORES, atol=1e-5)


def test_threads_that_call_at_once_get_their_own_results(sums: Path) -> None:
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        predict = loaded["predict"]

        def call(number: int) -> bool:
            image = IMAGE + np.float32(number)
            expected = image @ KERNEL + np.arange(3, dtype=np.float32)
            found = [predict(image)["scores"] for _ in range(200)]
            return np.allclose(found, expected, rtol=1e-5, atol=1e-4)

        assert all(in_threads(32, call))


def test_a_state_stays_with_the_engine_and_is_used_up(sums: Path) -> None:
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        step = loaded["step"]
        state: Any = np.zeros(5, np.float32)
        for token in (1, 3, 1):
            before = state
            state, total = step.on_device(state, np.int32(token))
        assert np.asarray(state).tolist() == [0, 2, 0, 1, 0]
        assert float(np.asarray(total)) == 3.0
        caught = error_of(aotc_runtime.ShapeError, step, before, np.int32(0))
    assert caught.code == "AOTC-E631"


KEPT = """
import sys
import numpy as np
import aotc_runtime

bundle, policy = sys.argv[1:]
with aotc_runtime.load(bundle, trust=policy) as loaded:
    predict = loaded["predict"]
    image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    first = predict(image)
    kept = {name: array.copy() for name, array in first.items()}
    image += 1
    second = predict(image)
    turned = predict(np.asfortranarray(image))
    for name, array in first.items():
        assert type(array) is np.ndarray and not array.flags.writeable
        assert np.array_equal(array, kept[name]), "neither a later call nor its input changed it"
        assert np.array_equal(second[name], turned[name])
    assert not np.array_equal(first["scores"], second["scores"])
    wide = loaded["step"](np.zeros(5, np.float32), np.int32(2))
    assert wide[0].tolist() == [0, 0, 1, 0, 0] and wide[1] == 2
    print(dict(predict.calls))
"""


@pytest.mark.parametrize("beside", ["", "import jax; jax.config.update('jax_enable_x64', True)"])
def test_results_are_the_callers_own_beside_jax_and_without(sums: Path, beside: str) -> None:
    done = python("-c", f"{beside}\n{KEPT}", sums / "sums.aotb", sums / "trust.toml")
    assert done.returncode == 0, done.stderr
    assert "'predict[batch=4]': 3" in done.stdout


def test_same_program_elsewhere_has_same_bytes(sums: Path, other: Other, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "deep"
    again = make(folder, write(folder, other.listed))
    with aotc_runtime.load(sums / "sums.aotb", trust=sums / "trust.toml") as loaded:
        assert loaded.root_digest == again.bundle.root_digest


def test_refused_module_falls_to_next_engine_and_is_recorded(other: Other, tmp_path: Path) -> None:
    path = write(tmp_path, f'{other.listed}, "xla"')
    path.write_text(path.read_text() + FACTORIZED)
    built = make(tmp_path, path)
    why = f"{other.name} cannot compile "
    assert any(note.startswith(why) and note.endswith(" goes to xla") for note in built.notes)
    documents = take_apart(in_memory(tmp_path / "sums.aotb"))
    manifest = documents.manifest
    assert manifest["target"]["platform"] == "cpu"
    assert "device" not in manifest["requires"]
    evidence = documents.layers[manifest["evidence"]["digest"]]
    (refusal,) = canonical_json.decode(evidence, Evidence, where="evidence").refused
    assert (refusal.engine, refusal.code) == (other.name, "AOTC-E904")
    assert "lapack_spotrf_ffi" in refusal.found


@pytest.mark.parametrize(
    ("failed", "does"),
    [
        (finding("AOTC-E953", "f", "no memory", cause="engine-fails-at-a-call"), "cannot run"),
        (finding("AOTC-E951", "f", "2 of 4 elements differ"), "computes wrong results of"),
    ],
    ids=["fails at a call", "wrong results"],
)
def test_an_engine_that_fails_falls_to_the_next_engine_and_is_recorded(
    other: Other, failed: Finding, does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_parity, calls = parity_process.run, []

    def fails_first(*arguments: Any) -> parity_process.Ran:
        calls.append(arguments)
        if len(calls) > 1:
            return run_parity(*arguments)
        raise EngineFailedError(failed)

    monkeypatch.setattr(parity_process, "run", fails_first)
    targets = '"cpu-x86-64-v2", "cpu-x86-64-v3"'
    built = make(tmp_path, write(tmp_path, f'{other.listed}, "xla"', targets))
    why = f"{other.name} {does} f ({failed.code}, {failed.title}: {failed.found}), so "
    assert any(note.startswith(why) and note.endswith(" goes to xla") for note in built.notes)
    documents = take_apart(in_memory(tmp_path / "sums.aotb"))
    by_platform = {each.manifest["target"]["platform"]: each.manifest for each in documents.targets}
    assert by_platform.keys() == {"cpu", other.name}
    evidence = documents.layers[by_platform["cpu"]["evidence"]["digest"]]
    (refusal,) = canonical_json.decode(evidence, Evidence, where="evidence").refused
    assert (refusal.engine, refusal.code, refusal.found) == (other.name, failed.code, failed.found)
    assert len(calls) == 3, "the target of the other engine is not checked again"


def test_an_engine_that_fails_at_a_call_without_another_one_ends_the_build(
    other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> parity_process.Ran:
        failed = finding("AOTC-E953", "predict", "no memory", cause="engine-fails-at-a-call")
        raise EngineFailedError(failed)

    monkeypatch.setattr(parity_process, "run", fails)
    caught = error_of(EngineFailedError, make, tmp_path, write(tmp_path, other.listed))
    assert caught.findings[0].title == "engine fails at a call"


def test_refused_operation_without_fallback_is_named(other: Other, tmp_path: Path) -> None:
    path = write(tmp_path, other.listed)
    path.write_text(path.read_text() + FACTORIZED)
    caught = error_of(aotc_runtime.AotcError, make, tmp_path, path)
    assert caught.code == "AOTC-E904"
    assert "lapack_spotrf_ffi" in caught.findings[0].found


def test_without_the_package_its_name_and_version_are_told(sums: Path, other: Other) -> None:
    done = python(
        "-c",
        WITHOUT_PACKAGE.replace("PACKAGE", other.package),
        "verify",
        sums / "sums.aotb",
        "--trust",
        sums / "trust.toml",
    )
    assert done.returncode == 6, done.stdout + done.stderr
    assert "AOTC-E405" in done.stderr
    assert f"pip install {other.runtime}==" in done.stderr


def test_another_release_of_the_runtime_is_refused(sums: Path, tmp_path: Path) -> None:
    def change(documents: Documents) -> None:
        documents.manifest["requires"]["device"]["accepts_plugin"] = ["2.0.0"]

    assert refused_at_load(sums / "sums.aotb", tmp_path, change).code == "AOTC-E403"


def test_a_damaged_executable_never_reaches_the_engine(sums: Path, tmp_path: Path) -> None:
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
    "no executable": (lambda code: b"AOTC" * 64, "no module of IREE"),
    "nothing": (lambda code: b"", "no module of IREE"),
    "half of it": (lambda code: code[: len(code) // 2], "a module that is cut"),
    "its middle overwritten": (
        lambda code: code[:64] + b"\xff" * 512 + code[576:],
        "a module that is damaged",
    ),
}
"""Of each: what becomes of an executable, and how it is told before IREE is asked."""


@pytest.mark.parametrize("spoil", FOREIGN)
def test_signed_non_executable_fails(sums: Path, other: Other, tmp_path: Path, spoil: str) -> None:
    change, told = FOREIGN[spoil]
    said = refused_by_a_server(sums / "sums.aotb", tmp_path, with_code(change))
    assert other.name != "iree" or told in said


def test_its_code_is_refused_where_the_target_is_xlas(sums: Path, tmp_path: Path) -> None:
    """The target's record decides who is handed the bytes, so that XLA never sees other
    code, nor another engine XLA's.
    """

    def change(documents: Documents) -> None:
        documents.manifest["target"]["platform"] = "cpu"
        documents.manifest["requires"]["platform"] = "cpu"
        del documents.manifest["requires"]["device"]

    refused_by_a_server(sums / "sums.aotb", tmp_path, change)


def test_arrays_are_unchanged_even_if_one_is_a_result(other: Other, tmp_path: Path) -> None:
    """No result shares memory with an input or with a weight."""
    (tmp_path / "same.py").write_text(SAME)
    (tmp_path / "same.toml").write_text(SAME_MANIFEST.replace("ENGINES", other.listed))
    bundle = tmp_path / "same.aotb"
    build_trusted(tmp_path / "same.toml", bundle)
    with aotc_runtime.load(bundle, trust=tmp_path / "trust.toml") as loaded:
        number, row = np.array(2.5, np.float32), np.arange(4, dtype=np.float32)
        given, kept, same = loaded["same"](row, number)
        row[:] = 7
    assert given.tolist() == [0, 1, 2, 3]
    assert kept.tolist() == [3, 4, 5]
    assert same.shape == () and same == 2.5


SAME = """
import jax.numpy as jnp

def init():
    return {"kept": jnp.arange(3.0, 6.0)}

def same(params, row, number):
    return row, params["kept"], number
"""

SAME_MANIFEST = manifest_of("""
name = "same"
engines = [ENGINES]

[weights.params]
init = "same:init"

[entry_points.same]
function = "same:same"
bind = { params = "params" }
inputs.row = { shape = [4], dtype = "float32" }
inputs.number = { shape = [], dtype = "float32" }
""")
