"""Weights that are written nowhere are hashed where they lie."""

from pathlib import Path

import pytest

from aotc.bundle.write.hashed_weights import hash_rest, sizes_of, unchanged
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import IntegrityError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle


def weights_of(bundle: Path) -> list[tuple[str, bytes]]:
    contents, _ = read_unverified(open_streamed(bundle))
    (image,) = contents.targets.values()
    layers = [layer.digest for layer in image.layers if layer.mediaType == oci_layout.WEIGHTS_TYPE]
    return [(digest, bytes(contents.blobs[digest])) for digest in layers]


def test_weights_are_hashed_unless_written(digits_bundle: Bundle, tmp_path: Path) -> None:
    data = digits_bundle[0].read_bytes()
    (digest, weights), *_ = weights_of(digits_bundle[0])
    at = data.index(weights) + len(weights) - 1
    (tmp_path / "b.aotb").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    source = open_streamed(tmp_path / "b.aotb")
    contents, _ = read_unverified(source, sizes_of(source))
    hash_rest(source, contents, {digest})
    with pytest.raises(IntegrityError) as refused:
        hash_rest(source, contents, ())
    assert refused.value.code == "AOTC-E201"


def test_everything_else_is_hashed_at_once(digits_bundle: Bundle, tmp_path: Path) -> None:
    data = digits_bundle[0].read_bytes()
    contents, _ = read_unverified(open_streamed(digits_bundle[0]))
    (manifest,) = contents.manifests.values()
    ref = manifest.entry_points["predict"].profiles[0].executable
    executable = bytes(contents.blobs[ref.digest])
    at = data.index(executable)
    (tmp_path / "b.aotb").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    source = open_streamed(tmp_path / "b.aotb")
    with pytest.raises(IntegrityError):
        read_unverified(source, sizes_of(source))
    hash_rest(source, contents, ())  # of the weights, which are whole


def test_document_is_reused_only_as_hashed(digits_bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "copy.aotb"
    path.write_bytes(digits_bundle[0].read_bytes())
    source = open_streamed(path)
    root = read_unverified(source)[0].root_digest
    assert sha256(unchanged(source, root)) == root
    with path.open("r+b") as file:
        file.write(path.read_bytes().replace(b"manifests", b"Manifests"))
    for digest in (root, "sha256:" + "0" * 64):
        with pytest.raises(IntegrityError) as refused:
            unchanged(source, digest)
        (finding,) = refused.value.findings
        assert (finding.code, finding.expected) == ("AOTC-E201", digest)
