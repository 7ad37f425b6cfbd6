"""Signing a bundle that exists: what counts as signed already, and what does not."""

import shutil
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.write.added_attestations import with_attestations
from aotc_runtime.base import limits
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from tests.refusals import error_of


@pytest.fixture
def bundle(digits_bundle: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copyfile(digits_bundle[0], tmp_path / "b.aotb"))


def attestations(bundle: Path) -> int:
    return len(read_root(open_bundle(bundle)).attestations)


def root_of(bundle: Path) -> str:
    return read_root(open_bundle(bundle)).entry.digest


def test_another_statement_by_the_same_key_is_another_signature(bundle: Path) -> None:
    """As the one that `aotc build` made, which vouches for more."""
    signer = LocalSigner.ephemeral()
    made = attest(root_of(bundle), "digits-1.0.0", {**endorsement(), "more": 1}, signer)
    with_attestations(bundle, root_of(bundle), [made.envelope])
    count = attestations(bundle)
    endorse(bundle, signer)
    assert attestations(bundle) == count + 1


@pytest.mark.parametrize("envelope", [b"{}", b"not JSON", b'{"payload": "!"}'])
def test_an_attestation_that_cannot_be_read_is_no_signature(bundle: Path, envelope: bytes) -> None:
    with_attestations(bundle, root_of(bundle), [envelope])
    count = attestations(bundle)
    endorse(bundle, LocalSigner.ephemeral())
    assert attestations(bundle) == count + 1


def test_redirected_link_has_nothing_else_replaced(bundle: Path, tmp_path: Path) -> None:
    """As a deployment does that goes over to the next version."""
    link, following = tmp_path / "current", tmp_path / "next.aotb"
    link.symlink_to(bundle)
    following.write_bytes(b"the next version")

    def go_over(envelope: bytes) -> bool:
        link.unlink()
        link.symlink_to(following)
        return False

    count = attestations(bundle)
    with_attestations(link, root_of(bundle), [b"{}"], go_over)
    assert following.read_bytes() == b"the next version"
    assert attestations(bundle) == count + 1


def test_a_bundle_that_is_gone_when_it_is_to_be_written_is_one_error(bundle: Path) -> None:
    root = root_of(bundle)
    bundle.unlink()
    (finding,) = error_of(UsageError, with_attestations, bundle, root, [b"{}"]).findings
    assert (finding.code, finding.where) == ("AOTC-E003", str(bundle))
    assert finding.found == "No such file or directory"


@pytest.mark.parametrize("form", ["many", "large"])
def test_more_than_readers_take_is_not_added(bundle: Path, form: str) -> None:
    """And nothing of it is written."""
    if form == "many":
        made = [b"{} ".ljust(number + 3) for number in range(limits.ATTESTATIONS_MAX)]
    else:
        size = limits.ENVELOPE_BYTES_MAX
        made = [b"".ljust(size - n) for n in range(limits.ATTESTATIONS_BYTES_MAX // size + 1)]
    before = bundle.read_bytes()
    with pytest.raises(UsageError) as refused:
        with_attestations(bundle, root_of(bundle), made, lambda old: False)
    assert refused.value.code == "AOTC-E058"
    assert bundle.read_bytes() == before
