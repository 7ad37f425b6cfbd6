"""`model.sig`, an OpenSSF model signature: written for a bundle's files, and checked
against them."""

from __future__ import annotations

from pathlib import Path

from aotc.base.errors import raise_if, refusal
from aotc.bundle.sign.signer import Signer
from aotc.bundle.sign.signing_keys import read_key_file
from aotc.bundle.write.atomic_files import write_atomically
from aotc.bundle.write.output_paths import MODEL_SIGNATURE, require_file_place
from aotc.commands.attest.openssf_signing import (
    SIGNATURE_BYTES_MAX,
    differences,
    model_signature,
    verified_files,
)
from aotc_runtime.base.digest import sha256_each
from aotc_runtime.system.bundle_files import MappedBundle, read_file
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.public_keys import PublicKey, load_public_key

FILE_NAME = "model.sig"


def default_place(bundle: Path) -> Path:
    """Beside the bundle, since its folder holds nothing but the OCI layout."""
    return bundle.resolve().parent / FILE_NAME


def write_model_signature(bundle: Path, output: Path, signer: Signer) -> int:
    """Sign the files of a bundle whose digests are right; the number of files.

    An .aotb file has the same members as its directory form, and the same signature. Raises
    BundleFormatError, IntegrityError, UsageError: AOTC-E003 or E004 for the place, E020 inside the
    bundle's folder, E021 not an ECDSA key.
    """
    if output.resolve().is_relative_to(bundle.resolve()):
        raise refusal(
            "AOTC-E020", str(output), "one inside: a bundle with another file in it is refused"
        )
    require_file_place(output, MODEL_SIGNATURE)
    source = look_into(bundle)
    contents, _ = read_unverified(source)
    manifest = next(iter(contents.manifests.values()))
    files = _digests(source)
    name = f"{manifest.name}-{manifest.version}"
    write_atomically(output, [model_signature(files, name, signer)])
    return len(files)


def require_model_signature(bundle: Path, signature: Path, public_key: Path) -> PublicKey:
    """Require that a signature lists exactly the bundle's files, with their digests.

    Returns the public key. Raises BundleFormatError if the bundle cannot be opened, TrustError:
    AOTC-E308 or E310 for the key, E351 to E354 for the signature and the files.
    """
    key = load_public_key(_text(public_key), "", str(public_key))
    signed = verified_files(_bytes(signature), key, str(signature))
    source = look_into(bundle)
    raise_if(differences(signed, _digests(source), source.name))
    return key


def _digests(source: MappedBundle) -> dict[str, str]:
    """Path to digest of every file of the directory form."""
    return dict(zip(source.members, sha256_each(tuple(source.members.values())), strict=True))


def _text(path: Path) -> str:
    hint = "pass the .pub file of the signer"
    try:
        return read_key_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        found = (error.strerror if isinstance(error, OSError) else None) or "not text"
        expected = "a readable public key"
        raise refusal("AOTC-E308", str(path), found, expected=expected, hint=hint) from error


def _bytes(path: Path) -> bytes:
    hint = "write it with `aotc attest --openssf` or `model_signing sign key`"
    try:
        return read_file(path, SIGNATURE_BYTES_MAX)
    except OSError as error:
        found, expected = error.strerror or str(error), "a readable model signature"
        raise refusal("AOTC-E351", str(path), found, expected=expected, hint=hint) from error
