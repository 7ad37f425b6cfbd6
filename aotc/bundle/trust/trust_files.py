"""Changes trust policies in place: in one step, and only if the runtime can read the result.

Comments, order and spelling of the rest of the text stay.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomlkit
from tomlkit.items import AoT

from aotc.base.errors import refusal
from aotc.bundle.trust.trust_state import holders_in
from aotc.bundle.trust.trust_text import read_public_key
from aotc.bundle.write.atomic_files import write_atomically
from aotc.config import toml_edit
from aotc_runtime.base.digest import is_digest
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.certificate_rules import certifier_keys
from aotc_runtime.verification.policy_reader import parse_policy, policy_keys, read_policy_text
from aotc_runtime.verification.public_keys import PublicKey

_ID_START = re.compile(r"[0-9a-f]{16,64}\Z")


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed policy, with new ids and digests by kind (`added`) and earlier ones (`already`)."""

    policy: TrustPolicy
    added: dict[str, list[str]]
    already: list[str]


def add_key(
    path: Path, key_file: Path, table: str, stated: Mapping[str, Any]
) -> tuple[PublicKey, list[str]]:
    """Add a public key to a policy file; return the key and notes for the operator.

    `table` is "keys" or "certifiers"; `stated` has other fields of the key, such as `holder`.

    Raises:
        UsageError: AOTC-E003 not writable, E006 unreadable key file, E023 a key that the policy
            lists or revokes, E024, E025 no holder where the threshold counts them.
        TrustError: AOTC-E308 to E310.
    """
    text, policy = _read(path)
    pem, key = read_public_key(key_file)
    read = policy_keys if table == "keys" else certifier_keys
    places = {table: read(policy, str(path)), "revoked.keys": policy.revoked.keys}
    for where, listed in places.items():
        if key.id in listed:
            cause = "key-is-revoked" if where == "revoked.keys" else ""
            found = f"{key_file}, {key.id[:16]}"
            raise refusal("AOTC-E023", f"{path} {where}", found, cause=cause)
    if table == "keys" and policy.threshold > 1 and "holder" not in stated:
        raise refusal("AOTC-E025", str(path), f"a threshold of {policy.threshold}")
    after = _write(path, text, with_key(text, table, {**stated, "public_key": pem}))
    return key, list(_notes(policy, after, stated.get("holder", "")))


def _notes(before: TrustPolicy, after: TrustPolicy, holder: str) -> Iterator[str]:
    """Yield what the policy says otherwise of its other keys now that one was added."""
    known = {key.holder for key in before.keys} | {each.holder for each in before.identities}
    if after.threshold > 1 and holder and holder not in known:
        others = holders_in(before)
        yield (
            f"{holder} is a holder of its own, beside {', '.join(others)}: its signature and one "
            f"of theirs are two. If it is one of these, give both keys the same holder"
        )
    if after.binds_builders() and not before.binds_builders():
        yield (
            "the keys without builders could describe builds of all builders so far; from now on "
            "they only endorse: name their builders"
        )


def revoke(
    path: Path,
    keys: Sequence[str],
    roots: Sequence[str],
    blobs: Sequence[str],
    since: datetime | None = None,
) -> Changed:
    """Revoke keys, bundles and blobs in a policy file.

    Args:
        path: The policy.
        keys: Files or ids, in full or 16 digits and more of a listed one.
        roots: Digests, or paths of bundles.
        blobs: Digests.
        since: When the revocation of the keys begins; None for all that they signed.

    Raises:
        UsageError: AOTC-E003 not writable, E023 for a value that is none of these, E024.
        TrustError: AOTC-E308 to E310.
        BundleFormatError, IntegrityError: A bundle cannot be read.
    """
    text, policy = _read(path)
    for value in blobs:
        if not is_digest(value):
            raise refusal("AOTC-E023", "--blob", value, cause="blob-digest-is-invalid")
    ids = [_key_id(value, policy, path) for value in keys]
    dated = dict.fromkeys(ids, since) if since else {}
    wanted = {
        "keys": [] if since else ids,
        "roots": [
            value
            if is_digest(value)
            else read_unverified(open_streamed(Path(value)))[0].root_digest
            for value in roots
        ],
        "blobs": list(blobs),
    }
    added: dict[str, list[str]] = {}
    already: list[str] = []
    for kind, values in wanted.items():
        there = getattr(policy.revoked, kind)
        unique = dict.fromkeys(values)
        added[kind] = [value for value in unique if value not in there]
        already += [value for value in unique if value in there]
    later = {id: at for id, at in dated.items() if at and policy.revoked.since.get(id) != at}
    if any(added.values()) or later:
        policy = _write(path, text, with_revoked(text, **added, since=later))
        added["keys"] += later
    already += [id for id in dated if id not in later]
    return Changed(policy, added, already)


