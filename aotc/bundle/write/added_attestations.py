"""Adds attestations to a finished bundle; no signed byte changes."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from aotc.base.errors import refusal
from aotc.base.temporary_files import lock_path
from aotc.bundle.write import oci_descriptors
from aotc.bundle.write.atomic_files import as_write_error
from aotc.bundle.write.bundle_writer import Blob, add_attestation, form_of, reading_back, write
from aotc.bundle.write.hashed_weights import sizes_of
from aotc.bundle.write.oci_descriptors import layout_index
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress, open_streamed
from aotc_runtime.verification.bundle_examination import read_whole


def with_attestations(
    path: Path,
    root: str,
    envelopes: Sequence[bytes],
    replaced: Callable[[bytes], bool] = lambda old: False,
    on_progress: OnProgress = ignore_progress,
) -> None:
    """Add DSSE envelopes to a bundle, also through a link: where it leads to at the beginning.

    Weights are hashed as they were written, before that replaces the bundle. `root` is the digest
    that the envelopes are about, since another bundle may have been put there (AOTC-E201).
    `replaced` returns whether to remove an existing envelope. `on_progress` gets the bytes copied
    and hashed. Raises BundleFormatError, IntegrityError, UsageError.
    """
    path = path.resolve()
    with ExitStack() as stack:
        with as_write_error(path):
            # Of two that sign at once, the second adds to what the first has written.
            stack.enter_context(lock_path(path))
        source = open_streamed(path, on_progress)
        old, there, contents = read_whole(source, sizes_of(source))
        if old.entry.digest != root:
            hint = "find out who replaced it, inspect it, and sign again"
            raise refusal("AOTC-E201", str(path), old.entry.digest, expected=root, hint=hint)
        types = {d.digest: d.mediaType for image in contents.targets.values() for d in image.layers}
        kept, gone = {}, set()
        for entry, envelope in zip(old.attestations, there, strict=True):
            if replaced(envelope):
                gone |= {entry.digest, sha256(envelope)}
            else:
                kept[entry] = sha256(envelope)
        gone -= {*(entry.digest for entry in kept), *kept.values()}
        blobs = {
            d: Blob(source.blob(d) or b"", types.get(d, ""), known=d)
            for d in source.digests() - gone
        }
        subject = oci_descriptors.entry_descriptor(old.entry)
        added = [add_attestation(subject, envelope, blobs) for envelope in envelopes]
        new = {reference.digest for reference in added}
        others = [
            oci_descriptors.entry_descriptor(entry, oci_layout.ATTESTATION_TYPE) for entry in kept
        ]
        references = [d for d in others if d.digest not in new] + added
        index = layout_index(subject, references, contents.manifests)
        check = reading_back(root, contents.manifests, [source], on_progress)
        write(path, form_of(path), index, blobs, check, on_progress=on_progress)
