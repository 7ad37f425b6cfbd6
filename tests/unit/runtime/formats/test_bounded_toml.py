"""TOML that somebody else may have written is bounded before it is parsed."""

import json
import time
from pathlib import Path

import pytest

from aotc.base.errors import BuildManifestError
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.config.toml_document import read
from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_toml
from aotc_runtime.base.errors import TrustError
from aotc_runtime.verification.policy_reader import read_policy
from tests.refusals import error_of

SIZE = limits.POLICY_BYTES_MAX - 100

BOMBS = {
    "a key of many parts": "a" + ".a" * (SIZE // 2 - 2) + " = 1\n",
    "many keys of several parts": "".join(f"a.b{n}.c=1\n" for n in range(SIZE // 16)),
    "a table of many parts": f"[{'.'.join('a' * (SIZE // 2 - 2))}]\n",
    "many tables": "".join(f"[a{n}]\n" for n in range(SIZE // 11)),
    "tables of tables": "".join(f"[{'.'.join(['a'] * 200)}.b{n}]\n" for n in range(SIZE // 410)),
    "arrays of tables": "[[a]]\n" * (SIZE // 6),
    "arrays in arrays": f"a={'[' * (SIZE // 2 - 2)}{']' * (SIZE // 2 - 2)}\n",
    "empty lines": "#\n" * (SIZE // 2),
    "a number": f"a={'9' * (SIZE - 5)}\n",
    "a number in hexadecimal": f"a=0x{'f' * (SIZE - 5)}\n",
    "a key of parts within a line's limit": ("a" + ".a" * 2000 + "=1\n") * 20,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_takes_minutes_to_parse_is_refused_at_once(name: str, tmp_path: Path) -> None:
    text = BOMBS[name]
    assert len(text) <= limits.POLICY_BYTES_MAX
    path = tmp_path / "policy.toml"
    path.write_text(text)
    began = time.process_time()
    untrusted = error_of(TrustError, read_policy, path)
    unread = error_of(BuildManifestError, read, path, "build manifest")
    assert (untrusted.code, unread.code) == ("AOTC-E309", "AOTC-E802")
    assert time.process_time() - began < 5


def test_a_policy_of_a_thousand_keys_is_read(tmp_path: Path) -> None:
    pem = LocalSigner.ephemeral().public_pem()
    text = policy_text("x", [pem])
    head, _, key = text.partition("[[keys]]")
    path = tmp_path / "policy.toml"
    path.write_text(head + f"[[keys]]{key}\n" * 1000)
    assert len(read_policy(path).keys) == 1000


def test_long_texts_are_values_as_others() -> None:
    text = json.dumps("g" * 100_000 + "\n")
    assert decode_toml(f"a = {text}")["a"] == json.loads(text)
