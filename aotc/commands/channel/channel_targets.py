"""What a channel says of a bundle: where, which version, and its root index."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

from aotc.base.errors import refusal
from aotc.bundle.read.opened_bundle import opened
from aotc.bundle.write.hashed_weights import unchanged
from aotc.commands.channel.channel_repository import Named
from aotc_runtime.schema.trust_policy import ChannelName
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.channel.channel_client import path_of

_NAME = get_args(ChannelName)[1].pattern


def named(bundle: Path, channel: str, trust: Path | None) -> Named:
    """A bundle of which every digest was checked. trust: a policy that has to accept it.

    Raises UsageError (AOTC-E028), BundleFormatError, IntegrityError, TrustError.
    """
    if not re.search(_NAME, channel):
        expected = "a name of up to 64 letters, digits and ._-"
        raise refusal("AOTC-E001", "--channel", channel, expected=expected, hint="rename it")
    source = look_into(bundle)
    read = opened(source, read_policy(trust) if trust else None, time.time())
    index = unchanged(source, read.root_digest)
    return Named(path_of(channel, read.name), read.version, index)
