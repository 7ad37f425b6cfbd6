"""Manifests that are wrong in one way, of bad_manifests.toml: one error each, with its place."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from one_finding import check_one_finding

from aotc_runtime.base.errors import Finding

BAD = tomllib.loads(Path(__file__).with_name("bad_manifests.toml").read_text("utf-8"))
PARTS = ("old", "new", "code", "where", "expected", "found", "hint")
COUNT = 'n = { shape = [], dtype = "int32" }'


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_manifest(spoiled: Callable[[str, str], list[Finding]], bad: dict[str, str]) -> None:
    old, new, code, where, expected, found, hint = (bad.get(part, "") for part in PARTS)
    check_one_finding(spoiled, (old, new, code, where, expected, found, hint))


def test_shared_length_is_refused(spoiled: Callable[[str, str], list[Finding]], good: str) -> None:
    more = "[dimensions.seq]\nrange = [1, 2]\nprofiles = [2]\n\n[entry_points.predict]"
    pads = "".join(
        f'out_of_profile.{name} = {{ policy = "pad", length = "n" }}\n' for name in ("batch", "seq")
    )
    text = good.replace("[entry_points.predict]", more).replace('"batch", 64', '"batch", "seq"')
    (finding,) = spoiled(good, text.replace("tolerance", f"inputs.{COUNT}\n{pads}tolerance"))
    assert finding.code == "AOTC-E807"
    assert finding.found == "n, the length of batch"
