"""The toolchain refuses with codes of its own and with the runtime's."""

import pytest

from aotc.base.errors import CompileError, UsageError, family_of, finding, is_code
from aotc_runtime.base.errors import BundleFormatError, Finding
from aotc_runtime.base.errors import finding as runtime_finding


def test_codes_have_a_family_in_the_package_that_raises_them() -> None:
    assert family_of("AOTC-E901") is CompileError
    assert family_of("AOTC-E103") is BundleFormatError
    with pytest.raises(KeyError):
        family_of("AOTC-E999")
    assert is_code("AOTC-E901") and is_code("AOTC-E103")
    assert not any(map(is_code, ("AOTC-E999", "AOTC-E9011", "AOTC-E90", "")))


def test_a_finding_speaks_in_the_words_of_its_row() -> None:
    assert finding("AOTC-E321", "trust.toml", "1", threshold=2, when="now") == Finding(
        code="AOTC-E321",
        title="trust threshold is unreachable",
        where="trust.toml",
        expected="2 or more keys that are valid now",
        found="1",
        hint="add a key with `aotc trust add-key`",
    )


def test_a_finding_of_a_cause_has_its_title_and_hint() -> None:
    made = finding("AOTC-E006", "key.pem", "RSA", cause="unsupported-key-type")
    assert (made.title, made.expected) == ("unsupported key type", "Ed25519, ECDSA P-256")
    assert made.hint == "create a key with `aotc keygen`"
    assert family_of(made.code) is UsageError


def test_a_finding_may_have_words_of_its_own_even_none() -> None:
    own = finding("AOTC-E321", "trust.toml", "1", expected="{key}", hint="")
    assert (own.expected, own.hint) == ("{key}", "")


def test_the_runtime_speaks_in_the_same_words() -> None:
    made = finding("AOTC-E106", "index.json", "a list", type="Index")
    assert made == runtime_finding("AOTC-E106", "index.json", "a list", type="Index")
    assert made.expected == "JSON that is a valid Index"
