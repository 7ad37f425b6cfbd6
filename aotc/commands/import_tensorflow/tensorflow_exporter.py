"""`python exporter.py JOB`: exports a signature of a SavedModel, once for each profile.

This runs where TensorFlow is and aotc is not: it imports nothing but TensorFlow and numpy. JOB is a
JSON file; beside it come `model.tfhlo`, `expected.npz`, or `refused.json` with what cannot be
exported.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from tensorflow.compiler.mlir.stablehlo import stablehlo

FORMAT = 1

BATCH = "batch"

RANDOM = re.compile(r"Random|Multinomial|Bernoulli|Dropout$")
CHANGING = re.compile(
    r"^(Assign\w*|Scatter\w*Update|Resource(Scatter|Apply|StridedSliceAssign)\w*)$"
)
OUTSIDE = re.compile(
    r"PyFunc|Print|Assert|HashTable|Lookup\w*Table|File|Iterator|Dataset|Queue|Reader|Summary|Decode"
    r"|Encode|^String|Regex"
)
VALUES_DECIDE = re.compile(r"^(Unique\w*|Where|NonMaxSuppression\w*|BooleanMask|ListDiff|SetSize)$")
"""Operations whose results have sizes that depend on values."""

BEFORE_REASONS = ("Graph execution error", "Detected at node", "<stack traces", "File ")
"""Beginnings of lines of TensorFlow's messages that come before the reason."""


class Refused(Exception):
    """Refusal of a model that cannot be exported, with a line for each reason."""


def main(folder: Path) -> None:
    """Do the job of a folder."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    try:
        _export(job, folder)
    except Refused as error:
        told = json.dumps(list(error.args))
        (folder / "refused.json").write_text(told, encoding="utf-8")


def _export(job: Mapping[str, Any], folder: Path) -> None:
    try:
        loaded = tf.saved_model.load(job["saved_model"])
    except Exception as error:
        raise Refused(f"no SavedModel: {_failed_operation(error)}") from error
    names = sorted(loaded.signatures)
    wanted = job["signature"] or (names[0] if len(names) == 1 else "serving_default")
    if wanted not in names:
        raise Refused(f"no signature {wanted}, but {', '.join(names) or 'none at all'}")
    signature = loaded.signatures[wanted]
    if found := sorted({*_unsupported_operations(signature.graph)}):
        raise Refused(*found)
    inputs = sorted(signature.structured_input_signature[1].items())
    outputs = sorted(signature.structured_outputs)
    modules = [_module(signature, inputs, outputs, sizes) for sizes in job["profiles"]]
    given = _arrays(job["inputs"])
    if given is not None:
        expected: Any = _expected_results(signature, inputs, given, job["profiles"])
        np.savez(folder / "expected.npz", **expected)
    told = {"saved_model": job["digest"], "signature": wanted}
    _write(folder / "model.tfhlo", told, inputs, outputs, modules)


def _unsupported_operations(graph: Any) -> Iterator[str]:
    """Operations that have no place in a bundle, of a graph and of the functions that it calls."""
    operations = [*graph.get_operations()]
    for name in sorted(graph._functions):
        function = graph._functions[name]
        inner = getattr(function, "graph", None)
        if inner is not None:
            operations += inner.get_operations()
        else:
            definition = getattr(function, "cached_definition", None) or function.definition
            for node in definition.node_def:
                if why := _why(node.op):
                    yield f"{node.op} ({node.name}): {why}"
    for each in operations:
        why = _why(each.type)
        # Names of files and of operations are constants, which nothing but assertions use.
        if not why and each.type != "Const" and tf.string in [o.dtype for o in each.outputs]:
            why = "its result is texts"
        if why:
            yield f"{each.type} ({each.name}): {why}"


def _why(kind: str) -> str:
    if CHANGING.search(kind):
        return "it changes a variable"
    if RANDOM.search(kind):
        return "its results are random"
    if VALUES_DECIDE.search(kind):
        return "the size of its result depends on values"
    if OUTSIDE.search(kind):
        return "it reaches beyond arrays of numbers"
    return ""


def _axes(name: str, spec: Any) -> list[int | str]:
    """Return sizes, and names of those that vary."""
    if spec.shape.rank is None:
        raise Refused(f"the input {name} of any number of axes")
    return [
        size if size is not None else BATCH if number == 0 else f"{name}_{number}"
        for number, size in enumerate(spec.shape)
    ]


def _set_sizes(name: str, spec: Any, sizes: Mapping[str, int]) -> Any:
    axes = _axes(name, spec)
    missing = [axis for axis in axes if isinstance(axis, str) and axis not in sizes]
    if missing:
        raise Refused(f"no size for {', '.join(missing)} of the input {name}")
    return tf.TensorSpec(
        [sizes[axis] if isinstance(axis, str) else axis for axis in axes], spec.dtype
    )


def _module(
    signature: Any, inputs: Sequence[Any], outputs: Sequence[str], sizes: Mapping[str, int]
) -> tuple[list[list[int]], bytes, list[tuple[str, np.ndarray[Any, Any]]]]:
    """Return shapes of the inputs, a portable artifact, and what it takes behind the inputs."""
    specs = [_set_sizes(name, spec, sizes) for name, spec in inputs]
    names = [name for name, _ in inputs]

    def call(*arrays: Any) -> list[Any]:
        found = signature(**dict(zip(names, arrays, strict=True)))
        return [found[name] for name in outputs]

    function = tf.function(call, jit_compile=True, autograph=False)
    try:
        concrete = function.get_concrete_function(*specs)
        text = _portable(function.experimental_get_compiler_ir(*specs)(stage="stablehlo"))
        artifact = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version())
    except Exception as error:
        raise Refused(
            f"TensorFlow does not export it for {dict(sizes)}: {_cause(error)}"
        ) from error
    main = text.partition("@main(")[2].partition("{\n")[0]
    results = main.rpartition("->")[2]
    if "<=" in main or "?" in main:
        raise Refused(f"sizes that depend on values, in {main.strip()[:200]}")
    if results.count("tensor<") != len(outputs):
        raise Refused(f"{results.count('tensor<')} results where {len(outputs)} are named")
    for found in sorted({*re.findall(r"stablehlo\.(?:rng\w*|infeed|outfeed|send|recv)\b", text)}):
        raise Refused(f"{found}: not the same each time, or beyond the module")
    for found in sorted({*re.findall(r"stablehlo\.custom_call @(\w+)", text)}):
        raise Refused(f"the custom call {found}")
    return [spec.shape.as_list() for spec in specs], artifact, list(_captured_arguments(concrete))


def _portable(text: str) -> str:
    """Return a module without XLA's copies, which are not StableHLO and change no value."""
    copies = re.compile(r"mhlo\.copy (%[\w#]+) : (tensor<.*?>+)(?= loc\(|\s|$)", re.MULTILINE)
    return copies.sub(r"stablehlo.reshape \1 : (\2) -> \2", text)


