"""The document and the text of `aotc channel status`."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aotc.base.errors import refusal
from aotc.commands.channel.channel_repository import Repository
from aotc_runtime.schema.trust_policy import Channel
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.channel.channel_client import Current, ask

SOON = timedelta(days=30)
"""Before the end of what a person has to sign."""


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """document: for `--json`.  lines: for people.  notes: what somebody should do soon."""

    document: dict[str, Any]
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def policy_status(trust: Path) -> ChannelStatus:
    """Return the status of a policy's channel for this host, and store the metadata.

    Raises TrustError: AOTC-E308, E309, E328 to E333.
    """
    policy = read_policy(trust)
    if policy.channel is None:
        expected = "[channel], which says whom to ask"
        hint = "write one as in docs/reference/trust-policy.md"
        raise refusal("AOTC-E309", str(trust), "none", expected=expected, hint=hint)
    return _make_status(ask(policy.channel, trust.parent, ()), {})


def folder_status(folder: Path) -> ChannelStatus:
    """Return the status of a folder for a new host, and the update that waits for signatures.

    Raises UsageError (AOTC-E027), TrustError: AOTC-E329 to E331.
    """
    repository = Repository(folder)
    waiting = _waiting(repository)
    if not repository.is_published():
        document = {"source": str(folder), "roles": {}, "names": {}, "waiting": waiting}
        return ChannelStatus(document, ("nothing is published yet", *_waiting_lines(waiting)), ())
    with tempfile.TemporaryDirectory() as state:
        first = str((folder / "1.root.json").absolute())
        channel = Channel(name="all", source=str(folder.absolute()), root_file=first, state=state)
        return _make_status(ask(channel, Path(), ()), waiting)


def _waiting(repository: Repository) -> dict[str, int]:
    """Return the signatures that are missing, by the name of what waits for them."""
    found = repository.waiting()
    return {path: repository.missing(found) for path in found.signed.targets} if found else {}


def _make_status(current: Current, waiting: dict[str, int]) -> ChannelStatus:
    roles = {
        name: {
            "version": role.version,
            "expires": role.expires.isoformat(),
            "threshold": role.threshold,
            "keys": list(role.keys),
        }
        for name, role in current.roles.items()
    }
    names = {
        entry.path: {"version": entry.version or None, "root_digest": entry.root_digest}
        for entry in current.listed
    }
    document = {"source": current.where, "roles": roles, "names": names, "waiting": waiting}
    return ChannelStatus(document, tuple(_lines(current, waiting)), tuple(_notes(current)))


def _lines(current: Current, waiting: dict[str, int]) -> Iterator[str]:
    for name, role in current.roles.items():
        keys = ", ".join(id[:16] for id in role.keys)
        yield f"{name:<10} {role.version}, good until {role.expires}, {role.threshold} of {keys}"
    for entry in current.listed:
        yield f"{entry.path}  {entry.version or 'no version'}  {entry.root_digest}"
    yield from _waiting_lines(waiting)


def _waiting_lines(waiting: dict[str, int]) -> Iterator[str]:
    for path, missing in waiting.items():
        yield f"waiting    {path}: {missing or 'no'} more signatures, then the online key"


def _notes(current: Current) -> Iterator[str]:
    for name in ("root", "targets"):
        if (end := current.roles[name].expires) < datetime.now(UTC) + SOON:
            yield f"{name} expires on {end:%Y-%m-%d}: hosts reject the channel from then on"
