"""`--remote-cache`, `--cache-key` and `--cache-trust`: a cache that hosts share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.cache_options import VARIABLE, store_of
from aotc.cli.command_registry import optional
from aotc.cli.key_option import signer_of

if TYPE_CHECKING:
    from aotc.pipeline.cache.cache_store import Cache


@dataclass(frozen=True, slots=True)
class RemoteCache:
    """The options of a remote cache. key: to seal with, a file or URI.  trusted: public keys."""

    url: str | None
    key: str | None
    trusted: Sequence[Path]


def remote_cache_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the three options, as `remote_cache`, `cache_key` and `cache_trust`."""
    for option in (
        click.option(
            "--cache-trust",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Use entries of the remote cache that this public key sealed; may repeat.",
        ),
        click.option(
            "--cache-key",
            metavar="FILE|URI",
            help="Seal what is made with this private key, and put it into the remote cache.",
        ),
        click.option(
            "--remote-cache",
            envvar=f"{VARIABLE}_REMOTE",
            metavar="URL",
            help="A cache that hosts share, after the local one: https://…, oci://…, s3://….",
        ),
    ):
        function = option(function)
    return function


def cache_of(place: str | None, cache_size: str | None, remote: RemoteCache) -> Cache | None:
    """The cache of these options; None if it is off.

    Raises UsageError and, for a file without a usable key, TrustError.
    """
    if remote.url is None and (remote.key or remote.trusted):
        raise click.UsageError("--cache-key and --cache-trust go with --remote-cache")
    local = store_of(place, cache_size)
    if local is None or remote.url is None:
        return local
    from aotc.bundle.trust.trust_text import read_public_key
    from aotc_runtime.verification.public_keys import load_public_key

    keys = [read_public_key(file)[1] for file in remote.trusted]
    signer = signer_of(remote.key, None) if remote.key else None
    if signer:
        keys.append(load_public_key(signer.public_pem(), "", "--cache-key"))
    shared: Cache = optional("--remote-cache")(
        local, remote.url, signer, {key.id: key for key in keys}
    )
    return shared
