"""From `--remote-cache URL` to the store behind it, and whose entries in it are used."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aotc.base.errors import refusal
from aotc.bundle.sign.signer import Signer
from aotc.commands.remote_cache.bounded_reads import SECONDS
from aotc.commands.remote_cache.cache_seal import Seals
from aotc.commands.remote_cache.file_blobs import FileBlobs
from aotc.commands.remote_cache.http_blobs import HttpBlobs
from aotc.commands.remote_cache.oci_blobs import OciBlobs
from aotc.commands.remote_cache.remote_cache import Blobs, RemoteStore, SharedStore
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.errors import AotcError
from aotc_runtime.verification.public_keys import PublicKey

OPTION = "--remote-cache"

_REPOSITORY = re.compile(r"/[a-z0-9]+([._/-]+[a-z0-9]+)*/?\Z")
"""Repository names, about as the OCI distribution specification defines them."""

_SECRETS = re.compile(r"(?<=//)[^/]*@|\?.*")
"""The secret parts of a URL, even a malformed one: user and password, and the query."""


def share(
    local: LocalStore, url: str, sealer: Signer | None, trusted: Mapping[str, PublicKey]
) -> SharedStore:
    """Return a local cache with a remote one behind it.

    sealer: signs what is written there; None to write nothing.  trusted: keys whose entries are
    used, by key id.
    Raises UsageError: AOTC-E062 a URL that nothing serves, E063 no trusted key.
    """
    if not trusted:
        raise refusal("AOTC-E063", OPTION, "")
    blobs = blobs_at(url)
    return SharedStore(local, RemoteStore(blobs, redact(url), Seals(sealer, trusted), local.limit))


def redact(url: str) -> str:
    """Return a URL without its secrets."""
    return _SECRETS.sub("", url)


def blobs_at(url: str, seconds: float = SECONDS) -> Blobs:
    """Return the place at a URL; `seconds` is as the constant. Raises UsageError (AOTC-E062)."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _invalid(url, str(error)) from error
    match parts.scheme:
        case "http" | "https" | "oci" if not parts.hostname:
            raise _invalid(url, "no host")
        case "http" | "https":
            return HttpBlobs(url, seconds)
        case "oci" if not _REPOSITORY.match(parts.path):
            raise _invalid(url, "no repository")
        case "oci":
            return OciBlobs(url, seconds)
        case "file" if parts.netloc or not parts.path:
            raise _invalid(url, "no absolute path")
        case "file":
            return FileBlobs(Path(unquote(parts.path)))
        case "":
            raise _invalid(url, "no scheme")
    raise _invalid(url, f"{parts.scheme}://", "remote-cache-scheme-is-not-supported")


def _invalid(url: str, found: str, cause: str = "") -> AotcError:
    return refusal("AOTC-E062", f"{OPTION} {redact(url)}", found, cause=cause)
