"""Has an environment with a model's framework run it on recorded inputs, at every profile."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np

from aotc.base.errors import refusal
from aotc.base.foreign_python import TEXT_BYTES_MAX, Script, bad_result, open_result, run_script
from aotc.base.temporary_files import temporary_folder
from aotc.bundle.write.atomic_files import write_atomically
from aotc.capture.model_files.frontend_registry import RECORDABLE
from aotc.config.build_manifest import EntryPointSpec, InputLeaf, read_build_manifest
from aotc.config.toml_edit import with_value
from aotc.report.array_files import read_arguments, read_results, write_npz
from aotc_runtime.schema.manifest_labels import label

RECORDER = Script(
    path=Path(__file__).with_name("model_recorder.py"),
    result="framework",
    expected="a Python that imports the framework of the model, and runs it",
    hint="pass --python of an environment with onnxruntime or torch",
)
"""Which imports nothing of aotc."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Results that a framework computed.

    Attributes:
        entry_point: The name of the entry point.
        framework: Its name and version.
        arrays: Results by name and profile, as `expected` has them.
    """

    entry_point: str
    framework: str
    arrays: Mapping[str, Array]


def record(
    manifest_path: Path, entry_point: str | None, python: Path, written: Path | None = None
) -> Recorded:
    """Return the framework results of an entry point's model for the inputs of its fixtures.

    python: of an environment with that framework.  written: where the caller writes the results,
    which the manifest may name already.

    Raises ConfigError for a bad manifest, UsageError for inputs that cannot be read, and
    CaptureError: AOTC-E831 without recorded inputs, E843 for a Python that does not run the file,
    E844 for what cannot be recorded of it.
    """
    manifest = read_build_manifest(manifest_path, written=written)
    name, spec = _chosen(manifest.entry_points, entry_point, manifest_path)
    assert spec.source is not None and spec.fixtures.file is not None, "it was chosen by these"
    given = read_arguments([f"@{spec.fixtures.file.path}"], "fixtures.file")
    profiles = {
        tuple(sorted(sizes.items())): dict(sizes)
        for target in manifest.targets
        for sizes in map(dict, manifest.profiles(name, target))
    }
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-recording-", "") as folder:
        for number, sizes in enumerate(profiles.values()):
            write_npz(folder / f"{number}.npz", _cut(spec, given, sizes))
        job = {"model": str(spec.source.path.absolute()), "calls": len(profiles)}
        (folder / "job.json").write_bytes(msgspec.json.encode(job))
        size = spec.source.path.stat().st_size
        run_script(python, RECORDER, folder, spec.source.text, size)
        arrays: dict[str, Array] = {}
        for number, sizes in enumerate(profiles.values()):
            path = folder / f"{number}.results.npz"
            names = _text(folder / f"{number}.names.json")
            try:
                with open_result(path) as file:
                    found = read_results(file, names)
            except (ArithmeticError, LookupError, MemoryError, ValueError, BadZipFile) as error:
                raise bad_result(path, str(error)) from error
            arrays |= {label(result, sizes): array for result, array in found.items()}
        return Recorded(name, _text(folder / "framework").decode(errors="replace"), arrays)


def _text(path: Path) -> bytes:
    with open_result(path) as file:
        return file.read(TEXT_BYTES_MAX)


def enter_expected(manifest: Path, entry_point: str, output: Path) -> str | None:
    """Name a file of results in the fixtures of an entry point, keeping the rest of the text.

    Returns:
        The line that was entered; None where the manifest names the file already.

    Raises:
        BuildManifestError: AOTC-E801, E802 for a manifest that changed meanwhile.
        UsageError: AOTC-E003 for a manifest that cannot be written.
    """
    path = Path(os.path.relpath(output, manifest.absolute().parent)).as_posix()
    text = with_value(manifest, ("entry_points", entry_point, "fixtures", "expected"), path)
    if text is None:
        return None
    write_atomically(manifest, [text])
    return f"expected = {json.dumps(path)}"


def _chosen(
    entry_points: Mapping[str, EntryPointSpec], wanted: str | None, manifest_path: Path
) -> tuple[str, EntryPointSpec]:
    """Return the entry point that is asked for, or the only one that can be recorded."""
    able = {
        name: spec
        for name, spec in entry_points.items()
        if spec.source is not None
        and spec.source.path.suffix in RECORDABLE
        and spec.fixtures.file is not None
    }
    names = [wanted] if wanted in able else [*able] if wanted is None else []
    if len(names) != 1:
        where = f"{manifest_path} entry_points{f'.{wanted}' if wanted else ''}"
        found = f"{len(able)} of them: {', '.join(able)}" if able else "none"
        cause = "no-recorded-inputs-to-run"
        files = " or ".join(RECORDABLE)
        expected = f"one entry point with a {files} file and `fixtures.file`"
        hint = "name one with `--entry-point`" if len(able) > 1 else None
        raise refusal("AOTC-E831", where, found, cause=cause, expected=expected, hint=hint)
    return names[0], able[names[0]]


def _cut(
    spec: EntryPointSpec, given: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return a profile's inputs, cut like fixtures: repeated along axes with a dimension."""
    axes = {path: leaf.shape for path, leaf in spec.leaves.items() if isinstance(leaf, InputLeaf)}
    found = {}
    for path, array in given.items():
        for number, axis in enumerate(axes.get(path, ())):
            if isinstance(axis, str) and number < array.ndim and array.shape[number]:
                array = np.take(array, np.arange(sizes[axis]) % array.shape[number], number)
        found[path] = array
    return found
