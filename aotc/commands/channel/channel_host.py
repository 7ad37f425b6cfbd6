"""A host of a deployment channel, as its policy describes it, and the bundle that it names.

The signer keeps the state of such a host: a writer of the folder cannot restore older metadata.
"""

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
from aotc.bundle.read.opened_bundle import open_valid
from aotc.bundle.write.hashed_weights import unmodified
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
from aotc_runtime.system.streamed_bundle import open_streamed
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
        """Reject a folder with older metadata than this host has accepted.

        Raises:
            UsageError: AOTC-E027.
            TrustError: AOTC-E332 if the state of this host is unknown.
        """
        with channel_state.open_state(self.folder / self.channel.state) as work:
            files = {role: work / f"{role}.json" for role in (TIMESTAMP, SNAPSHOT, TARGETS)}
            if roots := channel_state.roots(work):
                files[ROOT] = roots[max(roots)]
            for role, path in files.items():
                if path.exists():
                    repository.require_as_new(role, Metadata.from_file(str(path)))

    def keep(self, served: Path) -> None:
        """Accept the metadata of a folder as this host's state.

        If the host rejects it, for example because it expired, it keeps what it could verify, and
        reports that when it is asked itself.
        """
        channel = msgspec.structs.replace(self.channel, source=str(served.absolute()))
        with suppress(TrustError):
            ask(channel, self.folder, ())


@contextmanager
def changing(folder: Path, trust: Path | None) -> Iterator[Repository]:
    """Open a channel for changes, as `repository.changing`, unless a policy's host saw a newer one.

    At the end, that host accepts the changes. Raises UsageError and TrustError.
    """
    host = _host_of(trust)
    with repository.changing(folder, host.first_root if host else None) as found:
        if host:
            host.require_newest(found)
        yield found
        if host:
            host.keep(folder)


def _host_of(trust: Path | None) -> Host | None:
    """Return the host of a policy; None without a policy or a channel in it. Raises TrustError."""
    channel = read_policy(trust).channel if trust else None
    return Host(channel, trust.parent) if trust and channel else None


_NAME = get_args(ChannelName)[1].pattern


def check_bundle(bundle: Path, channel: str, trust: Path | None) -> Named:
    """Return a bundle of which every digest was checked. trust: a policy that has to accept it.

    Raises UsageError (AOTC-E028), BundleFormatError, IntegrityError, TrustError.
    """
    if not re.search(_NAME, channel):
        raise refusal("AOTC-E001", "--channel", channel, cause="channel-name-is-invalid")
    source = open_streamed(bundle)
    read = open_valid(source, read_policy(trust) if trust else None, time.time())
    index = unmodified(source, read.root_digest)
    return Named(path_of(channel, read.name), read.version, index)
