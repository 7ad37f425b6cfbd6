"""Signers of other packages, found through real entry points; whatever they do is one finding."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import KeyType, LocalSigner, generate_key_pair
from aotc.bundle.sign.signer_plugins import open_signer, scheme_of
from aotc_runtime.verification.public_keys import load_public_key

Install = Callable[..., None]

MODULE = """
from pathlib import Path

from aotc.bundle.sign.signer import load_signer

class Key:
    def __init__(self, path):
        self.signer = load_signer(Path(path), None)
    def public_key(self):
        return self.signer.public_pem()
    def sign(self, message):
        return self.signer.sign(message)

def open_key(uri, ask):
    scheme, _, path = uri.partition(":")
    return Key(path)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with one module and one signer, as pip would: files on the path."""
    modules: list[str] = []

    def make(module: str, code: str, scheme: str = "file", function: str = "open_key") -> None:
        site = tmp_path / f"site-{module}"
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[aotc.signers]\n{scheme} = {module}:{function}\n", encoding="utf-8"
        )
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)
        modules.append(module)

    yield make
    for module in modules:
        sys.modules.pop(module, None)


def nobody(prompt: str) -> str | None:
    """Nobody answers a prompt."""
    return None


def refusal(uri: str) -> tuple[str, str, str, str]:
    with pytest.raises(UsageError) as caught:
        open_signer(uri, nobody).sign(b"message")
    (finding,) = caught.value.findings
    return finding.code, finding.title, finding.where, finding.found


@pytest.mark.parametrize(
    ("key", "scheme"),
    [
        ("pkcs11:token=a;object=b", "pkcs11"),
        ("PKCS11:token=a", "pkcs11"),
        ("aws+kms:alias/x", "aws+kms"),
        ("ci.key", ""),
        ("./ci:key", ""),
        ("/keys/ci:key", ""),
        (":key", ""),
        ("1a:key", ""),
        ("", ""),
    ],
)
def test_a_key_is_a_uri_if_it_begins_with_a_scheme(key: str, scheme: str) -> None:
    assert scheme_of(key) == scheme


@pytest.mark.parametrize("kind", list(KeyType))
def test_plug_in_signs(install: Install, tmp_path: Path, kind: KeyType) -> None:
    install("good_signer", MODULE, scheme="File")  # compared without case
    pair = generate_key_pair(tmp_path / "k", None, kind)
    signer = open_signer(f"FILE:{pair.private}", nobody)
    assert signer.key_id == pair.id
    assert load_public_key(signer.public_pem(), "", "k").verify(signer.sign(b"m"), b"m")


def test_an_unknown_scheme_lists_what_is_installed(install: Install) -> None:
    install("good_signer", MODULE, scheme="vault")
    code, _, _, found = refusal("kms:key")
    assert (code, found) == (
        "AOTC-E022",
        "signers for awskms, azurekms, gcpkms, hashivault, pkcs11, vault",
    )


def test_a_scheme_that_two_packages_claim_is_refused(install: Install) -> None:
    install("one_signer", MODULE)
    install("two_signer", MODULE)
    code, _, _, found = refusal("file:key")
    assert (code, found) == ("AOTC-E022", "one_signer:open_key, two_signer:open_key")


def test_found_twice(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("good_signer", MODULE)
    monkeypatch.syspath_prepend(tmp_path / "site-good_signer")
    assert refusal("file:gone")[0] == "AOTC-E006", "opened, and the key is not there"


ANOTHER = LocalSigner.ephemeral()

OPENED = "class open_key:\n def __init__(self, uri, ask): 1\n def public_key(self): "
SIGNING = f"{OPENED}return {ANOTHER.public_pem()!r}\n def sign(self, message): "
FAILED = "signer plugin failed"
NO_KEY = "signer has no valid public key"
UNVERIFIED = "signer returned an invalid signature"

# Code of a plugin, the title of the error, what the plugin did, and what is found.
FAILURES = [
    ("raise ImportError('needs boto')", FAILED, "import", "ImportError: needs boto"),
    ("def", FAILED, "import", "SyntaxError: "),
    ("x = 1", FAILED, "import", "AttributeError: "),
    (
        "def open_key(uri, ask): raise ValueError('no such\\nkey')",
        *(FAILED, "opening the key", "ValueError: no such"),
    ),
    ("def open_key(uri, ask): raise ValueError", FAILED, "opening the key", "ValueError"),
    ("def open_key(uri, ask): raise SystemExit(3)", FAILED, "opening the key", "SystemExit: 3"),
    ("def open_key(uri, ask): return None", FAILED, "public key", "AttributeError: "),
    (OPENED + "raise OSError", FAILED, "public key", "OSError"),
    (OPENED + "return b'x'", NO_KEY, "", "a value of type bytes"),
    (OPENED + "return 'x'", NO_KEY, "", ""),
    (SIGNING + "raise ConnectionError('gone')", FAILED, "signing", "ConnectionError: gone"),
    (SIGNING + "return bytes(64)", UNVERIFIED, "", ""),
    (SIGNING + "return 'signature'", UNVERIFIED, "", ""),
]


@pytest.mark.parametrize(("code", "title", "doing", "found"), FAILURES, ids=range(len(FAILURES)))
def test_failing_plug_in(install: Install, code: str, title: str, doing: str, found: str) -> None:
    install("bad_signer", code)
    refused = refusal("file:key")
    where = f"signer file, {doing}" if doing else "signer file"
    assert refused[:3] == ("AOTC-E016", title, where)
    assert refused[3].startswith(found)


def test_stopping_a_plug_in_is_no_failure_of_it(install: Install) -> None:
    install("bad_signer", "def open_key(uri, ask): raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        open_signer("file:key", nobody)
