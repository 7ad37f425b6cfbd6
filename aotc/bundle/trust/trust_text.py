"""Writing trust policies."""

from collections.abc import Sequence
from pathlib import Path

from aotc.base.errors import refusal
from aotc.base.temporary_files import create_all_or_none
from aotc.bundle.sign.signer import read_key_file
from aotc.bundle.write.atomic_files import as_write_error
from aotc.config.manifest_problem import to_toml
from aotc_runtime.verification.policy_reader import parse_policy
from aotc_runtime.verification.public_keys import PublicKey, load_public_key


def policy_text(
    name: str, public_keys: Sequence[str], threshold: int = 1, holders: Sequence[str] = ()
) -> str:
    """Return the TOML of a policy that trusts these PEM public keys for bundles of a name.

    `holders` are those of the keys, in order; empty if unknown.
    """
    lines = ["schema = 1", f"name = {to_toml(name)}", f"threshold = {threshold}"]
    for pem, holder in zip(public_keys, holders or [""] * len(public_keys), strict=True):
        lines += ["", "[[keys]]"]
        if holder:
            lines += [f"holder = {to_toml(holder)}"]
        lines += [f'public_key = """\n{pem.strip()}\n"""']
    return "\n".join(lines) + "\n"


def write_policy(
    path: Path, name: str, key_files: Sequence[Path], threshold: int, holders: Sequence[str] = ()
) -> list[str]:
    """Write a policy and return the ids of its keys. An existing file is not overwritten.

    `holders` are the keys' holders, in the order of the keys; empty if none are stated. Raises
    UsageError: AOTC-E003 not writable, E005 exists, E006 a key file cannot be read, E010 fewer keys
    or holders than the threshold, E025 not a holder for each key; TrustError: AOTC-E310 a file that
    is no public key, E309 a policy that no reader would take.
    """
    read = [read_public_key(file) for file in key_files]
    pems, ids = [pem for pem, _ in read], [key.id for _, key in read]
    if threshold > len(set(ids)):
        found = f"a threshold of {threshold} with {len(set(ids))} distinct keys"
        raise refusal("AOTC-E010", str(path), found)
    if holders and len(holders) != len(ids):
        found = f"{len(ids)} keys, {len(holders)} holders"
        raise refusal("AOTC-E025", str(path), found, cause="holders-do-not-match-the-keys")
    if holders and threshold > len(set(holders)):
        found = f"a threshold of {threshold} with {len(set(holders))} distinct holders"
        cause = "threshold-exceeds-the-number-of-holders"
        raise refusal("AOTC-E010", str(path), found, cause=cause)
    text = policy_text(name, pems, threshold, holders)
    parse_policy(text, path.parent, str(path))
    with as_write_error(path):
        try:
            create_all_or_none((path, text.encode(), 0o644))
        except FileExistsError as error:
            raise refusal("AOTC-E005", str(path), "") from error
    return ids


def read_public_key(file: Path) -> tuple[str, PublicKey]:
    """Return a public key file's key: its PEM text, and the key.

    Raises UsageError (AOTC-E006) if it cannot be read, TrustError (AOTC-E310) if it holds none.
    """
    try:
        pem = read_key_file(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        found = (error.strerror if isinstance(error, OSError) else None) or "not text"
        cause = "public-key-is-not-readable"
        raise refusal("AOTC-E006", str(file), str(found), cause=cause) from error
    key = load_public_key(pem, "", str(file))
    return pem.strip() + "\n", key
