"""Files of sharded safetensors, which `model.safetensors.index.json` of their folder lists."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from aotc.config.manifest_specs import SourceFile
from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.base.limits import TENSOR_HEADER_BYTES_MAX
from aotc_runtime.system.bundle_files import read_file

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"

ENDING = ".safetensors.index.json"


class Index(Struct, frozen=True):
    """Maps tensor names to files beside the index."""

    weight_map: dict[str, str]
    metadata: dict[str, Any] = {}


def sibling_file(source: SourceFile, name: str) -> SourceFile:
    """Return a file in the folder of another."""
    return SourceFile(str(PurePath(source.text).parent / name), source.path.parent / name)


def main_file(source: SourceFile) -> SourceFile:
    """Return the file that a manifest names; for a folder, the one that lists the others."""
    if not source.path.is_dir():
        return source
    for name in (INDEX, SINGLE):
        inside = SourceFile(str(PurePath(source.text) / name), source.path / name)
        if inside.path.exists():
            return inside
    return source


def is_index(file: SourceFile) -> bool:
    """Return whether a file lists the tensors of other files."""
    return file.path.name.endswith(ENDING)


def read_index(file: SourceFile) -> Index:
    """Read an index; raises OSError, or BundleFormatError (AOTC-E106, E111)."""
    data = read_file(file.path, TENSOR_HEADER_BYTES_MAX)
    return decode_foreign(data, Index, where=file.path.name, marks=len(data))


def is_file_name(text: str) -> bool:
    """Return whether a text names a file in the index's own folder."""
    return PurePath(text).name == text and "\0" not in text


def files_of(source: SourceFile) -> Iterator[SourceFile]:
    """Yield all files of a source that a manifest names, as far as its index can be read."""
    main = main_file(source)
    yield main
    if is_index(main):
        try:
            names = sorted({*read_index(main).weight_map.values()})
        except (OSError, BundleFormatError):
            return
        yield from (sibling_file(main, name) for name in names if is_file_name(name))
