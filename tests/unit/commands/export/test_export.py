"""`aotc export`: files for another runtime, checked before they are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.tampering import Documents, swap_layer

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.capture.float64_module import interpret
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.safetensors_reader import tensor_views

Made = Callable[..., Path]
CHOICE = ("predict", "--as", "stablehlo", "--profile", "batch=8")


def write_policy(folder: Path, signer: LocalSigner) -> Path:
    """Write a policy that trusts a key."""
    (folder / "trust.toml").write_text(policy_text("digits", [signer.public_pem()]))
    return folder / "trust.toml"


@pytest.fixture
def export(
    aotc: Callable[..., Any], made: Made, signer: LocalSigner, tmp_path: Path
) -> Callable[..., Any]:
    """Run the command on the digits bundle, changed as asked, and a policy that trusts it."""

    def run(*arguments: str, change: Callable[[Documents], object] = lambda d: None) -> Any:
        bundle = made("b", "cpu-x86-64-v3", change)
        policy = write_policy(tmp_path, signer)
        output = tmp_path / "out"
        return aotc("export", bundle, "--trust", policy, "-o", output, "--json", *arguments)

    return run


def test_a_module_with_its_weights_computes_what_the_fixture_says(
    export: Callable[..., Any], tmp_path: Path
) -> None:
    document = export(*CHOICE[1:], "--precision", "float32").document
    folder = tmp_path / "out"
    assert document == {"ok": True} | json.loads((folder / "signature.json").read_text())
    assert (document["check"]["status"], document["precision"]) == ("matched", "float32")
    for name, digest in document["files"].items():
        assert sha256((folder / name).read_bytes()) == digest
    fixture = tensor_views(memoryview((folder / "fixture.safetensors").read_bytes()), "")
    (image,) = document["inputs"]
    assert (image["name"], image["dtype"], image["shape"]) == ("image", "float32", [8, 64])
    module = (folder / "model.mlirbc").read_bytes()
    results = interpret(module, [fixture["inputs/image"][0]])
    for described, result in zip(document["outputs"], results, strict=True):
        expected, _ = fixture[f"outputs/{described['path']}"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "code", "found"),
    [
        (("other", *CHOICE[1:]), "AOTC-E055", "other"),
        ((*CHOICE[:3],), "AOTC-E055", "predict[batch=1] for cpu-x86-64-v3"),
        ((*CHOICE[:3], "--profile", "batch=9"), "AOTC-E055", "batch=9"),
        ((*CHOICE, "--target", "other"), "AOTC-E055", "other"),
        (("predict", "--as", "onnx", "--profile", "batch=8"), "AOTC-E055", "onnx"),
        ((*CHOICE, "--precision", "small"), "AOTC-E055", "small"),
        ((*CHOICE, "-o", "there"), "AOTC-E004", "a file or folder"),
    ],
)
def test_what_is_not_one_executable_or_a_new_folder_is_refused(
    export: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: str,
    found: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (finding,) = export(*arguments).document["findings"]
    assert finding["code"] == code
    assert finding["found"].startswith(found)
    assert not (tmp_path / "out").exists() and not [*(tmp_path / "there").iterdir()]


def test_a_bundle_that_the_policy_does_not_trust_is_not_exported(
    aotc: Callable[..., Any], made: Made, tmp_path: Path
) -> None:
    policy = write_policy(tmp_path, LocalSigner.ephemeral())
    bundle, output = made("b", "cpu-x86-64-v3"), tmp_path / "out"
    done = aotc("export", bundle, *CHOICE, "--trust", policy, "-o", output, "--json")
    assert done.exit_code == 5
    assert not output.exists()


def test_a_model_whose_results_differ_from_the_fixture_is_not_written(
    export: Callable[..., Any], tmp_path: Path
) -> None:
    def other_results(documents: Documents) -> None:
        profiles = documents.manifest["entry_points"]["predict"]["profiles"]
        digest = next(each for each in profiles if each["sizes"] == {"batch": 8})["fixture"][
            "digest"
        ]
        views = tensor_views(memoryview(documents.layers[digest]), "")
        tensors = {name: np.array(array) for name, (array, _) in views.items()}
        tensors["outputs/probabilities"][3, 4] += 1e-3
        swap_layer(documents, digest, write_tensors(tensors, where="fixture"))

    (finding,) = export(*CHOICE, change=other_results).document["findings"]
    assert finding["code"] == "AOTC-E059"
    assert finding["title"] == "exported model differs from its fixture"
    assert not (tmp_path / "out").exists()
