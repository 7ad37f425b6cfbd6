"""A Sigstore bundle as an attestation: its envelope, with the material beside the signature."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec

from aotc.base.errors import refusal
from aotc.bundle.write.added_attestations import with_attestations
from aotc_runtime.base import canonical_json, limits
from aotc_runtime.base.errors import AotcError, BundleFormatError
from aotc_runtime.formats.in_toto import (
    PAYLOAD_TYPE,
    PROVENANCE_TYPE,
    Envelope,
    Signature,
    Statement,
    open_envelope,
)
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.sigstore_identities import BUNDLE_TYPE, MATERIAL_CHARACTERS_MAX


class _Written(msgspec.Struct):
    """Fields that are read of a Sigstore bundle: https://github.com/sigstore/protobuf-specs."""

    mediaType: str
    verificationMaterial: dict[str, Any]
    dsseEnvelope: Envelope


def attach_sigstore(bundle: Path, file: Path) -> str:
    """Add a Sigstore bundle's envelope to a bundle; the root digest that it is about.

    Raises UsageError: AOTC-E029 it is none, about something else, or what readers would refuse the
    bundle for; BundleFormatError, IntegrityError.
    """
    root = read_root(open_streamed(bundle)).entry.digest
    written = _read(file)
    _require_about(written, root, file)
    material = base64.b64encode(json.dumps(written.verificationMaterial).encode()).decode()
    if len(material) > MATERIAL_CHARACTERS_MAX:
        raise _none(file, f"{len(material)} characters of verification material")
    (signature,) = written.dsseEnvelope.signatures
    envelope = Envelope(
        payload=written.dsseEnvelope.payload,
        payloadType=written.dsseEnvelope.payloadType,
        signatures=(Signature(sig=signature.sig, sigstore=material),),
    )
    data = canonical_json.encode(envelope)
    try:
        open_envelope(data, str(file))
    except BundleFormatError as error:
        raise _none(file, error.findings[0].found) from error
    with_attestations(bundle, root, [data])
    return root


def _read(file: Path) -> _Written:
    try:
        data = read_file(file, limits.ENVELOPE_BYTES_MAX)
        written = msgspec.json.decode(data, type=_Written)
    except (OSError, ValueError, RecursionError) as error:
        raise _none(file, getattr(error, "strerror", None) or str(error)) from error
    if written.mediaType != BUNDLE_TYPE:
        raise _none(file, f"{written.mediaType or 'no media type'}")
    if len(written.dsseEnvelope.signatures) != 1:
        raise _none(file, f"{len(written.dsseEnvelope.signatures)} signatures")
    return written


def _require_about(written: _Written, root: str, file: Path) -> None:
    envelope = written.dsseEnvelope
    try:
        statement = msgspec.json.decode(base64.b64decode(envelope.payload), type=Statement)
    except (ValueError, RecursionError) as error:
        raise _none(file, "an envelope without a statement") from error
    said = (envelope.payloadType, statement.predicateType)
    if said != (PAYLOAD_TYPE, PROVENANCE_TYPE):
        raise _none(file, f"{said[0]} with {said[1]}")
    if [each.digest for each in statement.subject] != [{"sha256": root.removeprefix("sha256:")}]:
        found = ", ".join(str(each.digest) for each in statement.subject)
        cause = "sigstore-bundle-is-for-another-bundle"
        raise refusal("AOTC-E029", str(file), found, cause=cause, expected=root)


def _none(file: Path, found: str) -> AotcError:
    return refusal("AOTC-E029", str(file), found)
