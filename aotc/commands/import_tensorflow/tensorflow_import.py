"""Has an environment with TensorFlow export a signature, and takes over what it wrote."""

import errno
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aotc.base.errors import refusal
from aotc.base.foreign_python import Script, open_result, run_script
from aotc.base.temporary_files import temporary_folder
from aotc.bundle.write.atomic_files import prepare_files, write_atomically
from aotc.capture.file_digests import changed_while_read, digest_of
from aotc_runtime.base.digest import sha256
from aotc_runtime.system.regular_files import open_regular

EXPORTER = Script(
    path=Path(__file__).with_name("tensorflow_exporter.py"),
    result="model.tfhlo",
    expected="a Python that imports tensorflow, 2.21 or newer, and exports the model",
    hint="pass --python of an environment with tensorflow-cpu",
)
"""Which imports nothing of aotc."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The export of TensorFlow.

    `model` is a model file; `expected` an .npz file with its results, if inputs were given.
    """

    model: bytes
    expected: bytes | None


def import_signature(
    saved_model: Path,
    python: Path,
    signature: str | None,
    profiles: Sequence[Mapping[str, int]],
    inputs: Path | None,
) -> Imported:
    """Export a signature for each profile. python: of an environment with TensorFlow.

    Raises CaptureError: AOTC-E843 for what is no SavedModel, and for a Python without TensorFlow;
    E844 with the operations that cannot be exported; E840 for files that changed meanwhile.
    """
    digest, size = _digest(saved_model)
    job = {
        "saved_model": str(saved_model.absolute()),
        "digest": digest,
        "signature": signature,
        "profiles": list(map(dict, profiles)),
        "inputs": None if inputs is None else str(inputs.absolute()),
    }
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-tensorflow-", "") as folder:
        (folder / "job.json").write_bytes(msgspec.json.encode(job))
        run_script(python, EXPORTER, folder, str(saved_model), size)
        # TensorFlow opens files by name: what it read is told by nothing else.
        if _digest(saved_model) != (digest, size):
            raise changed_while_read(str(saved_model), "a file of it")
        with open_result(folder / EXPORTER.result) as model:
            if inputs is None:
                return Imported(model.read(), None)
            with open_result(folder / "expected.npz") as expected:
                return Imported(model.read(), expected.read())


def _digest(saved_model: Path) -> tuple[str, int]:
    """Return a digest of the files of a SavedModel and their names, and the number of their bytes.

    Raises:
        CaptureError: AOTC-E843 for a folder without a model, that cannot be read, or that holds
            anything but files and folders.
    """
    graph = saved_model / "saved_model.pb"
    try:
        with open_regular(graph):
            pass
        files = _files(saved_model)
        told = {str(path.relative_to(saved_model)): digest_of(path) for path in files}
        size = sum(path.stat().st_size for path in files)
    except OSError as error:
        found = f"{error.filename or graph}: {error.strerror}"
        raise refusal("AOTC-E843", str(saved_model), found, expected="a SavedModel") from error
    return sha256(json.dumps(told, sort_keys=True).encode()), size


def _files(saved_model: Path) -> list[Path]:
    """Return the files of a SavedModel.

    Raises OSError for a pipe, which TensorFlow would wait for, and for a link to a folder, whose
    files it would read although they are in no digest.
    """
    found = sorted(saved_model.rglob("*"))
    for path in found:
        if not path.is_file() and (path.is_symlink() or not path.is_dir()):
            raise OSError(errno.EINVAL, "neither a file nor a folder", str(path))
    return [path for path in found if path.is_file()]


def write(imported: Imported, output: Path, expected: Path | None) -> dict[str, Any]:
    """Write the model file and the results; return a report. Raises UsageError (AOTC-E003)."""
    beside = {}
    if expected is not None and imported.expected is not None:
        beside[expected] = imported.expected
    with prepare_files(beside) as before:
        write_atomically(output, [imported.model], before=before)
    return {
        "output": str(output),
        "digest": sha256(imported.model),
        "expected": None if expected is None else str(expected),
    }