def _captured_arguments(concrete: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield a module's arguments behind its inputs: variables by name, and constants."""
    variables = {id(each.handle): each for each in concrete.variables}
    for number, each in enumerate(concrete.captured_inputs):
        if id(each) in variables:
            variable = variables[id(each)]
            yield variable.name.partition(":")[0], variable.numpy()
        elif each.dtype in (tf.resource, tf.variant, tf.string):
            raise Refused(f"a captured {each.dtype.name}, which is no variable")
        else:
            yield f"constant_{number}", each.numpy()


def _expected_results(
    signature: Any,
    inputs: Sequence[Any],
    given: Mapping[str, np.ndarray[Any, Any]],
    profiles: Sequence[Mapping[str, int]],
) -> dict[str, np.ndarray[Any, Any]]:
    """Return TensorFlow's results, without XLA, for the inputs of each profile."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for sizes in profiles:
        arrays = {}
        for name, spec in inputs:
            if name not in given:
                raise Refused(f"no array {name} among the inputs")
            array = given[name]
            for number, axis in enumerate(_axes(name, spec)):
                if isinstance(axis, str):
                    array = np.take(array, np.arange(sizes[axis]) % array.shape[number], number)
            arrays[name] = tf.constant(array, spec.dtype)
        used = {a for name, spec in inputs for a in _axes(name, spec) if isinstance(a, str)}
        at = ",".join(f"{axis}={sizes[axis]}" for axis in sorted(used))
        for name, result in signature(**arrays).items():
            found[f"{name}[{at}]" if at else name] = result.numpy()
    return found


def _arrays(path: str | None) -> dict[str, np.ndarray[Any, Any]] | None:
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as held:
            return dict(held)
    except (OSError, ValueError) as error:
        raise Refused(f"no .npz file of arrays: {error}") from error


def _write(
    path: Path,
    told: Mapping[str, str],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    modules: Sequence[tuple[list[list[int]], bytes, list[tuple[str, np.ndarray[Any, Any]]]]],
) -> None:
    """Write modules and the arrays they use as one file; the same model gives the same bytes."""
    weights: dict[str, np.ndarray[Any, Any]] = {}
    described = []
    for number, (shapes, _, captured) in enumerate(modules):
        bound = []
        for name, array in captured:
            # Names of variables are not unique, and constants differ between modules.
            each, again = name, 1
            while (each in weights and not _same(weights[each], array)) or each in bound:
                again += 1
                each = f"{name}:{again}"
            weights[each] = array
            bound.append(each)
        file = f"modules/{number}.mlirbc"
        described.append({"shapes": shapes, "weights": bound, "file": file})
    kept = sorted(weights)
    document = {
        "format": FORMAT,
        "tensorflow": tf.__version__,
        **told,
        "inputs": [
            {"name": name, "dtype": spec.dtype.name, "shape": _axes(name, spec)}
            for name, spec in inputs
        ],
        "outputs": list(outputs),
        "modules": described,
        "weights": [
            {
                "name": name,
                "dtype": weights[name].dtype.name,
                "shape": list(weights[name].shape),
                "file": f"weights/{number}",
            }
            for number, name in enumerate(kept)
        ],
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in (
            ("model.json", json.dumps(document, indent=1).encode()),
            *((f"modules/{n}.mlirbc", artifact) for n, (_, artifact, _) in enumerate(modules)),
            *((f"weights/{n}", weights[name].tobytes()) for n, name in enumerate(kept)),
        ):
            archive.writestr(zipfile.ZipInfo(member), data)


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def _failed_operation(error: Exception) -> str:
    """Return the reason of an error while loading, with the operation that failed, if one did."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(BEFORE_REASONS)]
    found = (said or lines or [type(error).__name__])[0][:300]
    if node := re.search(r"\{\{node ([^}]{1,100})", str(error)):
        found = f"operation {node[1]}: {found}"
    if isinstance(error, tf.errors.PermissionDeniedError):
        found += " (models cannot access other files or the network)"
    return found


def _cause(error: Exception) -> str:
    """Return the line of TensorFlow's message that says which operation it is, if one does."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [
        line for line in lines if re.search(r"unsupported|not supported|No registered|error:", line)
    ]
    return (told or lines or [type(error).__name__])[0][:300]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
