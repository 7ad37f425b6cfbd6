"""Each rule of a policy file at every door: `aotc verify`, the runtime's command, and `load`."""

import json
from pathlib import Path

import pytest

from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import VERSION
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from tests.conftest import Bundle

from .doors import READY, Answer, Capture, at_every_door
from .tampering import MemoryBundle, roles

ZEROS = "0" * 64
RULES = {
    "keys.not_after": ("2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "AOTC-E311"),
    "keys.not_before": ("1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "AOTC-E311"),
    "revoked.keys": (f'["{ZEROS}"]', '["{key}"]', "AOTC-E312"),
    "revoked.roots": (f'["sha256:{ZEROS}"]', '["{root}"]', "AOTC-E313"),
    "revoked.blobs": (f'["sha256:{ZEROS}"]', '["{blob}"]', "AOTC-E314"),
    "minimum_build_time": ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "AOTC-E315"),
    "accepts.builders": ('["https://aotc.dev/builder/local"]', '["x"]', "AOTC-E316"),
    "accepts.sources": ("", f'["sha256:{ZEROS}"]', "AOTC-E317"),
    "accepts.jaxlib": ('["{jaxlib}", "0.0.1"]', '["0.0.1"]', "AOTC-E318"),
    "accepts.aotc_runtime": ('["{runtime}"]', '["0.0.0"]', "AOTC-E318"),
    "limits.blob_bytes": ("1_000_000_000", "1_000", "AOTC-E320"),
    "limits.bundle_bytes": ("1_000_000_000", "1_000", "AOTC-E320"),
    "limits.blobs": ("100_000", "3", "AOTC-E320"),
}
"""Of each rule: a value that accepts the bundle, one that refuses it, and the code of that."""


class Doors:
    """Every door, for the genuine bundle and a policy with one more rule."""

    def __init__(self, genuine: MemoryBundle, attacked: Bundle, folder: Path, capfd: Capture):
        self.bundle, trusted = attacked
        self.policy, self._capfd = folder / "trust.toml", capfd
        self._trusted = trusted.read_text("utf-8")
        digests = roles(genuine)
        (key,) = policy_keys(read_policy(trusted))
        manifest = json.loads(genuine.blobs[digests["bundle manifest"]])
        self._words = {
            "{key}": key,
            "{root}": digests["root index"],
            "{blob}": digests["executable"],
            "{jaxlib}": manifest["accepts_jaxlib"][0],
            "{runtime}": VERSION,
        }

    def answers(self, rule: str, value: str) -> list[Answer]:
        """Return what each door says under the genuine policy and this rule."""
        for word, meaning in self._words.items():
            value = value.replace(word, meaning)
        if rule.startswith("keys."):
            self.policy.write_text(f"{self._trusted}\n{rule.removeprefix('keys.')} = {value}\n")
        else:
            self.policy.write_text(f"{rule} = {value}\n{self._trusted}")
        return at_every_door(self.bundle, self.policy, self._capfd)


@pytest.fixture
def doors(genuine: MemoryBundle, attacked: Bundle, tmp_path: Path, capfd: Capture) -> Doors:
    return Doors(genuine, attacked, tmp_path, capfd)


@pytest.mark.parametrize("rule", [rule for rule, (inside, _, _) in RULES.items() if inside])
def test_a_bundle_inside_of_a_rule_is_accepted_at_every_door(rule: str, doors: Doors) -> None:
    assert doors.answers(rule, RULES[rule][0]) == [READY] * 3


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=[pytest.mark.xla] if rule == "accepts.jaxlib" else [])
        for rule in RULES
    ],
)
def test_a_bundle_outside_of_a_rule_is_refused_alike_at_every_door(rule: str, doors: Doors) -> None:
    _, outside, code = RULES[rule]
    assert doors.answers(rule, outside) == [(code, 5)] * 3


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("keys.not_after", "2999-01-01T00:00:00"),
        ("keys.not_after", "2999-01-01"),
        ("keys.not_after", '"soon"'),
        ("revoked.keys", '["ci"]'),
        ("revoked.roots", f'["{ZEROS}"]'),
        ("revoked.blobs", f'["sha512:{ZEROS}"]'),
        ("revoked.names", "[]"),
        ("revoked.since", '["x"]'),
        ("revoked.since.ci", "2027-01-01T00:00:00Z"),
        (f"revoked.since.{ZEROS}", "2027-01-01T00:00:00"),
        (f"revoked.since.{ZEROS}", '"soon"'),
        ("minimum_build_time", "2020"),
        ("accepts.builders", "[]"),
        ("accepts.sources", '["digits"]'),
        ("accepts.jaxlib", '"0.12.0"'),
        ("furthest_fallback", '"retry"'),
        ("engines", "[]"),
        ("engines", '"xla"'),
        ("engines", '[""]'),
        ("limits.blobs", "0"),
        ("limits.blobs", "100_001"),
        ("limits.bundle_bytes", "1.5"),
    ],
)
def test_unclear_rule_is_refused_at_every_door(rule: str, value: str, doors: Doors) -> None:
    assert doors.answers(rule, value) == [("AOTC-E309", 5)] * 3
    with pytest.raises(AotcError) as refused:
        read_policy(doors.policy)
    place = refused.value.findings[0].where.rpartition(" ")[2]
    assert place.replace("[0]", "") == rule
