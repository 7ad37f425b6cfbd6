"""`aotc diff` and `aotc explain`: exit codes, documents, and what may be looked at unsigned."""

import shutil
from collections.abc import Callable
from pathlib import Path

from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle

Run = Callable[..., object]


def test_diff_exit_codes_are_0_and_9(aotc: Run, digits_bundle: Bundle, lm_bundle: Bundle) -> None:
    one, other = digits_bundle[0], lm_bundle[0]
    same = aotc("diff", one, one, "--json")
    assert (same.exit_code, same.document["ok"], same.document["changes"]) == (0, True, [])
    done = aotc("diff", one, other, "--json")
    assert (done.exit_code, done.document["ok"], done.document["exit_code"]) == (9, False, 9)
    assert [finding["code"] for finding in done.document["findings"]] == ["AOTC-E976"]
    assert {"identity", "interface", "weights"} <= {c["kind"] for c in done.document["changes"]}
    assert aotc("diff", one, other, "--fail-on", "none").exit_code == 0
    text = aotc("diff", one, other, "--fail-on", "weights")
    assert text.exit_code == 9 and text.codes == ["AOTC-E976"] and "weights" in text.stdout


def test_policy_is_asked(aotc: Run, refused: Run, digits_bundle: Bundle, lm_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    done = aotc("diff", bundle, bundle, "--trust", policy, "--json")
    assert done.document["after"]["signatures_verified"] is True
    assert "verified" in aotc("diff", bundle, bundle, "--trust", policy).stdout
    refused(["diff", bundle, lm_bundle[0], "--trust", policy], 5, "AOTC-E302")


def test_explain_tells_unchecked_signatures(aotc: Run, refused: Run, digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    plain = aotc("explain", bundle, "predict", "--profile", "batch=8")
    assert plain.exit_code == 0 and "signatures were not checked" in plain.stderr
    refused(["explain", bundle, "predict", "--trust", policy, "--untrusted"], 2, "AOTC-E001")
    done = aotc("explain", bundle, "predict", "--trust", policy, "--profile", "batch=8", "--json")
    assert done.document["signatures_verified"] is True
    (found,) = done.document["representations"]
    assert (found["sizes"], found["stage"]) == ({"batch": 8}, "stablehlo")
    text = aotc("explain", bundle, "predict", "--untrusted")
    assert text.stdout.count("func.func public @main") == 3
    assert "signatures were not checked" in text.stderr
    refused(["explain", bundle, "nothing", "--untrusted"], 2, "AOTC-E055")
    no_sizes = ["explain", bundle, "predict", "--untrusted", "--profile", "-"]
    assert "remove `--profile`" in refused(no_sizes, 2, "AOTC-E014").stderr


def test_damaged_blob_is_never_read(refused: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle = tmp_path / "damaged.aotb"
    shutil.copy(digits_bundle[0], bundle)
    contents, _ = read_unverified(open_bundle(bundle))
    manifest = next(iter(contents.manifests.values()))
    module = bytes(contents.blobs[manifest.entry_points["predict"].profiles[0].module.digest])
    data = bytearray(bundle.read_bytes())
    data[data.index(module) + 60] ^= 1
    bundle.write_bytes(data)
    refused(["explain", bundle, "predict", "--untrusted"], 5, "AOTC-E201")
    refused(["diff", digits_bundle[0], bundle], 5, "AOTC-E201")
