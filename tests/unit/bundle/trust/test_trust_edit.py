"""Policies changed as text: what is added is there, and everything else stays as it was."""

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.trust.trust_files import revoke, with_key, with_revoked
from aotc.bundle.trust.trust_text import policy_text
from tests.conftest import ROOT
from tests.refusals import error_of

PEM = "-----BEGIN PUBLIC KEY-----\nabc=\n-----END PUBLIC KEY-----\n"
HEAD = 'schema = 1 # version\nname = "x"\n'
KEY = '[[keys]] # ours\npublic_key = "a"\n'

TEXTS = {
    "keys last": HEAD + KEY,
    "no newline at the end": (HEAD + KEY).rstrip("\n"),
    "keys in the middle": HEAD + KEY + '\n# approved\n[accepts]\njaxlib = ["1"]\n',
    "inline keys": HEAD + 'keys = [{ public_key = "a" }]\n',
    "Windows": (HEAD + KEY + "\n[limits]\nblobs = 5 # few\n").replace("\n", "\r\n"),
    "revoked": HEAD + '[revoked] # lost\nkeys = ["k", # the laptop\n  "l"]\n' + KEY,
    "revoked inline": HEAD + 'revoked = { keys = ["k"] }\n' + KEY,
    "revoked dotted": HEAD + 'revoked.keys = ["k"] # dots\n' + KEY,
    "revoked empty": HEAD + KEY + "\n[revoked]\n",
    "a trailing comment": HEAD + KEY + "# the end\n",
}


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


def same_but(text: str, changed: str) -> None:
    """Every line of the text is there, in order, and every comment with it."""
    lines = iter(changed.splitlines())
    for line in text.splitlines():
        if "]" not in line:
            assert any(line == other for other in lines), line
    assert [c for c in comments(changed) if c in comments(text)] == comments(text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_key_is_added_last(text: str) -> None:
    until = datetime(2027, 1, 1, tzinfo=UTC)
    added = {"name": 'ci "2"', "public_key": PEM, "not_after": until}
    changed = with_key(text, "keys", added)
    found, before = tomllib.loads(changed), tomllib.loads(text)
    assert found == {**before, "keys": [*before["keys"], added]}
    same_but(text, changed)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_certifiers_are_added_to_a_table_of_their_own(text: str) -> None:
    added = [{"name": "fleet", "public_key": PEM}, {"public_key": PEM}]
    twice = text
    for fields in added:
        twice = with_key(twice, "certifiers", fields)
    found, before = tomllib.loads(twice), tomllib.loads(text)
    assert found == {**before, "certifiers": added}
    same_but(text, twice)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_revoked_is_added_behind_what_was(text: str) -> None:
    changed = with_revoked(text, keys=["m", "n"], blobs=["b"])
    again = with_revoked(changed, roots=["r"], blobs=["c"])
    before = tomllib.loads(text)
    old = before.get("revoked", {}).get("keys", [])
    wanted = {"keys": [*old, "m", "n"], "blobs": ["b", "c"], "roots": ["r"]}
    assert tomllib.loads(again) == {**before, "revoked": wanted}
    same_but(text, again)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + 'keys = [ {public_key="a"}, # first\n]\n',
        HEAD + KEY + '[limits]\nblobs = 5\n[[keys]]\npublic_key = "b"\n',
    ],
    ids=["a comment that would swallow the key", "keys that would be moved"],
)
def test_what_cannot_be_changed_in_place_is_refused(text: str) -> None:
    assert error_of(UsageError, with_key, text, "keys", {"public_key": PEM}).code == "AOTC-E024"


def test_what_the_other_parser_cannot_read_is_not_changed() -> None:
    refused = error_of(UsageError, with_revoked, "a = " + "[" * 240 + "]" * 240, keys=["m"])
    assert refused.code == "AOTC-E024"


def test_what_another_process_revokes_meanwhile_stays_revoked(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden"
    policy = tmp_path / "trust.toml"
    policy.write_text(policy_text("digits", [(golden / "golden.pub").read_text()]))
    first, second = (f"sha256:{letter * 64}" for letter in "ab")

    def given_after_the_policy_was_read() -> Iterator[str]:
        revoke(policy, [], [first], [])
        yield second

    with pytest.raises(UsageError) as caught:
        revoke(policy, [], given_after_the_policy_was_read(), [])  # type: ignore[arg-type]
    assert caught.value.code == "AOTC-E024"
    assert tomllib.loads(policy.read_text())["revoked"]["roots"] == [first]
