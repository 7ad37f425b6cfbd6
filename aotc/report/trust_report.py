"""A trust policy, as data and as text."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aotc.bundle.trust.trust_state import PolicyState
from aotc_runtime.verification.public_keys import PublicKey


def policy_document(path: str, state: PolicyState) -> dict[str, Any]:
    """Return the rules in force for JSON; `path` is as the caller wrote it."""
    policy = state.policy
    rules = {
        "minimum_version": policy.minimum_version or None,
        "minimum_build_time": _time(policy.minimum_build_time),
        "furthest_fallback": policy.furthest_fallback,
        "engines": list(policy.engines) if policy.engines else None,
        "numerics": policy.numerics,
        "precisions": policy.precisions,
        "references": policy.references,
        **{name: msgspec.to_builtins(getattr(policy, name)) for name in _TABLES},
    }
    valid = len(state.valid())
    head = {"policy": path, "name": policy.name, "threshold": policy.threshold, "valid": valid}
    keys = [_key(key, state) for key in state.keys]
    certifiers = [_key(key, state) for key in state.certifiers]
    authorities = [each.name or None for each in policy.timestamp_authorities]
    named = {"keys": keys, "certifiers": certifiers, "timestamp_authorities": authorities}
    channel = None if policy.channel is None else msgspec.to_builtins(policy.channel)
    return {**head, **named, **rules, "channel": channel}


def _key(key: PublicKey, state: PolicyState) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name or None,
        "holder": None if key.holder == key.id else key.holder,
        "builders": None if key.builders is None else [*key.builders],
        "not_before": _time(key.not_before),
        "not_after": _time(key.not_after),
        "state": state.state(key),
    }


_TABLES = ("revoked", "accepts", "limits", "metrics")


def policy_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the rules of a policy document as lines for people."""
    keys = document["keys"]
    yield f"policy     {document['policy']}"
    yield f"bundles    {document['name']}"
    needed = f"{document['threshold']} of {len(keys)} {'key' if len(keys) == 1 else 'keys'}"
    yield f"threshold  {needed}, {document['valid']} valid now"
    yield from _key_table("key", keys)
    if document["certifiers"]:
        yield from _key_table("certifier", document["certifiers"])
    for name in document["timestamp_authorities"]:
        yield f"timestamps by {name or 'an authority without a name'}"
    if channel := document["channel"]:
        yield f"channel    {channel['name']} at {channel['source']}, asked by verify --channel"
    rules = [*_rules(document)]
    if rules:
        yield ""
        name_width = max(len(name) for name, _ in rules)
        for name, value in rules:
            yield f"{name:<{name_width}}  {value}"


def _key_table(kind: str, keys: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield ""
    width = max(len(kind), *(len(key["name"] or "-") for key in keys))
    yield f"{kind:<{width}}  {'id':<16}  {'state':<13}  window"
    for key in keys:
        name = f"{key['name'] or '-':<{width}}"
        yield f"{name}  {key['id'][:16]}  {key['state']:<13}  {_window(key)}{_role(key)}"


def _role(key: dict[str, Any]) -> str:
    """Return what a policy says of a key beside its window; nothing for most keys."""
    holder = f", held by {key['holder']}" if key["holder"] else ""
    if key["builders"] is None:
        return holder
    return f"{holder}, speaks for {' and '.join(key['builders']) or 'no builder: endorses'}"


def _rules(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in (
        *("minimum_version", "minimum_build_time", "furthest_fallback"),
        *("numerics", "references"),
    ):
        if document[name] is not None:
            yield name, document[name]
    for name in ("engines", "precisions"):
        if document[name]:
            yield name, ", ".join(document[name])
    for table in _TABLES:
        for name, value in document[table].items():
            if isinstance(value, dict):
                for key, since in value.items():
                    yield f"{table}.{name}", f"{key} {since}"
                continue
            for item in value if isinstance(value, list | tuple) else [value]:
                if item is not None:
                    yield f"{table}.{name}", str(item)


def _window(key: dict[str, Any]) -> str:
    if key["not_before"] is None and key["not_after"] is None:
        return "always"
    return f"{key['not_before'] or '...'} to {key['not_after'] or '...'}"


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
