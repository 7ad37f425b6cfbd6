"""Bundles that are no local files, such as `oci://HOST/REPOSITORY@sha256:…`.

A distribution that reaches them registers an entry point of the group `aotc_runtime.sources`, named
as the scheme, whose value is a module with the functions of `BundleSource`. aotc-serve brings `oci`
and `channel`.
"""

import mmap
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from typing import Protocol, cast

from msgspec import Struct

from aotc_runtime.base.errors import refusal
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.trust_policy import Channel, TrustPolicy
from aotc_runtime.system.bundle_files import MapOf, MappedBundle, open_bundle
from aotc_runtime.system.read_progress import OnBytes
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.early_choice import AskHost

GROUP = "aotc_runtime.sources"

_SCHEME = re.compile(r"\A([a-z][a-z0-9+.-]*)://")


class InspectedBundle(Struct, frozen=True):
    """A bundle to be examined.

    `shown` is its path, or its reference with the digest; `asked` is the caller's spelling.
    `unread` has sizes by digest of weights that were not fetched.
    """

    source: BlobSource
    shown: str
    asked: str
    unread: Mapping[str, int]

    @property
    def note(self) -> str:
        """Return what people have to know of it; empty if there is nothing."""
        if not self.unread:
            return ""
        size = f"{sum(self.unread.values())} bytes in {len(self.unread)} blobs"
        return f"weights not hashed: {size} were left in the registry; --full fetches them"


class BundleSource(Protocol):
    """The source of bundles of one reference scheme.

    Both functions raise BundleFormatError, IntegrityError, RegistryError, ResourceError and
    TrustError.
    """

    def fetch(
        self,
        place: str,
        policy: TrustPolicy,
        store: str | PathLike[str] | None,
        target: str | None,
        ask: AskHost | None,
        kind: MapOf,
        ca: Path | None,
    ) -> MappedBundle:
        """Return a bundle to be loaded, opened from a local store: nothing in it is believed yet.

        Keys of `policy` must have signed what is fetched. `store` is a folder; None for the user's.
        `target` is the one to fetch; None for the best for the host that `ask` describes, or all
        without `ask`. `kind` makes the maps. `ca` has PEM certificates for the connection.
        """

    def inspect(
        self,
        place: str,
        policy: TrustPolicy | None,
        now: float,
        *,
        full: bool,
        ca: Path | None,
        on_bytes: OnBytes,
    ) -> AbstractContextManager[InspectedBundle]:
        """Return a bundle to be examined, while the context lasts; `full` fetches weights, too."""


class ChannelStamp(Struct, frozen=True):
    """The metadata by which a channel named a bundle; `expires` is in ISO 8601."""

    version: int
    expires: str


class ChannelSource(Protocol):
    """Asks which bundle is deployed: verification step 11."""

    def channel_of(self, policy: TrustPolicy, trust: Path) -> Channel:
        """Return the policy's channel. Raises TrustError (AOTC-E309) if it names none."""

    def require_named(
        self, channel: Channel, folder: Path, name: str, version: str, index: bytes
    ) -> ChannelStamp:
        """Raise TrustError (AOTC-E327 to E335) unless the channel names this bundle.

        `folder` is the policy's. `index` is the document whose digest is the root digest; its
        signatures have been verified.
        """


def scheme_of(place: object) -> str:
    """Return the scheme of a reference, such as `oci`; "" for a path."""
    found = _SCHEME.match(place) if isinstance(place, str) else None
    return found[1] if found else ""


def source_of(place: str) -> BundleSource:
    """Return the source for a reference.

    Raises IncompatibleRuntimeError (AOTC-E406) if none is installed for it.
    """
    return cast(BundleSource, _load_registered(scheme_of(place), place))


def fetch(
    place: str,
    policy: TrustPolicy,
    store: str | PathLike[str] | None,
    target: str | None,
    *,
    ask: AskHost | None = None,
    kind: MapOf = mmap.mmap,
    ca: Path | None = None,
) -> MappedBundle:
    """Open a bundle to be loaded, as `BundleSource.fetch`.

    A path that only looks like a reference is opened as a file.
    """
    if not scheme_of(place):
        return open_bundle(place, kind)
    return source_of(place).fetch(place, policy, store, target, ask, kind, ca)


@contextmanager
def open_for_inspection(
    place: str | Path,
    policy: TrustPolicy | None,
    now: float,
    *,
    full: bool = False,
    ca: Path | None = None,
    on_bytes: OnBytes = lambda done, total: None,
) -> Iterator[InspectedBundle]:
    """Open a bundle to be examined, by its path or its reference, while the context lasts.

    `policy` may demand digests, and its keys must have signed a reference before more than its
    documents are fetched. `now` is in seconds since the epoch. `full`, `ca` and `on_bytes` are for
    references (`BundleSource.inspect`). Raises BundleFormatError, and the errors of that method.
    """
    if isinstance(place, Path) or not scheme_of(place):
        yield InspectedBundle(open_streamed(place), str(place), str(place), {})
        return
    source = source_of(place)
    with source.inspect(place, policy, now, full=full, ca=ca, on_bytes=on_bytes) as found:
        yield found


def channel_source() -> ChannelSource:
    """Return what asks channels. Raises IncompatibleRuntimeError (AOTC-E406)."""
    return cast(ChannelSource, _load_registered("channel", "--channel"))


def _load_registered(name: str, where: str) -> object:
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    raise refusal("AOTC-E406", where, f"no entry point {name!r} of {GROUP}")
