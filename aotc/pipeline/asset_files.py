"""The assets of a build manifest: read once and checked, before anything is built.

Links inside a folder are rejected: in a folder from elsewhere, they could name a private file of
the builder, which the bundle would then publish.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, get_args

from aotc.base.errors import refusal
from aotc.bundle.write.bundle_writer import Blob
from aotc.capture.file_digests import read_open
from aotc.config.build_manifest import BuildManifest, SourceFile
from aotc_runtime.formats import oci_layout
from aotc_runtime.schema.bundle_manifest import Asset, AssetPath
from aotc_runtime.system.regular_files import open_regular
from aotc_runtime.verification.rare_consistency import colliding

FILES_MAX = 10_000
"""Files in a folder: few enough for several assets within the limits of readers."""

_PATH = re.compile(get_args(AssetPath)[1].pattern)
_PATH_EXPECTED = (
    "up to 16 names of ASCII letters, digits, '.', '_' and '-', each of at most 128 characters and "
    "beginning with a letter, a digit or '_'"
)


@dataclass(frozen=True, slots=True)
class AssetFiles:
    """The assets of a build.

    `records` are by name, as bundle manifests have them; `digests` by path, as the build manifest
    writes it, for the provenance.
    """

    records: Mapping[str, Asset]
    blobs: tuple[Blob, ...]
    digests: Mapping[str, str]


def read_assets(manifest: BuildManifest) -> AssetFiles:
    """Read the assets that a build manifest names.

    Raises BuildManifestError (AOTC-E817) for a file that no bundle can hold, and CaptureError
    (AOTC-E840) for one that was written while it was read.
    """
    records: dict[str, Asset] = {}
    blobs: list[Blob] = []
    digests: dict[str, str] = {}
    for name, source in manifest.assets.items():
        where, is_folder = manifest.where("assets", name), source.path.is_dir()
        real = SourceFile(source.text, source.path.resolve())
        found = dict(_below(real, where) if is_folder else [(source.path.name, source)])
        _check_names(found, source, where)
        read = {path: _read(file, where, is_named=not is_folder) for path, file in found.items()}
        files = {path: blob.ref() for path, blob in sorted(read.items())}
        records[name] = Asset(kind="folder" if is_folder else "file", files=files)
        blobs += read.values()
        digests |= {found[path].text: blob.digest for path, blob in read.items()}
    return AssetFiles(records, tuple(blobs), digests)


def with_card(manifest: BuildManifest, card: Path) -> BuildManifest:
    """Return a build manifest with a file as its asset `card`, in place of its own.

    Raises BuildManifestError (AOTC-E817) if it is no readable file.
    """
    try:
        open_regular(card).close()
    except OSError as error:
        _refuse("--card", f"{card}: {error.strerror or error}")
    real = card.parent.resolve() / card.name
    source = SourceFile(os.path.relpath(real, manifest.root.resolve()), real)
    return replace(manifest, assets={**manifest.assets, "card": source})


def _below(folder: SourceFile, where: str) -> Iterator[tuple[str, SourceFile]]:
    """Yield the path and the source of each file below a folder."""

    def fail(error: OSError) -> NoReturn:
        _refuse(where, f"{error.filename}: {error.strerror}")

    for place, folders, files in os.walk(folder.path, onerror=fail):
        below = Path(place).relative_to(folder.path)
        for name in folders:
            if Path(place, name).is_symlink():
                _refuse(where, f"{Path(folder.text, below, name)}: a link")
        for name in files:
            yield (
                str(below / name),
                SourceFile(str(Path(folder.text, below, name)), Path(place, name)),
            )


def _check_names(files: Mapping[str, SourceFile], source: SourceFile, where: str) -> None:
    if not 0 < len(files) <= FILES_MAX:
        found = f"{source.text}: {len(files)} files"
        expected = f"1 to {FILES_MAX} files"
        raise refusal("AOTC-E817", where, found, cause="asset-file-count", expected=expected)
    for path, file in files.items():
        if not _PATH.match(path):
            cause, found = "asset-name-is-not-portable", repr(file.text)
            raise refusal("AOTC-E817", where, found, cause=cause, expected=_PATH_EXPECTED)
    if alike := colliding(files):
        found = f"{source.text}: {', '.join(alike)}"
        raise refusal("AOTC-E817", where, found, cause="asset-names-differ-only-by-case")


def _read(file: SourceFile, where: str, *, is_named: bool) -> Blob:
    """Return the contents of a file; `is_named` is whether the build manifest names it itself."""
    try:
        with open_regular(file.path) as opened:
            # Of the open file, so that nothing can put a link into its path in between.
            real = Path(f"/proc/self/fd/{opened.fileno()}").readlink()
            if not is_named and real != file.path:
                _refuse(where, f"{file.text}: a link")
            data, digest = read_open(opened, file.text, where)
    except OSError as error:
        _refuse(where, f"{file.text}: {error.strerror or error}")
    return Blob(data, oci_layout.ASSET_TYPE, known=digest)


def _refuse(where: str, found: str) -> NoReturn:
    raise refusal("AOTC-E817", where, found)
