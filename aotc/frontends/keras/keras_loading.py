"""Keras on jax, the checks of a model's weights, and a model made by it of a checked configuration.

Private names of Keras are used here alone, as in 3.15: its public `load_model` takes a path, and
opens files by native code that nobody can watch.
"""

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py

from aotc.capture.model_files.model_archive import Damaged

_PLOTTING = "matplotlib"
"""Which Keras imports to draw with where it is there; half of the time of its import."""


def import_keras() -> Any:
    """Import Keras on jax, unless the program has imported it on another backend.

    A keras.json of the user who builds has no effect.
    """
    if "keras" not in sys.modules:
        os.environ.update(KERAS_BACKEND="jax", KERAS_HOME=os.devnull)
        with _absent(_PLOTTING):
            import keras
    import keras

    return keras


@contextmanager
def _absent(package: str) -> Iterator[None]:
    """Have imports of a package fail, unless it is there already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


def open_hdf5(data: bytes) -> Any:
    """Return an HDF5 file in memory."""
    return h5py.File(h5py.h5f.open_file_image(data))


WRITTEN = "as Keras writes them: in one piece, without compression"


def check_weights(data: bytes) -> None:
    """Raise Damaged for an HDF5 file that Keras would not have written.

    It writes each array in one piece, without compression. What else the format knows (links, parts
    in other files, filters, shapes without bytes behind them) is refused: only this file is read,
    and no array is larger than it is.
    """
    try:
        with open_hdf5(data) as file:
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
                raise Damaged("each array once", f"another copy at {where}")
            seen.add((info.fileno, info.addr))
            if isinstance(each, h5py.Group):
                left.append(each)
                continue
            if not isinstance(each, h5py.Dataset):
                raise Damaged("arrays", f"{type(each).__name__} at {where}")
            total += _bytes(each, where)
            if total > size:
                raise Damaged("contiguous arrays", f"{total} bytes in {size}")


def _bytes(dataset: Any, where: str) -> int:
    """Return an array's size in bytes. Raises Damaged if the file is truncated."""
    if dataset.shape is None or dataset.dtype.kind not in "biufcV" or dataset.dtype.hasobject:
        raise Damaged("arrays of numbers", f"{dataset.dtype} at {where}")
    if dataset.chunks is not None or dataset.external or dataset.is_virtual:
        raise Damaged(f"weights {WRITTEN}", f"other weights at {where}")
    wanted = int(dataset.size) * int(dataset.dtype.itemsize)
    if dataset.id.get_storage_size() != wanted:
        stored = dataset.id.get_storage_size()
        raise Damaged(f"{wanted} bytes of {where}", f"{stored} bytes")
    return wanted


def load(config: Mapping[str, Any], weights: bytes) -> tuple[Any, Any]:
    """Return a model, and the scope that has the values of its variables.

    Within this scope variables get no memory but for what the file has of them, and what it lacks
    can be told. Raises whatever Keras raises.
    """
    import keras
    from keras.src.saving import saving_lib

    class Image(saving_lib.H5IOStore):  # type: ignore[misc]
        """Weights in memory."""

        def _get_h5_file(self, path_or_io: Any, mode: str | None = None) -> Any:
            return open_hdf5(path_or_io.getvalue())

    scope = keras.StatelessScope(initialize_variables=False)
    failed, messages = set[int](), dict[int, tuple[Any, Exception]]()
    with scope:
        model = saving_lib._model_from_config(json.dumps(config), None, False, True)
        store = Image(io.BytesIO(weights), mode="r")
        try:
            saving_lib._load_state(
                model,
                weights_store=store,
                assets_store=None,
                inner_path="",
                visited_saveables=set(),
                failed_saveables=failed,
                error_msgs=messages,
            )
        finally:
            store.close()
    for _, error in messages.values():
        raise error
    return model, scope


def layer_names(model: Any) -> Iterator[str]:
    """Yield the names of a model's layers, nested ones included, which Keras uses as scopes."""
    return (each.name for each in model._flatten_layers())
