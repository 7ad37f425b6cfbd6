"""A bundle out of a repository into a file or folder, by way of a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc.base.errors import refusal
from aotc.base.stages import Bundle
from aotc.base.temporary_files import prefix_of, temporary_folder
from aotc.bundle.write import oci_descriptors
from aotc.bundle.write.atomic_files import as_write_error
from aotc.bundle.write.bundle_writer import Blob, Form, reading_back, require_place, write
from aotc.bundle.write.oci_descriptors import layout_index
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.trust_policy import Channel
from aotc_runtime.system.read_progress import OnBytes
from aotc_runtime.system.streamed_bundle import open_streamed, pass_file
from aotc_serve.channel.channel_options import require_newest
from aotc_serve.oci.parallel_transfer import ignore_progress
from aotc_serve.oci.registry_client import Repository
from aotc_serve.oci.registry_listing import Listing
from aotc_serve.store import Store
from aotc_serve.store import pull as pull_into
from aotc_serve.store.store_pull import ACCEPT_ALL, Accept


def pull(
    repository: Repository,
    path: Path,
    form: Form,
    targets: tuple[str, ...] = (),
    store: Store | None = None,
    on_bytes: OnBytes = ignore_progress,
    accept: Accept = ACCEPT_ALL,
) -> Bundle:
    """Write a bundle, as it was pushed: the same bytes, if it is all of it.

    targets: by name; none for all.  store: keeps what was fetched; without one, what the bundle at
    this place has already is not fetched again.  accept: as of `aotc_serve.store.pull`.
    Raises RegistryError, IntegrityError, BundleFormatError, UsageError (AOTC-E003, E004),
    ResourceError.
    """
    require_place(path, form)
    with _store(path, store) as used:
        listing = pull_into(repository, used, targets, on_bytes, accept, _there(path))
        shared = store is None
        blobs = {
            digest: Blob(
                pass_file(used.files.path(digest)),
                media_type,
                used.files.path(digest) if shared else None,
            )
            for digest, media_type in _types(listing).items()
        }
        manifests = _manifests(repository.where, listing)
        root = oci_descriptors.entry_descriptor(listing.root)
        attestations = [
            oci_descriptors.entry_descriptor(e, oci_layout.ATTESTATION_TYPE)
            for e in listing.attestations
        ]
        index = layout_index(root, attestations, manifests)
        size = write(path, form, index, blobs, reading_back(root.digest, manifests))
    return Bundle(path=path, root_digest=root.digest, manifests=manifests, size_bytes=size)


def keep(
    repository: Repository,
    store: Store,
    targets: tuple[str, ...] = (),
    on_bytes: OnBytes = ignore_progress,
    accept: Accept = ACCEPT_ALL,
) -> Bundle:
    """Fetch a bundle into a store alone; parameters and errors are those of `pull`."""
    listing = pull_into(repository, store, targets, on_bytes, accept)
    size = sum(map(len, listing.documents.values()))
    size += sum(layer.size for layer in listing.layers().values())
    manifests = _manifests(repository.where, listing)
    return Bundle(
        path=store.folder, root_digest=listing.root.digest, manifests=manifests, size_bytes=size
    )


def newest(accept: Accept, channel: Channel, folder: Path, name: str) -> Accept:
    """Fetch what is accepted otherwise, by keys that signed it, and what the channel names, too.

    folder: of the policy.  name: for messages. Raises, beside what `accept` does, TrustError
    (AOTC-E327 to E335), BundleFormatError.
    """

    def accept_newest(listing: Listing) -> Listing:
        accepted = accept.chosen(listing)
        index = listing.documents[listing.root.digest]
        named = {(m.name, m.version) for m in _manifests(name, accepted).values()}
        for bundle, version in sorted(named):
            require_newest(channel, folder, bundle, version, index)
        if not named:
            raise refusal("AOTC-E327", name, "", cause="bundle-has-no-targets")
        return accepted

    return accept._replace(chosen=accept_newest)


def _manifests(where: str, listing: Listing) -> dict[str, BundleManifest]:
    return {
        target.name: canonical_json.decode(
            listing.documents[target.image.config.digest],
            BundleManifest,
            where=f"{where} {target.name}",
        )
        for target in listing.targets
    }


@contextmanager
def _store(path: Path, store: Store | None) -> Iterator[Store]:
    """Return the store, or one beside the result that goes with the command."""
    if store is not None:
        yield store
        return
    with as_write_error(path):
        parent = next(each for each in path.absolute().parents if each.is_dir())
        with temporary_folder(parent, prefix_of(path)) as folder:
            yield Store(folder)


def _there(path: Path) -> BlobSource | None:
    """Return the bundle that is to be replaced, whose blobs may be some of the new one's."""
    try:
        return open_streamed(path)
    except AotcError:
        return None


def _types(listing: Listing) -> dict[str, str]:
    """Media type of every blob by digest."""
    found = dict.fromkeys(listing.documents, oci_layout.ATTESTATION_TYPE)
    found |= {layer.digest: layer.mediaType for layer in listing.layers().values()}
    return found
