"""Two readers, one of them made from the pages alone, agree on bundles with a flaw."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from scripts import vectors
from tests.hostile.tampering import in_memory, take_apart, two_targets, with_one_attestation

from .mutations import mutated
from .reader import verdict

FOLDER = Path(__file__).parent
READER = ("reader.py", "documents.py", "consistency.py")
"""Modules of the reader, without `types.toml`, which has the tables of the page."""

MUTATED = int(os.environ.get("AOTC_MUTATED", "300"))
"""Bundles. Set the variable for more: a hundred take about two seconds."""

SEVERAL = ("assets", "finite", "layers", "sizes", "trees")
"""Golden bundles with other parts than the small one."""


def test_second_reader_is_short_and_shares_no_code() -> None:
    texts = [(FOLDER / name).read_text("utf-8") for name in READER]
    assert sum(text.count("\n") for text in texts) <= 600
    imported = {
        name for text in texts for name in re.findall(r"(?m)^\s*(?:from|import) (\w+)", text)
    }
    assert imported <= {*sys.stdlib_module_names, "cryptography"}


def test_vectors_have_their_code_and_gate_for_a_second_reader(tmp_path: Path) -> None:
    listed = vectors.write_vectors(tmp_path)
    assert 80 <= len(listed) <= 120
    assert {each["gate"] for each in listed} == {"", *vectors.GATES}
    assert len({each["code"] for each in listed}) >= 25
    assert json.loads((tmp_path / "vectors.json").read_text())["vectors"] == listed
    for each in listed:
        data, policy = (tmp_path / each["bundle"]).read_bytes(), tmp_path / each["policy"]
        found = verdict(data, policy.read_text(), vectors.NOW)
        assert found == (each["code"], each["gate"]), each["name"]


def test_vectors_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        vectors.write_vectors(tmp_path / name)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two


def test_readers_agree_on_mutated_bundles(tmp_path: Path) -> None:
    path, policy = tmp_path / "bundle.aotb", tmp_path / "trust.toml"
    text = vectors.policy_text(name="*", furthest_fallback="compile")
    policy.write_text(text)
    codes, one = set(), vectors.small_bundle()
    two, _, _ = two_targets(take_apart(one), vectors.signer("ours"))
    golden = [with_one_attestation(in_memory(vectors.GOLDEN / f"{name}.aotb")) for name in SEVERAL]
    # Half of them are of the small one, whose mutations hit what every bundle has.
    bundles = (one, two, one, two, one, *golden)
    for number in range(MUTATED):
        data, what = mutated(bundles[number // 2 % len(bundles)], number)
        path.write_bytes(data)
        found = verdict(data, text, vectors.NOW)
        assert found == vectors.verdict_of(path, policy, one), f"{number}: {what}"
        codes.add(found[0])
    assert len(codes) >= 8


@pytest.mark.parametrize("path", sorted(vectors.GOLDEN.glob("*.aotb")), ids=lambda p: p.stem)
def test_second_reader_accepts_golden_bundles(path: Path) -> None:
    key = path.with_suffix(".pub")
    key = key if key.exists() else path.with_name("golden.pub")
    policy = vectors.policy_text(
        name=path.stem, furthest_fallback="compile", keys=[{"public_key": key.read_text()}]
    )
    assert verdict(path.read_bytes(), policy, vectors.NOW) == ("accepted", "")
