"""Keras on jax, and a model made by it of a configuration and of weights that were checked.

Private names of Keras are used here alone, as in 3.15: its public `load_model` takes a path, and
opens files by native code that nobody can watch.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py

_PLOTTING = "matplotlib"
"""Which Keras imports to draw with where it is there; half of the time of its import."""


def imported() -> Any:
    """Keras, on jax unless the program has imported it on something else before. The settings of
    who builds, in a keras.json, do not count.
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


def opened(data: bytes) -> Any:
    """An HDF5 file in memory."""
    return h5py.File(h5py.h5f.open_file_image(data))


def load(config: Mapping[str, Any], weights: bytes) -> tuple[Any, Any]:
    """A model, and the scope that has the values of its variables.

    Within this scope variables get no memory but for what the file has of them, and what it lacks
    can be told. Raises whatever Keras raises.
    """
    import keras
    from keras.src.saving import saving_lib

    class Image(saving_lib.H5IOStore):  # type: ignore[misc]
        """Weights in memory."""

        def _get_h5_file(self, path_or_io: Any, mode: str | None = None) -> Any:
            return opened(path_or_io.getvalue())

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
    """The names of a model's layers, those within layers too. Keras computes each in a scope of its
    name.
    """
    return (each.name for each in model._flatten_layers())