def _read(path: Path) -> tuple[str, TrustPolicy]:
    text = read_policy_text(path)
    return text, parse_policy(text, path.parent, str(path))


def _write(path: Path, read: str, text: str) -> TrustPolicy:
    """Replace the text that was read from a policy by another one, and return its policy."""
    policy = parse_policy(text, path.parent, str(path))
    certifier_keys(policy, str(path))

    def require_unchanged() -> None:
        # What another process revoked meanwhile would be valid again.
        if read_policy_text(path) != read:
            cause = "trust-policy-changed-while-it-was-edited"
            raise refusal("AOTC-E024", str(path), "a change by another process", cause=cause)

    write_atomically(path.resolve(), [text.encode()], before=require_unchanged)
    return policy


def _key_id(value: str, policy: TrustPolicy, path: Path) -> str:
    if Path(value).is_file():
        return read_public_key(Path(value))[1].id
    if _ID_START.match(value):
        if len(value) == 64:
            return value
        listed = {**policy_keys(policy, str(path)), **certifier_keys(policy, str(path))}
        found = [id for id in listed if id.startswith(value)]
        if len(found) == 1:
            return found[0]
    raise refusal("AOTC-E023", "--key", value, cause="key-id-is-invalid")


_EMPTY_LINE_BEHIND = re.compile(r"\r?\n[ \t]*\r?\n\Z")


def with_key(text: str, table: str, fields: Mapping[str, Any]) -> str:
    """Return a valid policy with one more key, the last of its table, "keys" or "certifiers".

    Raises UsageError (AOTC-E024) where this cannot be done in place.
    """
    wanted = tomllib.loads(text)
    wanted.setdefault(table, []).append(dict(fields))
    document = toml_edit.parse(text, toml_edit.POLICY)
    if table not in document:
        if not _EMPTY_LINE_BEHIND.search(text):
            document.add(tomlkit.nl())
        document[table] = tomlkit.aot()
    keys: Any = document[table]
    entry: Any = tomlkit.table() if isinstance(keys, AoT) else tomlkit.inline_table()
    for key, value in fields.items():
        # As `aotc trust init` writes it: the PEM text begins on a line of its own.
        pem_text = key == "public_key"
        entry[key] = tomlkit.value(f'"""\n{value}"""') if pem_text else value
    if isinstance(keys, AoT):
        if keys.body and not _EMPTY_LINE_BEHIND.search(keys.body[-1].as_string()):
            keys.body[-1].add(tomlkit.nl())
        if [*document][-1] != table:
            entry.add(tomlkit.nl())
    keys.append(entry)
    return toml_edit.render(document, wanted, toml_edit.POLICY)


def with_revoked(
    text: str,
    *,
    keys: Sequence[str] = (),
    roots: Sequence[str] = (),
    blobs: Sequence[str] = (),
    since: Mapping[str, datetime] = MappingProxyType({}),
) -> str:
    """Return the text of a policy with these key ids and digests under `revoked`.

    `text` is a valid policy; `since` has the times from which keys are revoked. Raises UsageError
    (AOTC-E024) where the text cannot be edited.
    """
    added = {"keys": keys, "roots": roots, "blobs": blobs}
    wanted = tomllib.loads(text)
    document = toml_edit.parse(text, toml_edit.POLICY)
    if "revoked" not in document:
        if not _EMPTY_LINE_BEHIND.search(text):
            document.add(tomlkit.nl())
        document["revoked"] = tomlkit.table()
    revoked: Any = document["revoked"]
    for name, values in added.items():
        if values:
            wanted.setdefault("revoked", {}).setdefault(name, []).extend(values)
            revoked.setdefault(name, tomlkit.array().multiline(True)).extend(values)
    if since:
        wanted.setdefault("revoked", {}).setdefault("since", {}).update(since)
        revoked.setdefault("since", tomlkit.inline_table()).update(since)
    return toml_edit.render(document, wanted, toml_edit.POLICY)
