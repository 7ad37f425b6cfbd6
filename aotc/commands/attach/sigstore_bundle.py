"""A Sigstore bundle as an attestation: its envelope, with the material beside the signature."""

from __future__ import annotations

from pathlib import Path

from aotc.base.errors import refusal
from aotc.bundle.write.added_attestations import with_attestations
from aotc_runtime.base import limits
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import read_root
from aotc_serve.oci.sigstore_bundles import Read, read_bundle


def attach_sigstore(bundle: Path, file: Path) -> str:
    """Add a Sigstore bundle's envelope to a bundle; the root digest that it is about.

    Raises UsageError: AOTC-E029 it is none, about something else, or what readers would refuse the
    bundle for; BundleFormatError, IntegrityError.
    """
    root = read_root(open_streamed(bundle)).entry.digest
    read = read_sigstore(file)
    if not read.is_about(root):
        found = ", ".join(map(str, read.subjects))
        cause = "sigstore-bundle-is-for-another-bundle"
        raise refusal("AOTC-E029", str(file), found, cause=cause, expected=root)
    with_attestations(bundle, root, [read.envelope])
    return root


def read_sigstore(file: Path) -> Read:
    """Return what a Sigstore bundle attests. Raises UsageError (AOTC-E029) if it is none."""
    try:
        return read_bundle(read_file(file, limits.ENVELOPE_BYTES_MAX), str(file))
    except (BundleFormatError, OSError, ValueError, RecursionError) as error:
        found = getattr(error, "strerror", None) or str(error)
        if isinstance(error, BundleFormatError):
            found = error.findings[0].found
        raise refusal("AOTC-E029", str(file), found) from error
