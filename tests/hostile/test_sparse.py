"""Bundles from which whole targets were left out: they load, and say so."""

import json
from pathlib import Path

import pytest

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.__main__ import main as runtime_main
from aotc_runtime.base.errors import IncompatibleHostError

from .archives import on_disk
from .tampering import MemoryBundle, take_apart, two_targets


@pytest.fixture
def trust(ours: LocalSigner, tmp_path: Path) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(policy_text("digits", [ours.public_pem()]))
    return path


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_a_target_left_out_is_named_and_the_rest_loads(
    form: str,
    genuine: MemoryBundle,
    ours: LocalSigner,
    trust: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    bundle, _, second = two_targets(take_apart(genuine), ours)
    for digest in second.values():
        bundle = bundle.without(digest)
    path = on_disk(bundle, form, tmp_path)
    assert runtime_main(["verify", str(path), "--trust", str(trust), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["target_reason"]["absent"] == ["other"]
    with aotc_runtime.load(path, trust=trust) as loaded:
        report = json.loads(json.dumps(loaded.report()))
    assert report["target_reason"]["absent"] == ["other"]
    assert [c["target"] for c in report["target_reason"]["candidates"]] == [report["target"]]
    with pytest.raises(IncompatibleHostError) as error:
        aotc_runtime.load(path, trust=trust, target="other")
    (finding,) = error.value.findings
    assert (finding.code, finding.found) == ("AOTC-E505", "other")
    assert finding.title == "target was left out of this copy"
