"""Each rule of a policy file at every door: `aotc verify`, the runtime's command, and `load`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import aotc_runtime
from aotc.cli.main import main as aotc_main
from aotc_runtime.__main__ import main as runtime_main
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import VERSION
from aotc_runtime.verification.policy_reader import policy_keys, read_policy

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


@pytest.fixture
def doors(
    genuine: MemoryBundle,
    attacked: tuple[Path, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Doors:
    return Doors(genuine, *attacked, tmp_path / "trust.toml", capfd, monkeypatch)


class Doors:
    """Three ways to the same answer."""

    def __init__(
        self,
        genuine: MemoryBundle,
        bundle: Path,
        trusted: Path,
        policy: Path,
        capfd: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.bundle, self.policy, self._capfd, self._monkeypatch = (
            bundle,
            policy,
            capfd,
            monkeypatch,
        )
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

    def write(self, rule: str, value: str) -> None:
        """The genuine policy and this rule."""
        for word, meaning in self._words.items():
            value = value.replace(word, meaning)
        if rule.startswith("keys."):
            self.policy.write_text(f"{self._trusted}\n{rule.removeprefix('keys.')} = {value}\n")
        else:
            self.policy.write_text(f"{rule} = {value}\n{self._trusted}")

    def answers(self) -> list[tuple[str, int]]:
        """Code and exit code at each door."""
        verify = ["verify", str(self.bundle), "--trust", str(self.policy), "--json"]
        self._monkeypatch.setattr(sys, "argv", ["aotc", *verify])
        with pytest.raises(SystemExit) as stopped:
            aotc_main()
        answers = [(self._code(), int(stopped.value.code or 0))]
        exit_code = runtime_main(verify)
        answers.append((self._code(), exit_code))
        try:
            aotc_runtime.load(self.bundle, trust=self.policy).close()
        except AotcError as error:
            return [*answers, (error.code, error.exit_code)]
        return [*answers, ("", 0)]

    def _code(self) -> str:
        findings = json.loads(self._capfd.readouterr().out)["findings"]
        assert all(all(finding.values()) for finding in findings)
        return findings[0]["code"] if findings else ""


@pytest.mark.parametrize("rule", [rule for rule, (inside, _, _) in RULES.items() if inside])
def test_a_bundle_inside_of_a_rule_is_accepted_at_every_door(rule: str, doors: Doors) -> None:
    doors.write(rule, RULES[rule][0])
    assert doors.answers() == [("", 0)] * 3


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=[pytest.mark.xla] if rule == "accepts.jaxlib" else [])
        for rule in RULES
    ],
)
def test_a_bundle_outside_of_a_rule_is_refused_alike_at_every_door(rule: str, doors: Doors) -> None:
    _, outside, code = RULES[rule]
    doors.write(rule, outside)
    assert doors.answers() == [(code, 5)] * 3


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
def test_a_rule_that_says_nothing_clear_is_refused_at_every_door_with_its_place(
    rule: str, value: str, doors: Doors, tmp_path: Path
) -> None:
    doors.write(rule, value)
    assert doors.answers() == [("AOTC-E309", 5)] * 3
    with pytest.raises(AotcError) as refused:
        read_policy(doors.policy)
    place = refused.value.findings[0].where.rpartition(" ")[2]
    assert place.replace("[0]", "") == rule
