"""`aotc trust`: whose keys are whose, and which builders they may speak for."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from tests.conftest import Bundle, Run
from tests.documented import code_of
from tests.hostile.identities import IDENTITY, ISSUER, Sigstore

ROOT = Path(__file__).parents[3]

BUILDER = "https://ci.example.org/app"
ADD = ("trust", "add-key", "trust.toml", "--key", "ci-2027.pub")


@pytest.fixture
def ids(aotc: Run) -> dict[str, str]:
    """Key ids by name; trust.toml asks for two of ci and release."""
    names = ("ci", "release", "ci-2027")
    made = {name: aotc("keygen", name, "--plain", "--json").document["key_id"] for name in names}
    keys = ("--key", "ci.pub", "--holder", "ci", "--key", "release.pub", "--holder", "release")
    aotc("trust", "init", *keys, "--threshold", "2", "--name", "digits")
    return made


@pytest.fixture
def bundle(digits_bundle: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "digits.aotb"))


def write(text: str) -> None:
    Path("trust.toml").write_text(text, "utf-8")


def policy() -> str:
    return Path("trust.toml").read_text("utf-8")


def test_rotation_keeps_two(aotc: Run, ids: dict[str, str], bundle: Path, refused: Run) -> None:
    """Sign with the old and the new key of CI, as trust-policy.md describes changing keys."""
    assert aotc(*ADD, "--name", "ci-2027", "--holder", "ci").exit_code == 0
    for name in ("ci", "ci-2027"):
        assert aotc("sign", str(bundle), "--key", f"{name}.key").exit_code == 0
    verify = ["verify", str(bundle), "--trust", "trust.toml"]
    assert "missing: release" in refused(verify, 5, "AOTC-E304").stderr
    assert aotc("sign", str(bundle), "--key", "release.key").exit_code == 0
    assert aotc(*verify).exit_code == 0


def test_two_signers_guide(aotc: Run, refused: Run, bundle: Path, digits_bundle: Bundle) -> None:
    page = ROOT / "docs" / "guides" / "signing.md"
    lines = [line for line in code_of("sh", page, "Keys", "Signing").splitlines() if line]
    assert len(lines) == 6
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "aotc"
        assert aotc(*arguments).exit_code == 0, line
        if arguments[-1] == "ci.key":
            verify = ["verify", "digits.aotb", "--trust", "trust.toml"]
            said = refused(verify, 5, "AOTC-E304").stderr
            assert re.search(r"ci \([0-9a-f]{16}\); missing: release", said)
            assert "hint: " in said


def test_add_key_needs_holder_with_holder_threshold(refused: Run, ids: dict[str, str]) -> None:
    before = policy()
    done = refused([*ADD, "--name", "ci-2027"], 2, "AOTC-E025")
    assert "a threshold of 2" in done.stderr
    assert policy() == before


def test_a_certifiers_key_is_nobodys_vote(aotc: Run, ids: dict[str, str]) -> None:
    done = aotc(*ADD, "--certifier", "--json")
    assert (done.exit_code, done.document["notes"]) == (0, [])


@pytest.mark.parametrize(
    ("threshold", "holder", "note"),
    [
        (2, "QA", "QA is a holder of its own, beside ci, release: "),
        (2, "ci", None),
        (1, "CI", None),
    ],
)
def test_a_holder_that_the_policy_does_not_know_is_noted_where_a_threshold_counts_holders(
    aotc: Run, ids: dict[str, str], threshold: int, holder: str, note: str | None
) -> None:
    write(policy().replace("threshold = 2", f"threshold = {threshold}"))
    done = aotc(*ADD, "--holder", holder, "--json").document
    assert done["holder"] == holder
    assert [said[: len(note or "")] for said in done["notes"]] == [note] * (note is not None)


def test_identity_and_key_sign_for_the_same_holder(aotc: Run, ids: dict[str, str]) -> None:
    pytest.importorskip("sigstore")
    root = Sigstore().trusted_root()
    stated = {"issuer": ISSUER, "identity": IDENTITY, "trusted_root": root, "holder": "job"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in stated.items()]
    write("\n".join([policy(), "[[identities]]", *lines, ""]))
    assert aotc(*ADD, "--holder", "job", "--json").document["notes"] == []


def test_builders_are_written_and_the_first_is_noted(aotc: Run, ids: dict[str, str]) -> None:
    first = aotc(*ADD, "--holder", "ci", "--builder", BUILDER, "--json").document
    assert first["builders"] == [BUILDER]
    assert first["notes"] == [
        "the keys without builders could describe builds of all builders so far; from now on "
        "they only endorse: name their builders"
    ]
    aotc("keygen", "auditor", "--plain")
    add = ("trust", "add-key", "trust.toml", "--key", "auditor.pub", "--holder", "release")
    second = aotc(*add, "--endorses-only", "--json").document
    assert (second["builders"], second["notes"]) == ([], [])
    keys = policy_keys(read_policy(Path("trust.toml"))).values()
    assert [key.builders for key in keys] == [None, None, (BUILDER,), ()]


SPOKEN = f'accepts.builders = ["{BUILDER}"]\n'
ANY = "every key may describe a build of any builder"
BOUND = f'builders = ["{BUILDER}"]\nholder = "ci"'

# What is put in front of the policy, what of it is replaced, and the warning.
WARNED = [
    ("", "", "", None),
    ("", 'holder = "ci"\n', "", "keys without a holder count separately: {ci}"),
    (SPOKEN, "", "", ANY),
    ("minimum_build_time = 2026-01-01T00:00:00Z\n", "", "", ANY),
    (SPOKEN, 'holder = "ci"', BOUND, None),
]


@pytest.mark.parametrize(("rule", "old", "new", "warning"), WARNED)
def test_check_notes_what_nobody_says_of_holders_and_builders(
    rule: str, old: str, new: str, warning: str | None, aotc: Run, ids: dict[str, str]
) -> None:
    write(rule + policy().replace(old, new))
    found = aotc("trust", "check", "trust.toml", "--json").document["warnings"]
    wanted = "" if warning is None else warning.format(ci=ids["ci"][:16])
    assert [each[: len(wanted)] for each in found] == [wanted] * (warning is not None)


def test_check_notes_nothing_for_one_key(aotc: Run, ids: dict[str, str]) -> None:
    write(policy().replace('holder = "ci"\n', "").replace("threshold = 2", "threshold = 1"))
    assert aotc("trust", "check", "trust.toml", "--json").document["warnings"] == []
    aotc("trust", "init", "--key", "ci.pub", "--name", "digits", "-o", "one.toml")
    Path("one.toml").write_text(SPOKEN + Path("one.toml").read_text("utf-8"), "utf-8")
    assert aotc("trust", "check", "one.toml", "--json").document["warnings"] == []


@pytest.mark.parametrize("holder", ["Zoë", "🚀 crew", "a\x7fb", 'of "quotes" and \\'])
def test_holders_have_ordinary_names(holder: str, aotc: Run, ids: dict[str, str]) -> None:
    keys = ("--key", "ci.pub", "--holder", holder)
    assert aotc("trust", "init", *keys, "--name", "digits", "-o", "new.toml").exit_code == 0
    (key,) = read_policy(Path("new.toml")).keys
    assert key.holder == holder


def test_check_counts_holders(aotc: Run, refused: Run, ids: dict[str, str]) -> None:
    assert aotc(*ADD, "--holder", "ci").exit_code == 0
    assert (
        "2 of 2 holders of valid keys have to sign" in aotc("trust", "check", "trust.toml").stdout
    )
    assert aotc("trust", "revoke", "trust.toml", "--key", "release.pub").exit_code == 0
    done = refused(["trust", "check", "trust.toml"], 5, "AOTC-E321")
    assert f"found     1; not release ({ids['release'][:16]}) (revoked)" in done.stderr


def test_show_says_whose_a_key_is_and_for_whom_it_speaks(aotc: Run, ids: dict[str, str]) -> None:
    aotc(*ADD, "--holder", "ci", "--builder", BUILDER)
    shown = aotc("trust", "show", "trust.toml").stdout
    assert f"held by ci, speaks for {BUILDER}" in shown and "held by release\n" in shown
    keys = aotc("trust", "show", "trust.toml", "--json").document["keys"]
    assert [(key["holder"], key["builders"]) for key in keys] == [
        ("ci", None),
        ("release", None),
        ("ci", [BUILDER]),
    ]


def test_release_needs_holders(aotc: Run, refused: Run, ids: dict[str, str], bundle: Path) -> None:
    """CI's second key would add nothing to its first."""
    assert aotc(*ADD, "--holder", "ci").exit_code == 0
    assert aotc("sign", str(bundle), "--key", "ci.key").exit_code == 0
    sign = ("sign", str(bundle), "--trust", "trust.toml", "--key")
    refused([*sign, "ci-2027.key"], 5, "AOTC-E304")
    assert f"beside   ci ({ids['ci'][:16]})" in aotc(*sign, "release.key").stdout
    aotc("keygen", "stranger", "--plain")
    assert aotc(*sign, "stranger.key").exit_code == 0  # enough have signed without it
