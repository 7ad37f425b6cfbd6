"""Two readers, one of them made from the pages alone, agree on bundles with a flaw."""

import json
from pathlib import Path

import pytest

from scripts.vectors import (
    GATES,
    GOLDEN,
    NOW,
    policy_text,
    signer,
    small_bundle,
    verdict_of,
    write_vectors,
)
from tests.hostile.tampering import take_apart, two_targets

from .mutations import mutated
from .reader import verdict

MUTATED = 300
"""In every run; 10,000 agreed when the reader was written."""


def test_vectors_have_their_code_and_gate_for_a_second_reader(tmp_path: Path) -> None:
    listed = write_vectors(tmp_path)
    assert 80 <= len(listed) <= 120
    assert {each["gate"] for each in listed} == {"", *GATES}
    assert len({each["code"] for each in listed}) >= 25
    assert json.loads((tmp_path / "vectors.json").read_text())["vectors"] == listed
    for each in listed:
        data, policy = (tmp_path / each["bundle"]).read_bytes(), tmp_path / each["policy"]
        found = verdict(data, policy.read_text(), NOW)
        assert found == (each["code"], each["gate"]), each["name"]


def test_vectors_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_vectors(tmp_path / name)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two


def test_readers_agree_on_mutated_bundles(tmp_path: Path) -> None:
    path, policy = tmp_path / "bundle.aotb", tmp_path / "trust.toml"
    policy.write_text(policy_text())
    codes, one = set(), small_bundle()
    two, _, _ = two_targets(take_apart(one), signer("ours"))
    for number in range(MUTATED):
        bundle = two if number % 4 > 1 else one
        data, what = mutated(bundle, number)
        path.write_bytes(data)
        found = verdict(data, policy_text(), NOW)
        assert found == verdict_of(path, policy, bundle), f"{number}: {what}"
        codes.add(found[0])
    assert len(codes) >= 8


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.aotb")), ids=lambda p: p.stem)
def test_second_reader_accepts_golden_bundles(path: Path) -> None:
    key = path.with_suffix(".pub")
    key = key if key.exists() else path.with_name("golden.pub")
    policy = policy_text(
        name=path.stem, furthest_fallback="compile", keys=[{"public_key": key.read_text()}]
    )
    assert verdict(path.read_bytes(), policy, NOW) == ("accepted", "")
