"""Message for a root that too few keys of a policy vouch for; imported where that is so."""

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime

from msgspec import Struct

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.verification.public_keys import PublicKey, SigningTime


class Seen(Struct, frozen=True):
    """The signatures seen on a root's attestations.

    Attributes:
        count: number of attestations.
        found: ids of the keys that count.
        expired: by id, keys whose signatures verify and do not count, with their time: expired, not
            yet valid, or revoked.
        other_statements: by type, ids of keys that signed such a statement and nothing that counts.
        unknown_key_ids: key ids that the policy does not know.
    """

    count: int
    found: tuple[str, ...]
    expired: Mapping[str, tuple[PublicKey, SigningTime]]
    other_statements: Mapping[str, Set[str]]
    unknown_key_ids: Set[str]


def reasons(
    seen: Seen, keys: Mapping[str, PublicKey], threshold: int, where: str
) -> Iterator[Finding]:
    """Yield why signatures do not suffice.

    AOTC-E301 unsigned, E302 signed by none of the policy's keys, E311 and E312 keys whose
    signatures do not count, E304 too few. `keys` are the policy's, by id.
    """
    expected = f"a signature by {_names(keys.values())}"
    if not seen.count:
        yield finding("AOTC-E301", where, "", expected=expected)
        return
    if not seen.found and not seen.expired and not seen.other_statements:
        found = "signatures by keys " + ", ".join(sorted(seen.unknown_key_ids))
        yield finding("AOTC-E302", where, found, expected=expected)
        return
    holders = {keys[id].holder for id in seen.found}
    # Another key of somebody who has accepted would not make them more.
    expired = [seen.expired[id] for id in sorted(seen.expired) if keys[id].holder not in holders]
    if expired:
        yield from _expired_keys(where, expired)
        return
    names = f": {_names(keys[signer] for signer in seen.found)}" if seen.found else ""
    shared = len(holders) < len(seen.found)
    if shared:
        names += f", held by {' and '.join(holder_labels(keys, holders))}"
    missing = holder_labels(keys, {key.holder for key in keys.values()} - holders)
    left = f"missing: {' and '.join(missing)}"
    # A builder's bill of materials beside its provenance takes nothing away.
    others = [type_ for type_, signers in sorted(seen.other_statements.items()) if signers]
    more = [f"a statement of type {type_}, which does not count" for type_ in others]
    found = "; ".join([f"{len(seen.found)}{names}", *([left] if missing else ()), *more])
    expected = f"signatures by {_wanted_text(keys, threshold)} of {_names(keys.values())}"
    hint = f"ask {' or '.join(missing)} to run `aotc sign BUNDLE --key KEY`" if missing else None
    yield finding("AOTC-E304", where, found, expected=expected, hint=hint)


def _wanted_text(keys: Mapping[str, PublicKey], threshold: int) -> str:
    if all(key.holder == id for id, key in keys.items()):
        return f"{threshold} distinct keys"
    return f"keys of {threshold} distinct holders"


def holder_labels(keys: Mapping[str, PublicKey], holders: Iterable[str]) -> list[str]:
    """Return names of holders; for keys without a holder, names of the keys."""
    return sorted(keys[holder].label if holder in keys else holder for holder in holders)


def _expired_keys(where: str, made: Iterable[tuple[PublicKey, SigningTime]]) -> Iterator[Finding]:
    """Yield why valid signatures do not count, one finding for each key."""
    for key, moment in made:
        state = key.state(moment.at)
        clock = datetime.fromtimestamp(moment.at, UTC).isoformat(timespec="seconds")
        when = f"signed at {clock}" if moment.stamped else f"checked at {clock}"
        beside = f"; {moment.why}" if moment.why else ""
        if state == "revoked":
            table = "revoked.keys" if key.revoked else f"revoked.since, {when}{beside}"
            yield finding("AOTC-E312", f"{where} key {key.label}", f"{key.id} under {table}")
            continue
        early = state == "not yet valid"
        bound = key.not_before if early else key.not_after
        assert bound is not None, "a key without bounds is always valid"
        limit, side = ("not_before", "from") if early else ("not_after", "until")
        yield finding(
            "AOTC-E311",
            f"{where} key {key.label}",
            f"{when}: {state}{beside}",
            expected=f"{side} {bound.isoformat()} ({limit})",
            hint="check again after that time, or sign with a key that is valid now"
            if early
            else "sign with a key that is valid now, or move `not_after` of this key",
        )


def _names(keys: Iterable[PublicKey]) -> str:
    return ", ".join(key.label for key in keys)
