"""`aotc verify`, `inspect` and `sign` on a real bundle, and on what is none."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Bundle, Run


@pytest.fixture
def copied(digits_bundle: Bundle, tmp_path: Path) -> Bundle:
    """A bundle and its policy, to be changed."""
    return (
        Path(shutil.copy(digits_bundle[0], tmp_path / "b.aotb")),
        Path(shutil.copy(digits_bundle[1], tmp_path / "trust.toml")),
    )


def test_a_good_bundle_is_verified_as_text_and_json(aotc: Run, digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle
    text = aotc("verify", bundle, "--trust", policy)
    assert (text.exit_code, text.stderr) == (0, "")
    assert text.stdout.startswith("ok ")
    document = aotc("verify", bundle, "--trust", policy, "--json").document
    assert document["ok"] is True
    assert (document["name"], document["version"]) == ("digits", "1.0.0")
    assert (document["findings"], len(document["signers"])) == ([], 1)
    assert document["root_digest"] in text.stdout


@pytest.mark.parametrize("command", [["inspect"], ["verify", "--trust", "trust.toml"]])
@pytest.mark.parametrize(
    ("path", "code"), [("gone", "AOTC-E108"), (".", "AOTC-E109"), ("trust.toml", "AOTC-E103")]
)
def test_what_is_no_bundle_is_refused_with_exit_code_5(
    refused: Run, copied: Bundle, command: list[str], path: str, code: str
) -> None:
    refused([command[0], path, *command[1:]], 5, code)


@pytest.mark.parametrize(
    ("path", "code"),
    [("gone", "AOTC-E308"), (".", "AOTC-E308"), ("b.aotb", "AOTC-E309"), ("odd", "AOTC-E309")],
)
def test_invalid_policy_exits_with_5(refused: Run, copied: Bundle, path: str, code: str) -> None:
    (copied[0].parent / "odd").write_text('schema = 1\nname = "digits"\nkeyz = []\n')
    refused(["verify", "b.aotb", "--trust", path], 5, code)


def test_a_key_that_cannot_sign_is_refused_and_the_bundle_left_alone(
    aotc: Run, refused: Run, copied: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copied[0].read_bytes()
    aotc("keygen", "plain", "--plain")
    monkeypatch.setenv("AOTC_KEY_PASSPHRASE", "right")
    aotc("keygen", "locked")
    monkeypatch.setenv("AOTC_KEY_PASSPHRASE", "wrong")
    refused(["sign", "b.aotb", "--key", "locked.key"], 2, "AOTC-E007")
    monkeypatch.delenv("AOTC_KEY_PASSPHRASE")
    refused(["sign", "b.aotb", "--key", "locked.key"], 2, "AOTC-E007")
    for path in ("plain.pub", "gone.key", ".", "b.aotb", "/dev/zero"):
        refused(["sign", "b.aotb", "--key", path], 2, "AOTC-E006")
    refused(["sign", "gone", "--key", "plain.key"], 5, "AOTC-E108")
    assert copied[0].read_bytes() == before


def test_inspect_shows_contents_and_claimed_signers(aotc: Run, digits_bundle: Bundle) -> None:
    done = aotc("inspect", digits_bundle[0])
    assert (done.exit_code, done.stderr) == (0, "")
    document = aotc("inspect", digits_bundle[0], "--json").document
    assert document["signatures_verified"] is False
    target = document["targets"]["cpu-x86-64-v3"]
    predict = target["entry_points"]["predict"]
    assert predict["inputs"] == {"image": "float32[batch, 64]"}
    assert [profile["sizes"] for profile in predict["profiles"]] == [
        {"batch": 1},
        {"batch": 8},
        {"batch": 64},
    ]
    assert all(profile["parity"]["status"] == "ran" for profile in predict["profiles"])
    for shown in (document["root_digest"], "batch=64", "float32[batch, 64]", "not verified"):
        assert shown in done.stdout
