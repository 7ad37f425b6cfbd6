"""Every key of a policy document that is unknown, missing or of another type is named."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import TrustError
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.policy_types import policy_problems

POLICY: dict[str, Any] = {"schema": 1, "name": "digits", "keys": [{"public_key": "x"}]}


@pytest.mark.parametrize(
    ("change", "where", "expected", "found"),
    [
        ({"schema": "1"}, "p schema", "1", "'1'"),
        ({"keys": [{"public_key": 1}]}, "p keys[0].public_key", "a string", "1"),
        ({"thresold": 1}, "p thresold", "one of schema, name, keys, threshold", "an unknown key"),
        ({"keys": [{"pem": "x"}]}, "p keys[0].pem", "one of public_key", "an unknown key"),
        ({"limits": {"bytes": 1}}, "p limits.bytes", "one of blob_bytes", "an unknown key"),
        ({"threshold": 0}, "p threshold", "an integer of at least 1", "0"),
        ({"accepts": {"jaxlib": []}}, "p accepts.jaxlib", "an array that is not empty", "[]"),
        ({"keys": "x" * 100}, "p keys", "an array", "'" + "x" * 76 + "..."),
        ({"name": {"public_key": "x"}}, "p name", "a string", "{'public_key': 'x'}"),
        ({"name": ["x"]}, "p name", "a string", "['x']"),
        ({"limits": 4096}, "p limits", "a table", "4096"),
        ({"revoked": {"keys": ["ci"]}}, "p revoked.keys[0]", "a key's id, 64 hexadecimal", "'ci'"),
        (
            {"minimum_build_time": datetime(2026, 1, 1)},
            "p minimum_build_time",
            "a time with its offset, such as 2027-01-01T00:00:00Z",
            "2026-01-01T00:00:00",
        ),
    ],
)
def test_a_problem_names_its_place_what_would_do_and_what_stands_there(
    change: dict[str, Any], where: str, expected: str, found: str
) -> None:
    (finding,) = policy_problems(POLICY | change, "p")
    assert (finding.code, finding.where, finding.found) == ("AOTC-E309", where, found)
    assert finding.expected.startswith(expected)


def test_lines_and_words_that_come_close_are_told(tmp_path: Path) -> None:
    text = """name = "digits"
threshold = 1
thresold = 1
furthest_fallback = "splti"
minimum_build_time = 2026-01-01T00:00:00

[[keys]]
public_key = "x"
not_after = "soon"

[revoked]
roots = [
    "sha256:1",
]
"""
    path = tmp_path / "trust.toml"
    path.write_text(text)
    with pytest.raises(TrustError) as refused:
        read_policy(path)
    found = {f.where.removeprefix(f"{path}"): f for f in refused.value.findings}
    assert found.pop(":1 schema").found == "no such key"
    assert sorted(found) == [
        ":13 revoked.roots[0]",
        ":3 thresold",
        ":4 furthest_fallback",
        ":5 minimum_build_time",
        ":9 keys[0].not_after",
    ]
    assert found[":3 thresold"].hint == "did you mean threshold?"
    assert found[":4 furthest_fallback"].hint == "did you mean split?"
    assert found[":4 furthest_fallback"].expected == "one of compile, fail, pad, split"
    assert "without quotes" in found[":9 keys[0].not_after"].hint


def test_a_threshold_that_no_keys_reach_names_its_file_and_line(tmp_path: Path) -> None:
    """One key in two spellings is one key."""
    path = tmp_path / "trust.toml"
    pem = LocalSigner.ephemeral().public_pem()
    keys = "".join(
        f"[[keys]]\npublic_key = {json.dumps(each)}\n" for each in (pem, pem.replace("\n", "\r\n"))
    )
    path.write_text(f'schema = 1\nname = "x"\nthreshold = 2\n{keys}')
    with pytest.raises(TrustError) as refused:
        read_policy(path)
    (finding,) = refused.value.findings
    assert (finding.code, finding.where) == ("AOTC-E309", f"{path}:3 threshold")
