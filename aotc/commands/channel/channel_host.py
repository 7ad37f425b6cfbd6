"""A host that asks a channel, as its policy describes it, and the bundle that is named in one. Who
signs remembers what was published by what such a host saw last, so that whoever writes into the
folder can put nothing older back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec
from tuf.api.metadata import Metadata

from aotc.base.errors import refusal
from aotc.bundle.read.opened_bundle import opened
from aotc.bundle.write.hashed_weights import unchanged
from aotc.commands.channel import channel_repository as repository
from aotc.commands.channel.channel_repository import (
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    Named,
    Repository,
)
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.trust_policy import Channel, ChannelName
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.channel import channel_state
from aotc_serve.channel.channel_client import ask, path_of


@dataclass(frozen=True, slots=True)
class Host:
    """channel: of the policy.  folder: relative to which that names files."""

    channel: Channel
    folder: Path

    @property
    def first_root(self) -> Path:
        """The root metadata that it begins with."""
        return self.folder / self.channel.root_file

    def require_newest(self, repository: Repository) -> None:
        """Raise UsageError (AOTC-E027) where a folder has metadata that are older than what this
        host saw; TrustError (AOTC-E332) where nobody knows what that is.
        """
        with channel_state.kept(self.folder / self.channel.state) as work:
            files = {role: work / f"{role}.json" for role in (TIMESTAMP, SNAPSHOT, TARGETS)}
            if roots := channel_state.roots(work):
                files[ROOT] = roots[max(roots)]
            for role, path in files.items():
                if path.exists():
                    repository.require_as_new(role, Metadata.from_file(str(path)))

    def keep(self, served: Path) -> None:
        """See what a folder says now. A host that refuses it, because it waits to be renewed for
        example, keeps what it could believe, and says so when it is asked for itself.
        """
        channel = msgspec.structs.replace(self.channel, source=str(served.absolute()))
        with suppress(TrustError):
            ask(channel, self.folder, ())


@contextmanager
def changing(folder: Path, trust: Path | None) -> Iterator[Repository]:
    """A channel to change, as by `repository.changing`: not an older one than the host of a policy
    saw, which sees what has become of it at the end. Raises UsageError and TrustError.
    """
    host = _host_of(trust)
    with repository.changing(folder, host.first_root if host else None) as found:
        if host:
            host.require_newest(found)
        yield found
        if host:
            host.keep(folder)


def _host_of(trust: Path | None) -> Host | None:
    """The host that a policy is for; None without a policy, or where it names no channel. Raises
    TrustError.
    """
    channel = read_policy(trust).channel if trust else None
    return Host(channel, trust.parent) if trust and channel else None


_NAME = get_args(ChannelName)[1].pattern


def named(bundle: Path, channel: str, trust: Path | None) -> Named:
    """A bundle of which every digest was checked. trust: a policy that has to accept it.

    Raises UsageError (AOTC-E028), BundleFormatError, IntegrityError, TrustError.
    """
    if not re.search(_NAME, channel):
        raise refusal("AOTC-E001", "--channel", channel, cause="channel-name-is-invalid")
    source = look_into(bundle)
    read = opened(source, read_policy(trust) if trust else None, time.time())
    index = unchanged(source, read.root_digest)
    return Named(path_of(channel, read.name), read.version, index)
