"""Channel options of commands, without python-tuf, which may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aotc_runtime.base.errors import raise_if, refusal
from aotc_runtime.loader.bundle_sources import ChannelStamp
from aotc_runtime.schema.trust_policy import Channel, TrustPolicy

if TYPE_CHECKING:
    from aotc_serve.channel.channel_client import Current


def channel_of(policy: TrustPolicy, trust: Path) -> Channel:
    """Return the policy's channel. Raises TrustError (AOTC-E309) if it names none."""
    if policy.channel is None:
        raise refusal("AOTC-E309", str(trust), "", cause="no-channel-in-the-trust-policy")
    return policy.channel


def require_tuf() -> None:
    """Raise TrustError (AOTC-E333) if python-tuf is missing."""
    try:
        import tuf.api  # noqa: F401
    except ImportError as error:
        raise refusal("AOTC-E333", "channel", str(error)) from error


def require_newest(
    channel: Channel, folder: Path, name: str, version: str, index: bytes
) -> Current:
    """Check that the channel names this bundle (verification step 11).

    `folder` is the policy's. `index` is the document whose digest is the root digest; its signer is
    known. Raises TrustError (AOTC-E327 to E335).
    """
    require_tuf()
    from aotc_serve.channel import channel_client

    current = channel_client.ask(channel, folder, [name])
    raise_if(channel_client.check_newest(current, name, version, index))
    return current


def require_named(
    channel: Channel, folder: Path, name: str, version: str, index: bytes
) -> ChannelStamp:
    """`ChannelSource.require_named`: as `require_newest`."""
    stamp = require_newest(channel, folder, name, version, index).roles["timestamp"]
    return ChannelStamp(stamp.version, stamp.expires.isoformat())
