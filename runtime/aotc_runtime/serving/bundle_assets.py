"""Assets of a loaded bundle: verified files, such as a tokenizer, that travel with the program."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aotc_runtime.schema.bundle_manifest import Asset
from aotc_runtime.verification.verify_bundle import VerifiedBundle


class LoadedAsset:
    """A verified file or folder of a bundle.

    `files` has the bytes of each file by its path, in this process's memory: whoever writes into
    the bundle later changes none of them. They stay valid after the bundle is closed.
    """

    def __init__(self, name: str, asset: Asset, verified: VerifiedBundle) -> None:
        self.name, self.is_folder = name, asset.kind == "folder"
        self.files: Mapping[str, memoryview] = {
            path: verified.blob(ref).data for path, ref in asset.files.items()
        }

    @property
    def data(self) -> bytes:
        """The bytes of an asset that is a file. Raises TypeError for a folder."""
        if self.is_folder:
            raise TypeError(f"asset {self.name} is a folder: use `files` or `as_path()`")
        (only,) = self.files.values()
        return bytes(only)

    @contextmanager
    def as_path(self) -> Iterator[Path]:
        """Yield a path for libraries that read files: a private copy, removed with the context.

        The copy is made of the verified bytes, never of the bundle's file: that may have been
        changed since, and in an archive has no path. Only the current user can open it.

            with bundle.assets["tokenizer"].as_path() as path:
                tokenizer = Tokenizer.from_file(str(path))

        Raises OSError if the folder for temporary files cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix="aotc-asset-") as temporary:
            root = Path(temporary, self.name) if self.is_folder else Path(temporary)
            for path, data in self.files.items():
                file = root / path
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.write_bytes(data)
            yield root if self.is_folder else root.joinpath(*self.files)
