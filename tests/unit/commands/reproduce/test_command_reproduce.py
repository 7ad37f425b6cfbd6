"""`aotc reproduce`: whom its options make it believe. What it compares: tests/e2e."""

from collections.abc import Callable
from pathlib import Path

from tests.conftest import Bundle


def test_one_word_is_taken(
    refused: Callable[..., object], digits_bundle: Bundle, tmp_path: Path
) -> None:
    bundle, policy = digits_bundle
    words = ["reproduce", bundle, "--source", tmp_path, "--trust", policy]
    refused([*words, "--untrusted"], 2, "AOTC-E001")
    refused(words, 10, "AOTC-E942")
