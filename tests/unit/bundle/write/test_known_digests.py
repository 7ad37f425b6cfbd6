"""Blobs whose digest somebody else has taken: what is stored is what the digest says."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack
from aotc_runtime.base.errors import IntegrityError
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified

type Bundle = tuple[Path, Path]


def parts(bundle: Path, folder: Path, *, spoiled: bool) -> TargetParts:
    """What the bundle holds, weights in files of their own; of one of them another byte."""
    contents, _ = read_unverified(look_into(bundle))
    (manifest,) = contents.manifests.values()
    blobs = []
    for digest, (media_type, _) in references(manifest).items():
        data = bytes(contents.blobs[digest])
        file = None
        if media_type == oci_layout.WEIGHTS_TYPE:
            data = data[:-1] + bytes([data[-1] ^ spoiled])
            file = folder / digest[7:]
            file.write_bytes(data)
        blobs.append(Blob(data, media_type, file, digest))
    return TargetParts(manifest, blobs)


@pytest.mark.parametrize("form", Form)
def test_a_bundle_of_known_digests_is_the_same_bundle(
    digits_bundle: Bundle, tmp_path: Path, form: Form
) -> None:
    made = pack(
        tmp_path / "made", form, assemble([parts(digits_bundle[0], tmp_path, spoiled=False)])
    )
    assert made.root_digest == read_unverified(look_into(digits_bundle[0]))[0].root_digest
    assert read_unverified(look_into(made.path))[0].root_digest == made.root_digest


@pytest.mark.parametrize("form", Form)
def test_bytes_that_are_not_those_of_their_digest_are_never_left(
    digits_bundle: Bundle, tmp_path: Path, form: Form
) -> None:
    (tmp_path / "result").mkdir()
    with pytest.raises(IntegrityError) as refused:
        pack(
            tmp_path / "result" / "made",
            form,
            assemble([parts(digits_bundle[0], tmp_path, spoiled=True)]),
        )
    assert refused.value.code == "AOTC-E201"
    assert list((tmp_path / "result").iterdir()) == []
