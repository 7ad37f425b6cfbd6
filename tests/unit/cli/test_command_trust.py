"""`aotc trust init`: policies that the runtime reads, and nothing in them but public keys."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.verification.policy_reader import policy_keys, read_policy

Run = Callable[..., Any]

UNHELD = (
    "nobody says who holds these keys, so each counts by itself: name their holders (--holder, or "
    "holder in the policy) before a key of somebody who has one is added"
)


@pytest.fixture
def pair(aotc: Run) -> str:
    """The id of ci.key and ci.pub."""
    key_id: str = aotc("keygen", "ci", "--plain", "--json").document["key_id"]
    return key_id


def test_the_runtime_reads_the_policy_as_it_was_asked_for(
    aotc: Run, tmp_path: Path, pair: str
) -> None:
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
    ("holders", "code"),
    [
        (("--holder", "ci"), "AOTC-E025"),
        ((*HELD, "--holder", "more"), "AOTC-E025"),
        (("--holder", "ci", "--holder", "ci"), "AOTC-E010"),
    ],
)
def test_holders_are_as_many_as_keys_and_enough_for_the_threshold(
    aotc: Run, refused: Run, tmp_path: Path, pair: str, holders: tuple[str, ...], code: str
) -> None:
    aotc("keygen", "other", "--plain")
    refused([*INIT, *holders, "--threshold", "2"], 2, code)
    assert not (tmp_path / "trust.toml").exists()


def test_a_key_that_two_are_said_to_hold_is_refused(
    refused: Run, tmp_path: Path, pair: str
) -> None:
    keys = ("--key", "ci.pub", "--key", "ci.pub")
    refused(["trust", "init", *keys, "--name", "a", *HELD], 5, "AOTC-E309")
    assert not (tmp_path / "trust.toml").exists()


@pytest.mark.parametrize(
    "text",
    [
        '"""\nname = "evil"\n{pem}\n\\ no TOML\n',
        "this is the key of release\n{pem}",
        "{pem}and this is not\n",
        "{pem}{pem}",
    ],
)
def test_a_file_with_more_than_a_key_is_refused(
    aotc: Run, refused: Run, tmp_path: Path, pair: str, text: str
) -> None:
    pem = (tmp_path / "ci.pub").read_text()
    (tmp_path / "noted.pub").write_text(text.replace("{pem}", pem))
    refused(["trust", "init", "--key", "noted.pub", "--name", "a"], 5, "AOTC-E310")
    assert not (tmp_path / "trust.toml").exists()
    assert aotc("trust", "init", "--key", "ci.pub", "--name", "a").exit_code == 0
    refused(["trust", "add-key", "trust.toml", "--key", "noted.pub"], 5, "AOTC-E310")
    by_file = 'schema = 1\nname = "a"\n[[keys]]\npublic_key_file = "noted.pub"\n'
    (tmp_path / "other.toml").write_text(by_file)
    refused(["trust", "check", "other.toml"], 5, "AOTC-E310")


def test_a_private_key_is_never_put_into_a_policy(refused: Run, tmp_path: Path, pair: str) -> None:
    secret = (tmp_path / "ci.key").read_text()
    (tmp_path / "both.pub").write_text((tmp_path / "ci.pub").read_text() + secret)
    private = refused(["trust", "init", "--key", "ci.key", "--name", "a"], 5, "AOTC-E310")
    assert "found     a private key" in private.stderr
    refused(["trust", "init", "--key", "both.pub", "--name", "a"], 5, "AOTC-E310")
    assert not (tmp_path / "trust.toml").exists()


@pytest.mark.parametrize("name", ["", "two words", 'a"b', "a\nb", "é", "\udcff", "x" * 129])
def test_a_name_that_no_bundle_has_is_refused(refused: Run, pair: str, name: str) -> None:
    refused(["trust", "init", "--key", "ci.pub", "--name", name], 2, "AOTC-E001")


@pytest.mark.parametrize("name", ["digits", "team-*", "a.b_c-1", "lm-[ab]?", "[!x]*"])
def test_names_and_globs_are_taken_literally(
    aotc: Run, tmp_path: Path, pair: str, name: str
) -> None:
    assert aotc("trust", "init", "--key", "ci.pub", "--name", name).exit_code == 0
    assert read_policy(tmp_path / "trust.toml").name == name


def test_an_existing_policy_is_never_overwritten(refused: Run, tmp_path: Path, pair: str) -> None:
    (tmp_path / "trust.toml").write_text("precious")
    refused(["trust", "init", "--key", "ci.pub", "--name", "a"], 2, "AOTC-E005")
    assert (tmp_path / "trust.toml").read_text() == "precious"


def test_one_key_twice_counts_once(refused: Run, tmp_path: Path, pair: str) -> None:
    keys = ["--key", "ci.pub", "--key", "ci.pub"]
    refused(["trust", "init", *keys, "--name", "a", "--threshold", "2"], 2, "AOTC-E010")
    assert not (tmp_path / "trust.toml").exists()


@pytest.mark.parametrize(
    ("key", "exit_code", "code"),
    [("gone", 2, "AOTC-E006"), (".", 2, "AOTC-E006"), ("/dev/null", 2, "AOTC-E006")],
)
def test_what_is_no_key_is_refused(refused: Run, key: str, exit_code: int, code: str) -> None:
    refused(["trust", "init", "--key", key, "--name", "a"], exit_code, code)


def test_a_policy_that_cannot_be_written_is_refused(refused: Run, pair: str) -> None:
    arguments = ["trust", "init", "--key", "ci.pub", "--name", "a", "-o", "gone/trust.toml"]
    refused(arguments, 2, "AOTC-E003")


def test_a_policy_appears_whole_and_leaves_nothing_beside_it(
    aotc: Run, refused: Run, tmp_path: Path, pair: str
) -> None:
    assert aotc("trust", "init", "--key", "ci.pub", "--name", "a").exit_code == 0
    refused(["trust", "init", "--key", "ci.pub", "--name", "b"], 2, "AOTC-E005")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ci.key", "ci.pub", "trust.toml"]
    assert (tmp_path / "trust.toml").stat().st_mode & 0o777 == 0o644


def test_where_files_cannot_be_linked_the_policy_is_written_in_place(
    aotc: Run, refused: Run, tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert aotc("trust", "init", "--key", "ci.pub", "--name", "a").exit_code == 0
    refused(["trust", "init", "--key", "ci.pub", "--name", "b"], 2, "AOTC-E005")
    assert read_policy(tmp_path / "trust.toml").name == "a"
