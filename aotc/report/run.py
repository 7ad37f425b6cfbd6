"""One call of a loaded bundle from the command line: inputs from files, results to a file."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc.errors import UsageError
from aotc.packing.files import write_atomically
from aotc_runtime import LoadedBundle, load
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import DType, TensorSpec
from aotc_runtime.schema.tree import Tree
from aotc_runtime.serving import trees
from aotc_runtime.serving.compare import compare
from aotc_runtime.serving.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]

SHORT = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "c64": "complex64",
}
"""Short dtype names for `--input NAME=8x64xf32`, as other runners use them."""

_FILLED = re.compile(r"\A((?:\d+x)*)([a-z][a-z0-9_]*)(?:=(.+))?\Z")


@dataclass(frozen=True, slots=True)
class Outcome:
    """document: JSON-able result.  findings: results that differ from what was expected."""

    document: dict[str, Any]
    findings: tuple[Finding, ...]


def _usage(code: str, where: str, expected: str, found: str, hint: str) -> UsageError:
    return UsageError(Finding(code=code, where=where, expected=expected, found=found, hint=hint))


def run_once(
    bundle_path: Path,
    entry_point: str,
    trust: Path,
    target: str | None,
    inputs: Sequence[str],
    output: Path | None,
    expect: Sequence[str],
    *,
    rtol: float,
    atol: float,
) -> Outcome:
    """Load, call once, write and compare.

    Raises what `load` and a call raise; UsageError: AOTC-E011 malformed `--input` or `--expect`,
    E012 a file that cannot be read, E013 inputs that are not the entry point's.
    """
    given = _read_arguments(inputs, "--input")
    expected = _read_arguments(expect, "--expect")
    with load(bundle_path, trust=trust, target=target) as bundle:
        callable_ = bundle[entry_point]
        leaves = _input_leaves(callable_.spec.inputs, given, entry_point)
        arguments = {
            parameter.name: trees.builder(parameter.tree)(leaves)
            for parameter in callable_.spec.parameters
        }
        positional = [
            arguments.pop(parameter.name)
            for parameter in callable_.spec.parameters
            if parameter.kind == "positional_only"
        ]
        result = callable_(*positional, **arguments)
        results = _named_results(callable_.spec.outputs, callable_.spec.result, result)
        document = _document(bundle, entry_point, results)
    if output is not None:
        _write_npz(output, results)
        document["output"] = str(output)
    findings = list(_compare(results, expected, rtol, atol))
    return Outcome(document, tuple(findings))


def _read_arguments(texts: Sequence[str], option: str) -> dict[str, Array | str]:
    """Arrays by name; a fill such as 8x64xf32=1 stays text until its dtype is known to fit."""
    found: dict[str, Array | str] = {}
    for text in texts:
        if text.startswith("@"):
            found |= _read_file(Path(text[1:]), option)
            continue
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise _usage(
                "AOTC-E011",
                f"{option} {text}",
                "NAME=@file.npy, NAME=8x64xf32 or @file.npz",
                "something else",
                "name the input as `aotc inspect` shows it",
            )
        if value.startswith("@"):
            arrays = _read_file(Path(value[1:]), option)
            if len(arrays) != 1:
                raise _usage(
                    "AOTC-E011",
                    f"{option} {text}",
                    "a file with one array",
                    f"{len(arrays)} arrays",
                    f"pass {option} {value} to use the names in the file",
                )
            found[name] = next(iter(arrays.values()))
        else:
            found[name] = value
    return found


def _read_file(path: Path, option: str) -> dict[str, Array | str]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {path.stem: loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _usage(
            "AOTC-E012",
            f"{option} {path}",
            "a readable .npy or .npz file",
            found,
            "write it with numpy.save",
        ) from error


def _input_leaves(
    specs: tuple[TensorSpec, ...], given: dict[str, Array | str], entry_point: str
) -> list[Array]:
    known = [spec.path for spec in specs]
    missing = [path for path in known if path not in given]
    surplus = [name for name in given if name not in known]
    if missing or surplus:
        raise _usage(
            "AOTC-E013",
            entry_point,
            "--input for " + (", ".join(known) or "nothing"),
            "; ".join(
                [f"none for {', '.join(missing)}"] * bool(missing)
                + [f"unknown {', '.join(surplus)}"] * bool(surplus)
            ),
            "name the inputs as `aotc inspect` shows them",
        )
    return [_leaf(spec, given[spec.path]) for spec in specs]


def _leaf(spec: TensorSpec, value: Array | str) -> Array:
    if isinstance(value, str):
        return _fill(spec, value)
    dtype = numpy_dtype(spec.dtype)
    # .npy files know bfloat16 and float8 only as raw bytes.
    if value.dtype.kind == "V" and value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    return value


def _fill(spec: TensorSpec, text: str) -> Array:
    match = _FILLED.match(text)
    name = SHORT.get(match[2], match[2]) if match else ""
    try:
        if match is None:
            raise ValueError("not SHAPExDTYPE")
        shape = tuple(int(axis) for axis in match[1].split("x")[:-1])
        value = complex(match[3]) if match[3] and "j" in match[3] else float(match[3] or 0)
        return np.full(shape, value).astype(numpy_dtype(DType(name)))
    except ValueError as error:
        raise _usage(
            "AOTC-E011",
            f"--input {spec.path}={text}",
            "SHAPExDTYPE such as 8x64xf32 or 8x64xf32=1.5 (zeros without a value)",
            text,
            "or pass an array: NAME=@file.npy",
        ) from error


def _named_results(specs: tuple[TensorSpec, ...], tree: Tree, result: Any) -> dict[str, Array]:
    leaves = dict(trees.flatten(tree, result, "result"))
    return {spec.path or "result": leaves[index] for index, spec in enumerate(specs)}


def _document(bundle: LoadedBundle, entry_point: str, results: dict[str, Array]) -> dict[str, Any]:
    report = bundle.report()
    calls = report["entry_points"][entry_point]["calls"]
    return {
        "bundle": f"{bundle.name} {bundle.version}",
        "root_digest": bundle.root_digest,
        "target": report["target"],
        "path": next(label for label, count in calls.items() if count),
        "compilations": report["compilations"],
        "load_seconds": report["timings"]["total"],
        "results": {
            name: {
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "preview": _preview(array),
            }
            for name, array in results.items()
        },
    }


def _preview(array: Array) -> str:
    with np.printoptions(precision=5, threshold=12, edgeitems=3, linewidth=76):
        return str(array)


def _write_npz(path: Path, results: dict[str, Array]) -> None:
    import io

    buffer = io.BytesIO()
    np.savez(buffer, **results)  # type: ignore[arg-type]
    write_atomically(path, [buffer.getbuffer()])


def _compare(
    results: dict[str, Array], expected: dict[str, Array | str], rtol: float, atol: float
) -> list[Finding]:
    findings = []
    for name, reference in expected.items():
        if name not in results or isinstance(reference, str):
            raise _usage(
                "AOTC-E013",
                f"--expect {name}",
                "NAME=@file.npy for one of " + ", ".join(results),
                name if name not in results else str(reference),
                "name the result as `aotc inspect` shows it",
            )
        actual = results[name]
        found = ""
        if actual.shape != reference.shape or actual.dtype != reference.dtype:
            found = f"{actual.dtype.name}{list(actual.shape)}"
        else:
            difference = compare(actual, reference, rtol, atol)
            if not difference.within:
                found = f"max abs error {difference.max_abs:.3g}, {difference.ulp_max} ulp"
        if found:
            findings.append(
                Finding(
                    code="AOTC-E954",
                    where=f"result {name}",
                    expected=f"{reference.dtype.name}{list(reference.shape)} as in the file, "
                    f"within rtol={rtol:g} atol={atol:g}",
                    found=found,
                    hint="compare with the file that belongs to this bundle, or raise --rtol",
                )
            )
    return findings
