"""One call of a loaded bundle from the command line: inputs from files, results to a file."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from aotc.base.errors import finding, refusal
from aotc.bundle.write.output_paths import NPZ, require_file_place
from aotc.report.array_files import Array, fill_array, read_arguments, with_dtype, write_npz
from aotc_runtime import LoadedBundle, load
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import TensorSpec
from aotc_runtime.schema.manifest_labels import arguments_of
from aotc_runtime.serving.flattened_arguments import flatten
from aotc_runtime.serving.readiness import compare


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
) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Load, call once, write and compare: a JSON-able result, and the arrays that differ.

    Raises what `load` and a call raise; UsageError: AOTC-E011 malformed `--input` or `--expect`,
    E012 a file that cannot be read, E013 inputs that are not the entry point's; E003 if `output`
    cannot be written, E004 if it is a file that is no .npz file.
    """
    if output is not None:
        require_file_place(output, NPZ)
    given = read_arguments(inputs, "--input")
    expected = read_arguments(expect, "--expect")
    with load(bundle_path, trust=trust, target=target) as bundle:
        callable_ = bundle[entry_point]
        specs = tuple(callable_.spec.inputs[leaf] for leaf in callable_.passed)
        adds = {spec.path for spec in callable_.spec.inputs} - {spec.path for spec in specs}
        values = _input_leaves(specs, given, entry_point, adds)
        passed = dict(zip(callable_.passed, values, strict=True))
        leaves = [passed.get(leaf) for leaf in range(len(callable_.spec.inputs))]
        positional, named = arguments_of(callable_.parameters, leaves)
        result = callable_(*positional, **named)
        flat = dict(flatten(callable_.spec.result, result, "result"))
        outputs = enumerate(callable_.spec.outputs)
        results = {spec.path or "result": flat[index] for index, spec in outputs}
        document = _document(bundle, entry_point, results)
    if output is not None:
        write_npz(output, results)
        document["output"] = str(output)
    expected = _of_profile(expected, results, document["path"].removeprefix(entry_point))
    return document, tuple(_compare(results, expected, rtol, atol))


def _input_leaves(
    specs: tuple[TensorSpec, ...], given: dict[str, Array | str], entry_point: str, adds: Set[str]
) -> list[Array]:
    """Return the inputs in the order of the specs; `adds` names the masks and lengths."""
    known = [spec.path for spec in specs]
    missing = [path for path in known if path not in given]
    surplus = [name for name in given if name not in known]
    if missing or surplus:
        raise refusal(
            "AOTC-E013",
            entry_point,
            "; ".join(
                [f"missing {', '.join(missing)}"] * bool(missing)
                + [f"unknown {', '.join(surplus)}"] * bool(surplus)
            ),
            cause="input-is-added-by-the-loader" if adds & set(surplus) else "",
            expected=", ".join(known) or "no inputs",
            hint=f"add `--input {missing[0]}=@FILE.npy`" if missing and not surplus else None,
        )
    leaves = []
    for spec in specs:
        value, dtype = given[spec.path], numpy_dtype(spec.dtype)
        leaf = fill_array(spec, value) if isinstance(value, str) else with_dtype(value, dtype)
        if leaf.dtype.newbyteorder("=") != dtype:
            where, found = f"--input {spec.path}", leaf.dtype.name
            hint = f"write it as {dtype.name}; of a file, save `x.astype('{dtype.name}')`"
            raise refusal("AOTC-E606", where, found, expected=dtype.name, hint=hint)
        leaves.append(leaf)
    return leaves


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


def _of_profile(
    expected: dict[str, Array | str], results: dict[str, Array], profile: str
) -> dict[str, Array | str]:
    """Return expected results by their own names, without those that have another profile's.

    `profile` is that which served the call, as `aotc record-expected` writes it: `[batch=8]`.
    """
    own = {
        name.removesuffix(profile): array
        for name, array in expected.items()
        if name in results or name.endswith(profile) or name.partition("[")[0] not in results
    }
    return own if len({*own} & {*results}) else expected


def _compare(
    results: dict[str, Array], expected: dict[str, Array | str], rtol: float, atol: float
) -> list[Finding]:
    findings = []
    for name, reference in expected.items():
        if name not in results or isinstance(reference, str):
            raise refusal(
                "AOTC-E013",
                f"--expect {name}",
                name if name not in results else str(reference),
                cause="result-not-found",
                expected="one of: " + ", ".join(results),
            )
        actual = results[name]
        reference = with_dtype(reference, actual.dtype)
        found = ""
        if actual.shape != reference.shape or actual.dtype != reference.dtype:
            found = f"{actual.dtype.name}{list(actual.shape)}"
        else:
            difference = compare(actual, reference, rtol, atol)
            if not difference.within:
                found = str(difference)
        if found:
            wanted = f"{reference.dtype.name}{list(reference.shape)}, within {rtol=:g} {atol=:g}"
            findings.append(finding("AOTC-E954", f"result {name}", found, expected=wanted))
    return findings
