"""`aotc reproduce`: whom its options make it believe. What it compares: tests/e2e."""

from collections.abc import Callable
from pathlib import Path

from tests.conftest import MANIFESTS, Bundle

Run = Callable[..., object]


def test_packages_need_policy_or_word(refused: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle, policy = digits_bundle
    words = ["reproduce", bundle, "--source", MANIFESTS, "--install"]
    assert "--untrusted" in refused(words, 2, "AOTC-E066").stderr
    refused([*words, "--trust", policy, "--untrusted"], 2, "AOTC-E001")
    # With either the sources are looked at next.
    elsewhere = ["reproduce", bundle, "--source", tmp_path, "--install"]
    refused([*elsewhere, "--trust", policy], 10, "AOTC-E942")
    refused([*elsewhere, "--untrusted"], 10, "AOTC-E942")
