"""`extract`: fewer targets, the same root and the same signatures."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.tampering import Documents, policy_for

from aotc.base.errors import UsageError
from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner, generate_key_pair
from aotc.bundle.trust.trust_text import write_policy
from aotc.bundle.write.bundle_writer import Form, pack
from aotc.commands.extract.extracted_bundle import extract
from aotc.commands.merge.merged_bundle import merge, target_parts_of
from aotc_runtime.base.errors import IncompatibleHostError
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import examine, read_unverified
from tests.conftest import Run

Made = Callable[..., Path]
BUILT, OTHER = "cpu-x86-64-v3", "other"


@pytest.fixture(scope="session")
def here() -> HostFacts:
    return detect()


@pytest.fixture(params=[Form.ARCHIVE, Form.LAYOUT])
def form(request: pytest.FixtureRequest) -> Form:
    return request.param


@pytest.fixture
def whole(made: Made, signer: LocalSigner, tmp_path: Path) -> Path:
    parts = []
    for path in (made("one", BUILT), made("two", OTHER)):
        source = open_bundle(path)
        parts += target_parts_of(source, read_unverified(source)[0])
    bundle = pack(tmp_path / "whole.aotb", Form.ARCHIVE, merge(parts))
    endorse(bundle.path, signer)
    return bundle.path


def test_a_copy_has_the_same_root_and_its_signature_verifies(
    whole: Path, form: Form, signer: LocalSigner, here: HostFacts, tmp_path: Path
) -> None:
    copy = extract(open_bundle(whole), [OTHER], tmp_path / "small", form)
    assert list(copy.manifests) == [OTHER]
    verdict = examine(open_bundle(copy.path), policy_for(signer), here, time.time())
    assert (verdict.findings, verdict.target) == ((), OTHER)
    assert verdict.choice and verdict.choice.absent == (BUILT,)
    assert verdict.root_digest == read_root(open_bundle(whole)).entry.digest
    assert verdict.signers == (signer.key_id,)
    assert copy.size_bytes < whole.stat().st_size
    lacking = examine(open_bundle(copy.path), policy_for(signer), here, time.time(), BUILT)
    assert [finding.code for finding in lacking.findings] == ["AOTC-E505"]


def test_every_copied_file_is_of_the_whole(whole: Path, form: Form, tmp_path: Path) -> None:
    copy = extract(open_bundle(whole), [BUILT], tmp_path / "small", form).path
    before, after = (open_bundle(path).members for path in (whole, copy))
    assert all(bytes(before[name]) == bytes(data) for name, data in after.items())
    assert len(before) - len(after) == 3, "an executable and two documents less"


def test_all_targets_make_the_whole_again(whole: Path, form: Form, tmp_path: Path) -> None:
    copy = extract(open_bundle(whole), [OTHER, BUILT, OTHER], tmp_path / "copy", form)
    before, after = (open_bundle(path).members for path in (whole, copy.path))
    assert before.keys() == after.keys()


@pytest.mark.parametrize("target", [BUILT, "never"])
def test_missing_target_writes_nothing(whole: Path, tmp_path: Path, target: str) -> None:
    small = extract(open_bundle(whole), [OTHER], tmp_path / "small", Form.ARCHIVE).path
    with pytest.raises(IncompatibleHostError) as error:
        extract(open_bundle(small), [OTHER, target], tmp_path / "none", Form.ARCHIVE)
    (finding,) = error.value.findings
    assert (finding.code, finding.found) == ("AOTC-E505", target)
    assert ("left out" in finding.title) == (target == BUILT)
    assert not (tmp_path / "none").exists()


def test_copy_is_not_signed_for_unseen_targets(whole: Path, tmp_path: Path) -> None:
    small = extract(open_bundle(whole), [OTHER], tmp_path / "small", Form.ARCHIVE).path
    before = small.read_bytes()
    with pytest.raises(UsageError) as error:
        endorse(small, LocalSigner.ephemeral())
    assert error.value.code == "AOTC-E052" and BUILT in error.value.findings[0].found
    assert small.read_bytes() == before


def test_verified_copy_has_no_summary_for_unseen_targets(
    whole: Path, refused: Run, signer: LocalSigner, tmp_path: Path
) -> None:
    extract(open_bundle(whole), [OTHER], tmp_path / "small", Form.ARCHIVE)
    policy, key = tmp_path / "trust.toml", tmp_path / "v"
    (tmp_path / "ci.pub").write_text(signer.public_pem())
    write_policy(policy, "digits", [tmp_path / "ci.pub"], 1, ())
    generate_key_pair(key, None)
    summary = ["--summary", "s.json", "--key", f"{key}.key"]
    refused(["verify", "small", "--trust", policy, *summary], 2, "AOTC-E052")
    assert not (tmp_path / "s.json").exists()


def test_a_name_that_steers_a_terminal_is_told_as_a_digest(made: Made, tmp_path: Path) -> None:
    def rename(documents: Documents) -> None:
        for reference in documents.root["manifests"]:
            reference["annotations"] = {"vnd.aotc.target": "\x1b[2J"}

    path = made("one", BUILT, rename)
    other = made("two", OTHER)
    parts = []
    for bundle in (path, other):
        source = open_bundle(bundle)
        parts += target_parts_of(source, read_unverified(source)[0])
    joined = pack(tmp_path / "joined", Form.ARCHIVE, merge(parts)).path
    small = extract(open_bundle(joined), [OTHER], tmp_path / "small", Form.ARCHIVE).path
    source = open_bundle(small)
    root = json.loads(bytes(source.blob(read_root(source).entry.digest) or b""))
    (absent,) = read_unverified(source)[0].absent
    assert absent in [reference["digest"] for reference in root["manifests"]]
