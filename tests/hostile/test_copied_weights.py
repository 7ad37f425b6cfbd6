"""Commands that copy a bundle hash its weights as they are written, or not at all where a file gets
another name: what of them was signed is looked at all the same.
"""

from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.bundle_writer import Form
from aotc_runtime.base.errors import IntegrityError
from tests.refusals import error_of

from .archives import on_disk
from .copies import COPIES
from .tampering import MemoryBundle, roles, signed, take_apart


@pytest.mark.parametrize("command", COPIES)
@pytest.mark.parametrize("place", ["archive", "folder"])
@pytest.mark.parametrize("form", Form)
def test_weights_of_another_size_than_was_signed_are_not_copied(
    genuine: MemoryBundle, tmp_path: Path, command: str, place: str, form: Form
) -> None:
    """Their bytes have the digest that was signed."""
    documents, digest = take_apart(genuine), roles(genuine)["weights"]
    of_weights = [*documents.image["layers"], *documents.manifest["weights"]["params"]["blobs"]]
    for reference in of_weights:
        reference["size"] += reference["digest"] == digest
    path = on_disk(signed(documents, LocalSigner.ephemeral()), place, tmp_path)
    before = sorted(each.name for each in tmp_path.iterdir())
    (found,) = error_of(IntegrityError, COPIES[command], path, form).findings
    assert (found.code, found.where.split()[0]) == ("AOTC-E203", str(path))
    assert sorted(each.name for each in tmp_path.iterdir()) == before
