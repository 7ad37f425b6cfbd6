"""From a registry into a store: what lacks is fetched, several blobs at once."""

from collections.abc import Callable
from typing import NamedTuple

from aotc_runtime.base.digest import chunks_of
from aotc_runtime.base.errors import raise_if, refusal
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import Descriptor
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.read_progress import BytesProgress, OnBytes
from aotc_runtime.verification import policy_rules
from aotc_runtime.verification.early_choice import AskHost, choose
from aotc_runtime.verification.verify_bundle import attribute
from aotc_serve.oci.parallel_transfer import Counted, each, ignore_progress
from aotc_serve.oci.registry_blobs import fetch_blob
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.registry_listing import Listing, fetch_attestations, fetch_documents, resolve
from aotc_serve.store.blob_files import FileSink
from aotc_serve.store.stored_bundles import Store, sizes_of

type Choose = Callable[[Listing], Listing]
"""Says what to fetch of a bundle, by its documents; raises if it is nothing."""


class Accept(NamedTuple):
    """Callbacks that accept a bundle before more of it is fetched.

    `attested` gets the root and its attestations, before any signer is known; `chosen` gets all
    documents, and returns what to fetch. `policy` is as of `fetch_attestations`.
    """

    attested: Callable[[Listing], object]
    chosen: Choose
    policy: TrustPolicy | None = None


type Wanted = Callable[[Descriptor], bool]


def all_layers(layer: Descriptor) -> bool:
    """Fetch everything."""
    return True


ACCEPT_ALL = Accept(lambda listing: None, lambda listing: listing)
"""Fetch whatever it is: who uses it verifies it."""


def accept_signed(policy: TrustPolicy, now: float, name: str) -> Accept:
    """Fetch a bundle that the policy's keys signed, within limits (verification steps 1 to 4).

    `now` is in seconds since the epoch; `name` is for messages.
    """

    def vouched(listing: Listing) -> None:
        attribute(listing.as_bundle(name), policy, now)

    def limited(listing: Listing) -> Listing:
        sizes = sizes_of(*listing.layers().values())
        raise_if(policy_rules.check_limits(listing.as_bundle(name), policy.limits, sizes))
        return listing

    return Accept(vouched, limited, policy)


def for_host(policy: TrustPolicy, now: float, name: str, ask: AskHost) -> Accept:
    """Fetch the target that a load here takes, if the policy accepts the bundle and it fits.

    `now` and `name` are as in `signed_by`, `ask` as in `choose`.
    """
    signed = accept_signed(policy, now, name)

    def chosen(listing: Listing) -> Listing:
        if listing.targets:
            found = [(t.image, listing.documents[t.image.config.digest]) for t in listing.targets]
            source = listing.as_bundle(name)
            listing = listing.only((choose(source, found, listing.absent, policy, now, ask),))
        return signed.chosen(listing)

    return signed._replace(chosen=chosen)


def pull(
    repository: Repository,
    store: Store,
    targets: tuple[str, ...] = (),
    on_bytes: OnBytes = ignore_progress,
    accept: Accept = ACCEPT_ALL,
    have: BlobSource | None = None,
    wanted: Wanted = all_layers,
) -> Listing:
    """Pull a bundle into a store: root and attestations first, then what is accepted.

    `targets` are names, or empty for all; blobs of `have` need not be fetched; `wanted` selects
    layers. Raises RegistryError, IntegrityError, BundleFormatError, ResourceError (AOTC-E560,
    E561), and what `accept` raises.
    """
    attested = fetch_attestations(repository, resolve(repository), accept.policy)
    accept.attested(attested)
    whole = fetch_documents(repository, attested)
    listing = whole.only(targets)
    store.files.make()
    with store.files.keep_blobs():
        # Those of other targets, too: by them a load knows later that it takes this one.
        for digest, data in whole.documents.items():
            store.files.put(digest, data)
        store.keep(listing.root, listing.attestations)
        listing = accept.chosen(listing)
    layers = {digest: layer for digest, layer in listing.layers().items() if wanted(layer)}
    make_room(store, listing, sum(layer.size for layer in layers.values()))
    with store.files.keep_blobs():
        lacking = [d for d, layer in layers.items() if not store.files.has(d, layer.size)]
        tally = BytesProgress(sum(layers[digest].size for digest in lacking), on_bytes)

        def fetch(digest: str) -> None:
            size = layers[digest].size
            counted = Counted(tally, size)
            with store.files.receiving(digest, size, repository.http.wait) as sink:
                if sink is not None:
                    counted.at(sink.size_written())
                    if have is None or not _copy_blob(have, digest, size, sink):
                        fetch_blob(repository, digest, size, sink, counted)
            counted.end()

        each(repository, lacking, fetch)
        # Who made room meanwhile may have taken the documents, which belonged to no whole target.
        for digest, data in whole.documents.items():
            store.files.put(digest, data)
        store.keep(listing.root, listing.attestations)
    return listing


def _copy_blob(have: BlobSource, digest: str, size: int, sink: FileSink) -> bool:
    """Return whether a blob could be copied from a bundle that is present."""
    data = have.blob(digest)
    if data is None or len(data) != size:
        return False
    sink.restart()
    for piece in chunks_of(data):
        sink.write(piece)
    if sink.digest() == digest:
        return True
    sink.restart()
    return False


def make_room(store: Store, listing: Listing, size: int) -> None:
    """Free space so that the store keeps its limit with this bundle. Raises AOTC-E561."""
    if store.limit is None:
        return
    needed = size + sum(map(len, listing.documents.values()))
    if needed > store.limit:
        expected = f"at most {store.limit} bytes"
        raise refusal("AOTC-E561", str(store.folder), f"{needed} bytes", expected=expected)
    there = sum(len_ for digest, len_ in _sizes(listing).items() if store.files.has(digest, len_))
    if store.size_bytes() + needed - there > store.limit:
        store.prune(store.limit - (needed - there), keep=(listing.root.digest,))


def _sizes(listing: Listing) -> dict[str, int]:
    documents = {digest: len(data) for digest, data in listing.documents.items()}
    return documents | {digest: layer.size for digest, layer in listing.layers().items()}
