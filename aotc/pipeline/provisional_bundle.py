"""A bundle for the build itself: written before parity, so that the runtime runs what it holds.

The final bundle is packed anew, once parity is known. This one need not outlive the build, and who
loads it hashes it: it is neither synced to the disk nor read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.base.temporary_files import hard_link, remove_folder
from aotc.bundle.sign.attestation import attest
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Assembled, TargetParts, add_attestation, assemble
from aotc.bundle.write.index_json import layout_index
from aotc.pipeline.scratch_folder import no_scratch
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import pieces
from aotc_runtime.formats import oci_layout

BUNDLE = "provisional"
"""A layout folder, which shares the files of the weights with the build's scratch folder."""


@dataclass(frozen=True, slots=True)
class ProvisionalBundle:
    """policy: a trust policy that accepts this bundle. The key behind it was discarded after one
    signature.
    """

    bundle: Path
    policy: Path


def pack_provisional(parts: Sequence[TargetParts], folder: Path) -> ProvisionalBundle:
    """Write a bundle into a folder, signed with a key that is discarded when this returns."""
    signer = LocalSigner.ephemeral()
    provisional = ProvisionalBundle(folder / BUNDLE, folder / "trust.toml")
    assembled = assemble(parts)
    endorsed = attest(assembled.root.digest, "provisional", endorsement(), signer)
    try:
        _lay_out(provisional.bundle, assembled, endorsed.envelope)
    except OSError as error:
        # Nobody has asked for this file: what has no room is the folder.
        raise no_scratch(error) from error
    policy = policy_text(parts[0].manifest.name, [signer.public_pem()])
    # What may be compiled is for the policy of the deployment to say; nothing is, in a build.
    provisional.policy.write_text(f'furthest_fallback = "compile"\n{policy}', "utf-8")
    return provisional


def _lay_out(folder: Path, assembled: Assembled, envelope: bytes) -> None:
    """Write an OCI layout with one attestation over what was there. Raises OSError."""
    remove_folder(folder)
    (folder / oci_layout.BLOB_FOLDER).mkdir(parents=True)
    blobs = dict(assembled.blobs)
    reference = add_attestation(assembled.root, envelope, blobs)
    index = layout_index(assembled.root, [reference], assembled.manifests)
    (folder / oci_layout.LAYOUT_FILE).write_bytes(
        canonical_json.encode(oci_layout.Layout(oci_layout.LAYOUT_VERSION))
    )
    (folder / oci_layout.INDEX_FILE).write_bytes(canonical_json.encode(index))
    for digest, blob in blobs.items():
        place = folder / oci_layout.BLOB_FOLDER / digest.removeprefix("sha256:")
        if blob.file is None or not hard_link(blob.file, place):
            with place.open("wb") as stream:
                for piece in pieces(blob.data):
                    stream.write(piece)
