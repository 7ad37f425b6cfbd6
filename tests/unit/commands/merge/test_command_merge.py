"""`aotc merge` and `aotc extract`: whose inputs are taken, what is signed, and what is refused."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hostile.archives import on_disk
from hostile.tampering import in_memory, put_together, second_target, signed, take_apart

from aotc.bundle.sign.signer import load_signer
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle, Run

BUILT = "cpu-x86-64-v3"


@pytest.fixture
def one(digits_bundle: Bundle) -> Path:
    return digits_bundle[0]


@pytest.fixture
def two(aotc: Run, one: Path, tmp_path: Path) -> Path:
    """The same program for another target, signed by k.key, which this makes."""
    aotc("keygen", "k", "--plain")
    documents = take_apart(in_memory(one))
    second_target(documents)
    del documents.targets[0], documents.root["manifests"][0]
    kept = {layer["digest"] for layer in documents.image["layers"]}
    documents.layers = {d: data for d, data in documents.layers.items() if d in kept}
    bundle = signed(documents, load_signer(Path("k.key"), None))
    return on_disk(bundle, "archive", tmp_path).rename(tmp_path / "two.aotb")


@pytest.fixture
def policy(aotc: Run, digits_bundle: Bundle, two: Path, tmp_path: Path) -> Path:
    """Return a policy that trusts the signers of both."""
    aotc("trust", "init", "--key", "k.pub", "--name", "digits")
    text = Path("trust.toml").read_text("utf-8")
    keys = digits_bundle[1].read_text()
    Path("trust.toml").write_text(text + "\n" + keys[keys.index("[[keys]]") :], "utf-8")
    return tmp_path / "trust.toml"


def predicate(path: str) -> dict[str, Any]:
    """Return what the only signature of a bundle says of its making."""
    _, (envelope, *_) = read_unverified(open_bundle(path))
    payload = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    return payload["predicate"]


def test_merged_bundle_names_its_inputs(aotc: Run, one: Path, two: Path, policy: Path) -> None:
    done = aotc("merge", one, two, "-o", "c.aotb", "--trust", policy, "--key", "k.key", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.document["targets"] == [BUILT, "other"]
    verified = aotc("verify", "c.aotb", "--trust", policy, "--json").document
    assert (verified["ok"], verified["root_digest"]) == (True, done.document["root_digest"])
    definition = predicate("c.aotb")["buildDefinition"]
    assert definition["buildType"] == "https://aotc.dev/merge/v1"
    named = definition["resolvedDependencies"]
    roots = [read_unverified(open_bundle(path))[0].root_digest for path in (one, two)]
    assert [f"sha256:{d['digest']['sha256']}" for d in named] == roots
    signer = load_signer(Path("k.key"), None).key_id
    assert named[1]["annotations"] == {"signers": [signer], "targets": ["other"]}
    assert named[0]["annotations"]["signers"] not in ([], [signer])
    assert [found["root_digest"] for found in done.document["inputs"]] == roots


def test_unsigned_is_told(aotc: Run, refused: Run, one: Path, two: Path, policy: Path) -> None:
    done = aotc("merge", one, two, "--layout", "c", "--trust", policy)
    assert done.exit_code == 0 and "aotc sign c --key KEY" in done.stderr
    refused(["verify", "c", "--trust", str(policy)], 5, "AOTC-E301")


def test_trust_or_unsigned_is_required(refused: Run, one: Path, two: Path, policy: Path) -> None:
    merge = ["merge", str(one), str(two), "-o", "c.aotb"]
    refused(merge, 2, "AOTC-E001")
    refused([*merge, "--trust", str(policy), "--unsigned-inputs"], 2, "AOTC-E001")
    refused([*merge[:-2], "--unsigned-inputs"], 2, "AOTC-E001")
    assert not Path("c.aotb").exists()


def test_inputs_that_the_policy_does_not_accept_are_refused(
    aotc: Run, refused: Run, digits_bundle: Bundle, one: Path, two: Path
) -> None:
    merge = ["merge", str(one), str(two), "-o", "c.aotb", "--key", "k.key"]
    refused([*merge, "--trust", str(digits_bundle[1])], 5, "AOTC-E302")
    assert not Path("c.aotb").exists()
    done = aotc(*merge, "--unsigned-inputs", "--json")
    assert done.exit_code == 0
    assert [found["signers"] for found in done.document["inputs"]] == [[], []]


REFUSING = {
    "revoked root": ("[revoked]\nroots = ['{root}']\n", "AOTC-E313"),
    "revoked blob": ("[revoked]\nblobs = ['{weights}']\n", "AOTC-E314"),
    "sizes": ("[limits]\nblobs = 3\n", "AOTC-E320"),
    "build time": ("minimum_build_time = 2099-01-01T00:00:00Z\n", "AOTC-E315"),
    "version": ('minimum_version = "2"\n', "AOTC-E307"),
}


@pytest.mark.parametrize(("rule", "code"), REFUSING.values(), ids=REFUSING.keys())
def test_every_rule_of_the_policy_but_those_on_the_host_is_asked_of_the_inputs(
    refused: Run, one: Path, digits_bundle: Bundle, rule: str, code: str, tmp_path: Path
) -> None:
    contents, _ = read_unverified(open_bundle(one))
    weights = contents.manifests[BUILT].weights["params"].blobs[0].digest
    rule = rule.format(root=contents.root_digest, weights=weights)
    text = digits_bundle[1].read_text()
    at = len(text) if rule.startswith("[") else text.index("[[keys]]")
    (tmp_path / "strict.toml").write_text(text[:at] + "\n" + rule + text[at:])
    refused(["merge", str(one), "-o", "c.aotb", "--trust", "strict.toml"], 5, code)


def test_merge_ignores_host(aotc: Run, one: Path, digits_bundle: Bundle, tmp_path: Path) -> None:
    policy = digits_bundle[1].read_text() + "\n[accepts]\njaxlib = ['0.0.1']\n"
    (tmp_path / "other.toml").write_text(policy)
    assert aotc("merge", one, "-o", "c.aotb", "--trust", "other.toml").exit_code == 0


def test_merging_makes_no_old_build_pass_for_a_new_one(
    aotc: Run, one: Path, two: Path, policy: Path, digits_bundle: Bundle
) -> None:
    aotc("merge", one, "-o", "a.aotb", "--trust", digits_bundle[1], "--key", "k.key")
    built = predicate(str(one))["runDetails"]["metadata"]["finishedOn"]
    assert predicate("a.aotb")["runDetails"]["metadata"] == {"finishedOn": built}
    # What signed the second says nothing of a time.
    aotc("merge", one, "-o", "b.aotb", "--unsigned-inputs", "--key", "k.key")
    assert predicate("b.aotb")["runDetails"]["metadata"] == {}


def test_differences_are_all_told(aotc: Run, refused: Run, one: Path, train_bundle: Bundle) -> None:
    merge = ["merge", str(one), str(train_bundle[0]), "-o", "c.aotb", "--unsigned-inputs"]
    done = refused(merge, 2, "AOTC-E050")
    assert len(done.codes) > 2
    assert not Path("c.aotb").exists()


def test_a_file_of_another_kind_is_not_replaced(refused: Run, one: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(["merge", str(one), "-o", "notes.txt", "--unsigned-inputs"], 2, "AOTC-E004")
    refused(["extract", str(one), "--target", BUILT, "-o", "notes.txt"], 2, "AOTC-E004")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_extracting_and_looking_at_it(aotc: Run, one: Path, two: Path, policy: Path) -> None:
    aotc("merge", one, two, "-o", "c.aotb", "--trust", policy, "--key", "k.key")
    whole = aotc("inspect", "c.aotb", "--json").document
    assert whole["absent_targets"] == []
    done = aotc("extract", "c.aotb", "--target", "other", "-o", "s.aotb", "--json")
    assert done.document["targets"] == ["other"]
    assert done.document["root_digest"] == whole["root_digest"]
    assert done.document["size_bytes"] == Path("s.aotb").stat().st_size
    small = aotc("inspect", "s.aotb", "--json").document
    assert (small["absent_targets"], list(small["targets"])) == ([BUILT], ["other"])
    assert f"absent  {BUILT}" in aotc("inspect", "s.aotb").stdout
    verified = aotc("verify", "s.aotb", "--trust", policy)
    assert verified.exit_code == 0 and f"absent  {BUILT}" in verified.stdout
    reason = aotc("verify", "s.aotb", "--trust", policy, "--json").document["target_reason"]
    assert (reason["absent"], [c["target"] for c in reason["candidates"]]) == ([BUILT], ["other"])


@pytest.mark.parametrize("option", ["--output", "--layout"])
def test_source_is_kept(refused: Run, one: Path, two: Path, aotc: Run, option: str) -> None:
    aotc("merge", one, two, option, "c", "--unsigned-inputs")
    Path("link").symlink_to("c")
    for place in ("c", "./c", "link"):
        refused(["extract", "c", "--target", "other", option, place], 2, "AOTC-E054")
        refused(["merge", two, "c", option, place, "--unsigned-inputs"], 2, "AOTC-E054")
    assert aotc("inspect", "c", "--json").document["absent_targets"] == []
    assert aotc("extract", "c", "--target", "other", option, "d").exit_code == 0


def test_extracting_what_is_not_there(refused: Run, one: Path) -> None:
    refused(["extract", str(one), "--target", "nope", "-o", "s.aotb"], 7, "AOTC-E505")
    refused(["extract", str(one), "--target", BUILT], 2, "AOTC-E001")
    refused(["extract", str(one), "-o", "s.aotb"], 2, "AOTC-E001")


def test_verify_says_why_this_target(aotc: Run, one: Path, two: Path, policy: Path) -> None:
    aotc("merge", one, two, "-o", "c.aotb", "--trust", policy, "--key", "k.key")
    done = aotc("verify", "c.aotb", "--trust", policy)
    assert "before other, which uses" in done.stdout


def test_targets_of_two_jaxlibs_are_noted(aotc: Run, one: Path, two: Path, tmp_path: Path) -> None:
    documents = take_apart(in_memory(two))
    documents.manifest["accepts_jaxlib"] = ["0.11.2"]
    documents.manifest["built_with"]["jaxlib"] = "0.11.2"
    documents.envelopes = []
    other = on_disk(put_together(documents), "archive", tmp_path)
    done = aotc("merge", one, other, "-o", "c.aotb", "--unsigned-inputs")
    assert done.exit_code == 0 and "other 0.11.2" in done.stderr
    assert (
        aotc("merge", one, two, "-o", "c.aotb", "--unsigned-inputs", "--json").document["notes"]
        == []
    )
