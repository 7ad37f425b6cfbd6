"""Which files belong to Python, to installed distributions and to aotc itself."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import aotc
import aotc_runtime
from aotc.capture.installed_packages import Installed

NATIVE = frozenset(
    {"jaxlib", "numpy", "pydantic_core", "scipy", "scikit-learn", "cryptography", "cffi", "regex"}
)
"""Distributions whose native code opens no files but through Python's `open`, although its symbols
do not show it (`aotc.pipeline.watching.native_code`)."""

OPENERS: Mapping[str, frozenset[str] | None] = {
    "h5py.h5f": frozenset({"create", "is_hdf5", "open"}),
    "onnx.onnx_cpp2py_export": frozenset(
        {
            *("checker._open_external_data", "checker.check_attribute", "checker.check_function"),
            *("checker.check_graph", "checker.check_model", "checker.check_model_path"),
            *("checker.check_node", "checker.check_sparse_tensor", "checker.check_tensor"),
            "shape_inference.infer_shapes_path",
        }
    ),
    "PIL._imaging": frozenset({"grabscreen_x11"}),
    "psutil._psutil_linux": None,
}
"""Modules of native code that does reach beyond memory, to the functions by which alone it does,
those of modules within a module with both names; None for one that asks the system by all that it
has. As long as nobody calls these, it computes in memory. Those of onnx are what its sources, which
lie in the wheel, have of files: a check may look for a tensor's external data."""

OPENED_THROUGH = {"h5py": "h5py.h5f"}
"""Packages all of whose native code opens files through one of these modules."""


@cache
def _installed() -> tuple[str, ...]:
    """Folders with installed distributions, most of which lie within a folder of the standard
    library.
    """
    entries = [entry for entry in sys.path if entry and any(Path(entry).glob("*.dist-info"))]
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([*entries, paths["purelib"], paths["platlib"]])


@cache
def _of_python() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return _ending_in_a_slash([paths["stdlib"], paths["platstdlib"]])


@cache
def _ours() -> tuple[str, ...]:
    return _ending_in_a_slash([aotc.__path__[0], aotc_runtime.__path__[0]])


def is_of_python_or_ours(path: str) -> bool:
    """Whether a file belongs to the standard library or to aotc. Keys do not hold such files: the
    version of Python and the digest of our code stand for them.
    """
    return path.startswith(_ours()) or is_of_python(path)


def is_of_python(path: str) -> bool:
    """Whether a file belongs to the standard library."""
    return path.startswith(_of_python()) and not path.startswith(_installed())


@cache
def folders() -> tuple[str, ...]:
    """Folders of installed code, with a slash at the end: no file below one is the project's."""
    return tuple(dict.fromkeys((*_installed(), *_of_python(), *_ours())))


def _ending_in_a_slash(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, "") for folder in dict.fromkeys(folders))


def owned(distribution: Installed, paths: set[str]) -> set[str]:
    """Which of these files a distribution has installed."""
    base = distribution.folder
    below = {path.removeprefix(base): path for path in paths if path.startswith(base)}
    return {below[name] for name in below.keys() & distribution.files} if below else set()
