"""Every key of a policy document that is unknown, missing or of another type is named."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from aotc_runtime.verification.policy_types import policy_problems

POLICY: dict[str, Any] = {"schema": 1, "name": "digits", "keys": [{"public_key": "x"}]}


@pytest.mark.parametrize(
    ("change", "where", "expected", "found"),
    [
        ({"thresold": 1}, "p thresold", "one of schema, name, keys, threshold", "an unknown key"),
        ({"keys": [{"pem": "x"}]}, "p keys[0].pem", "one of public_key", "an unknown key"),
        ({"limits": {"bytes": 1}}, "p limits.bytes", "one of blob_bytes", "an unknown key"),
        ({"threshold": 0}, "p threshold", "int >= 1", "0"),
        ({"keys": []}, "p keys", "array of length >= 1", "[]"),
        ({"keys": "x" * 100}, "p keys", "array", "'" + "x" * 76 + "..."),
        ({"revoked": {"keys": ["ci"]}}, "p revoked.keys", "str matching regex", "['ci']"),
        (
            {"minimum_build_time": datetime(2026, 1, 1)},
            "p minimum_build_time",
            "datetime with a timezone component",
            "2026-01-01T00:00:00",
        ),
    ],
    ids=["key", "of a key", "of a table", "range", "empty", "type", "item", "time"],
)
def test_a_problem_names_its_place_what_would_do_and_what_stands_there(
    change: dict[str, Any], where: str, expected: str, found: str
) -> None:
    (finding,) = policy_problems(POLICY | change, "p")
    assert (finding.code, finding.where, finding.found) == ("AOTC-E309", where, found)
    assert finding.expected.startswith(expected)


def test_a_required_key_that_is_missing_is_named_and_all_problems_are_told() -> None:
    document = {"name": "", "keys": [{"public_key": 1}, {"not_after": 2}], "more": 0}
    found = {finding.where: finding.found for finding in policy_problems(document, "p")}
    assert found == {
        "p more": "an unknown key",
        "p schema": "no such key",
        "p name": "''",
        "p keys[0].public_key": "1",
        "p keys[1].not_after": "2",
    }


def test_a_policy_without_problems_has_none() -> None:
    assert list(policy_problems(POLICY, "p")) == []
