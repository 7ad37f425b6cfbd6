"""The HDF5 file of a model's weights, asked before Keras reads it.

Keras writes each array in one piece, without compression. What else the format knows (links, parts
in other files, filters, shapes without bytes behind them) is refused: only this file is read,
and no array is larger than it is.
"""

from __future__ import annotations

from typing import Any

import h5py

from aotc.capture.model_files.model_archive import Damaged
from aotc.frontends.keras.keras_loading import opened

WRITTEN = "as Keras writes them: in one piece, without compression"


def check(data: bytes) -> None:
    """Raises Damaged."""
    try:
        with opened(data) as file:
            _walk(file, len(data))
    except Damaged:
        raise
    except Exception as error:
        # Nothing is promised of what h5py raises for a file that it cannot read.
        found = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise Damaged("weights as an HDF5 file", ascii(found)[:300]) from error


def _walk(file: Any, size: int) -> None:
    seen, left, total = set[tuple[int, int]](), [file], 0
    while left:
        group = left.pop()
        for name in group:
            where = ascii(f"{group.name}/{name}")[:200]
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise Damaged("weights in the file itself", f"a link at {where}")
            each = group[name]
            info = h5py.h5o.get_info(each.id)
            if (info.fileno, info.addr) in seen:
                raise Damaged("each array once", f"{where} is one that was there before")
            seen.add((info.fileno, info.addr))
            if isinstance(each, h5py.Group):
                left.append(each)
                continue
            if not isinstance(each, h5py.Dataset):
                raise Damaged("arrays", f"{type(each).__name__} at {where}")
            total += _bytes(each, where)
            if total > size:
                raise Damaged("arrays that lie beside each other", f"{total} bytes in {size}")


def _bytes(dataset: Any, where: str) -> int:
    """How many bytes an array has. Raises Damaged if they are not all there."""
    if dataset.shape is None or dataset.dtype.kind not in "biufcV" or dataset.dtype.hasobject:
        raise Damaged("arrays of numbers", f"{where} is {dataset.dtype}")
    if dataset.chunks is not None or dataset.external or dataset.is_virtual:
        raise Damaged(f"weights {WRITTEN}", f"{where} is not")
    wanted = int(dataset.size) * int(dataset.dtype.itemsize)
    if dataset.id.get_storage_size() != wanted:
        stored = dataset.id.get_storage_size()
        raise Damaged(f"{wanted} bytes of {where}", f"{stored} bytes")
    return wanted
