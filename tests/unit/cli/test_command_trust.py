"""`aotc trust init`: policies that the runtime reads, and nothing in them but public keys."""

from pathlib import Path

import pytest

from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from tests.conftest import Run

UNHELD = (
    "keys without a holder count separately: name their holders (--holder, or holder in the "
    "policy) before you add another key of one of them"
)


@pytest.fixture
def pair(aotc: Run) -> str:
    """The id of ci.key and ci.pub."""
    return aotc("keygen", "ci", "--plain", "--json").document["key_id"]


def test_runtime_reads_the_written_policy(aotc: Run, tmp_path: Path, pair: str) -> None:
    other = aotc("keygen", "other", "--plain", "--json").document["key_id"]
    keys = ("--key", "ci.pub", "--key", "other.pub")
    done = aotc("trust", "init", *keys, "--name", "team-*", "--threshold", "2", "--json")
    assert done.document == {
        "ok": True,
        "policy": "trust.toml",
        "name": "team-*",
        "threshold": 2,
        "keys": [pair, other],
        "holders": [],
        "notes": [UNHELD],
    }
    policy = read_policy(tmp_path / "trust.toml")
    assert (policy.name, policy.threshold) == ("team-*", 2)
    assert set(policy_keys(policy)) == {pair, other}


INIT = ("trust", "init", "--key", "ci.pub", "--key", "other.pub", "--name", "a")
HELD = ("--holder", "ci", "--holder", 'the "other"')

REFUSED = [
    ("--key ci.pub --key other.pub --threshold 2 --holder ci", 2, "AOTC-E025"),
    ("--key ci.pub --key other.pub --holder a --holder b --holder c", 2, "AOTC-E025"),
    ("--key ci.pub --key other.pub --threshold 2 --holder ci --holder ci", 2, "AOTC-E010"),
    ("--key ci.pub --key ci.pub --threshold 2", 2, "AOTC-E010"),
    ("--key ci.pub --key ci.pub --holder a --holder b", 5, "AOTC-E309"),
    ("--key ci.pub -o gone/trust.toml", 2, "AOTC-E003"),
    ("--key ci.pub -o ci.key", 2, "AOTC-E005"),
    ("--key ci.key", 5, "AOTC-E310"),
    ("--key both.pub", 5, "AOTC-E310"),
]


@pytest.mark.parametrize(("options", "exit_code", "code"), REFUSED)
def test_what_makes_no_policy_is_refused_and_nothing_is_written(
    aotc: Run, refused: Run, tmp_path: Path, pair: str, options: str, exit_code: int, code: str
) -> None:
    aotc("keygen", "other", "--plain")
    secret = (tmp_path / "ci.key").read_text()
    (tmp_path / "both.pub").write_text((tmp_path / "ci.pub").read_text() + secret)
    done = refused(["trust", "init", "--name", "a", *options.split()], exit_code, code)
    assert ("found     a private key" in done.stderr) == (code == "AOTC-E310")
    assert not (tmp_path / "trust.toml").exists() and (tmp_path / "ci.key").read_text() == secret


def test_holders_are_written_beside_their_keys(aotc: Run, tmp_path: Path, pair: str) -> None:
    other = aotc("keygen", "other", "--plain", "--json").document["key_id"]
    done = aotc(*INIT, *HELD, "--threshold", "2", "--json")
    assert (done.document["holders"], done.document["notes"]) == (["ci", 'the "other"'], [])
    keys = policy_keys(read_policy(tmp_path / "trust.toml"))
    assert {id: key.holder for id, key in keys.items()} == {pair: "ci", other: 'the "other"'}


def test_a_threshold_of_keys_that_nobody_holds_is_noted(aotc: Run, pair: str) -> None:
    aotc("keygen", "other", "--plain")
    done = aotc(*INIT, "--threshold", "2")
    assert (done.exit_code, done.stderr) == (0, f"note: {UNHELD}\n")
    assert aotc(*INIT, "-o", "one.toml").stderr == ""


@pytest.mark.parametrize(
    "text",
    [
        '"""\nname = "evil"\n{pem}\n\\ no TOML\n',
        "this is the key of release\n{pem}",
        "{pem}and this is not\n",
        "{pem}{pem}",
    ],
)
def test_one_key_a_file(aotc: Run, refused: Run, tmp_path: Path, pair: str, text: str) -> None:
    pem = (tmp_path / "ci.pub").read_text()
    (tmp_path / "noted.pub").write_text(text.replace("{pem}", pem))
    refused(["trust", "init", "--key", "noted.pub", "--name", "a"], 5, "AOTC-E310")
    assert not (tmp_path / "trust.toml").exists()
    assert aotc("trust", "init", "--key", "ci.pub", "--name", "a").exit_code == 0
    refused(["trust", "add-key", "trust.toml", "--key", "noted.pub"], 5, "AOTC-E310")
    by_file = 'schema = 1\nname = "a"\n[[keys]]\npublic_key_file = "noted.pub"\n'
    (tmp_path / "other.toml").write_text(by_file)
    refused(["trust", "check", "other.toml"], 5, "AOTC-E310")


@pytest.mark.parametrize("name", ["digits", "team-*", "a.b_c-1", "lm-[ab]?", "[!x]*"])
def test_names_are_taken_literally(aotc: Run, tmp_path: Path, pair: str, name: str) -> None:
    assert aotc("trust", "init", "--key", "ci.pub", "--name", name).exit_code == 0
    assert read_policy(tmp_path / "trust.toml").name == name
    assert (tmp_path / "trust.toml").stat().st_mode & 0o777 == 0o644
