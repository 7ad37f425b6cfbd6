"""From `--remote-cache URL` to the store behind it, and whose entries in it are used."""

import logging
import re
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from aotc.base.errors import refusal
from aotc.bundle.sign.signer import Signer
from aotc.commands.remote_cache.bounded_calls import LIBRARY_SECONDS, Bounded, OutageError
from aotc.commands.remote_cache.cache_seal import Seals
from aotc.commands.remote_cache.fsspec_blobs import FsspecBlobs
from aotc.commands.remote_cache.http_blobs import HttpBlobs
from aotc.commands.remote_cache.oci_blobs import OciBlobs
from aotc.commands.remote_cache.remote_cache import Blobs, RemoteStore, SharedStore
from aotc.pipeline.cache.cache_store import LocalStore
from aotc_runtime.base.errors import AotcError
from aotc_runtime.verification.public_keys import PublicKey

OPTION = "--remote-cache"

NOT_INSTALLED = "remote-cache-backend-is-not-installed"

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
    Raises UsageError: AOTC-E062 a URL that nothing installed serves, E063 no trusted key.
    """
    if not trusted:
        raise refusal("AOTC-E063", OPTION, "")
    blobs = blobs_at(url)
    return SharedStore(local, RemoteStore(blobs, redact(url), Seals(sealer, trusted), local.limit))


def redact(url: str) -> str:
    """Return a URL without its secrets."""
    return _SECRETS.sub("", url)


def blobs_at(url: str) -> Blobs:
    """Return the remote place at a URL. Raises UsageError (AOTC-E062)."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise _invalid(url, str(error)) from error
    if parts.scheme in ("http", "https", "oci"):
        if not parts.hostname:
            raise _invalid(url, "no host")
        if parts.scheme != "oci":
            return HttpBlobs(url)
        if not _REPOSITORY.match(parts.path):
            raise _invalid(url, "no repository")
        return OciBlobs(url)
    if not parts.scheme:
        raise _invalid(url, "no scheme")
    if find_spec("fsspec") is None:
        raise _invalid(url, "no fsspec", NOT_INSTALLED)
    import fsspec

    try:
        files, folder = Bounded(LIBRARY_SECONDS).call(
            lambda _: fsspec.core.url_to_fs(url, use_listings_cache=False)
        )
    except OutageError as error:
        # ValueError: an unknown protocol.
        is_missing = isinstance(error.__cause__, ImportError | ValueError)
        cause = NOT_INSTALLED if is_missing else "remote-cache-cannot-be-opened"
        raise _invalid(url, str(error), cause) from error
    # A failed call is reported as a note of the build; without a handler, the library would print
    # each failure to the terminal as well.
    library = type(files).__module__.partition(".")[0]
    logging.getLogger(library).addHandler(logging.NullHandler())
    return FsspecBlobs(files, folder)


def _invalid(url: str, found: str, cause: str = "") -> AotcError:
    return refusal("AOTC-E062", f"{OPTION} {redact(url)}", found, cause=cause)
