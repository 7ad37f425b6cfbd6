"""A smaller copy of a bundle: fewer targets under the same root, so that its signatures hold."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from aotc.base.stages import Bundle
from aotc.bundle.write.bundle_writer import Blob, Form, reading_back, require_place, write_files
from aotc.bundle.write.hashed_weights import hash_rest, sizes_of
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import raise_if
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.bundle_examination import read_whole
from aotc_runtime.verification.host_findings import missing_target


def extract(
    source: BlobSource,
    targets: Sequence[str],
    path: Path,
    form: Form,
    told: OnProgress = ignore_progress,
) -> Bundle:
    """Write a copy that holds these targets alone; every document stays byte for byte.

    Digests are checked, attestations are carried along. told: of bytes that were read
    back. Raises IncompatibleHostError (AOTC-E505) for a target that is not there,
    BundleFormatError, IntegrityError, UsageError (AOTC-E003, E004).
    """
    root, envelopes, contents = read_whole(source, sizes_of(source))
    raise_if(
        missing_target(contents.manifests, target, contents.absent)
        for target in targets
        if target not in contents.manifests
    )
    require_place(path, form)
    types = dict(_blobs(contents, targets))
    blobs = {
        digest: Blob(source.blob(digest) or b"", types.get(digest, ""), known=digest)
        for digest in (root.entry.digest, *envelopes.blobs, *types)
    }
    files = {
        name: source.file(name) or b"" for name in (oci_layout.LAYOUT_FILE, oci_layout.INDEX_FILE)
    }
    kept = {name: contents.manifests[name] for name in sorted(set(targets))}
    hash_rest(source, contents, types)
    check = reading_back(root.entry.digest, kept, [source], told)
    size = write_files(path, form, files, blobs, check, on_progress=told)
    return Bundle(path=path, root_digest=root.entry.digest, manifests=kept, size_bytes=size)


def _blobs(contents: Contents, targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield digest and media type of every blob of these targets."""
    for name in targets:
        image = contents.targets[name]
        yield sha256(canonical_json.encode(image)), oci_layout.MANIFEST_TYPE
        for reference in (image.config, *image.layers):
            yield reference.digest, reference.mediaType
