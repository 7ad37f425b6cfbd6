"""Every reader of bytes that strangers may have written, as a function that must not be surprised.

Shared by the property tests and by the coverage-guided fuzzer.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from aotc_runtime.base import canonical_json
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import AotcError, raise_if
from aotc_runtime.base.rendering import render
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.certificate_predicate import Certificate
from aotc_runtime.formats.in_toto import Statement, open_envelope
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.formats.tar_archive import read_members
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_versions import version_key
from aotc_runtime.verification.manifest_consistency import check_consistency
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.public_keys import load_public_key

from . import attribution, shipping, toolchain

type Reader = Callable[[bytes], object]


class _Layout:
    """A layout whose index.json is given."""

    name = "bundle"

    def __init__(self, index: bytes) -> None:
        self.files = {
            oci_layout.LAYOUT_FILE: b'{"imageLayoutVersion":"1.0.0"}',
            oci_layout.INDEX_FILE: index,
        }

    def file(self, name: str) -> memoryview | None:
        return memoryview(self.files[name]) if name in self.files else None

    def blob(self, digest: str) -> memoryview | None:
        return None

    def digests(self) -> frozenset[str]:
        return frozenset()


def tar(data: bytes) -> None:
    for member in read_members(memoryview(data), where="x").values():
        assert 0 <= member.offset <= member.offset + member.size <= len(data)


def index(data: bytes) -> None:
    read_root(_Layout(data))


def root(data: bytes) -> None:
    assert (
        canonical_json.encode(canonical_json.decode(data, oci_layout.RootIndex, where="x")) == data
    )


def image(data: bytes) -> None:
    assert (
        canonical_json.encode(canonical_json.decode(data, oci_layout.ImageManifest, where="x"))
        == data
    )


def attestation(data: bytes) -> None:
    decode_foreign(data, oci_layout.AttestationManifest, where="x")


def manifest(data: bytes) -> None:
    raise_if(check_consistency(canonical_json.decode(data, BundleManifest, where="x"), "x"))


def envelope(data: bytes) -> None:
    open_envelope(data, "x")


def statement(data: bytes) -> None:
    decode_foreign(data, Statement, where="x")


def certificate(data: bytes) -> None:
    decode_foreign(data, Certificate, where="x")


def tensors(data: bytes) -> None:
    end = 0
    for tensor in read_tensors(memoryview(data), where="x").values():
        assert 8 <= tensor.start <= tensor.end <= len(data)
        end = max(end, tensor.end)
    assert end in (0, len(data))


def policy(data: bytes) -> TrustPolicy:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        return read_policy(Path(file.name))


def key(data: bytes) -> None:
    load_public_key(data.decode("latin-1"), "x", "x").verify(data[:64], data)


def version(data: bytes) -> None:
    text = data.decode("latin-1")
    assert version_key(text) is None or version_key(text) == version_key(text + "+x")


READERS: Mapping[str, Reader] = {
    **{
        reader.__name__: reader
        for reader in (
            *(tar, index, root, image, attestation, manifest, envelope, statement, certificate),
            *(tensors, policy, key, version),
        )
    },
    **attribution.READERS,
    **shipping.READERS,
    **toolchain.READERS,
}


def read(name: str, data: bytes) -> str:
    """The code that a reader refuses with, or "accepted". Anything but an AotcError comes out."""
    try:
        READERS[name](data)
    except AotcError as error:
        # What a refusal says has to be sayable, too.
        render(error.findings).encode()
        for finding in error.findings:
            str(finding.to_json()).encode()
        return error.code
    return "accepted"
