"""The calls of plain JAX, made again as a caller of the bundle makes them.

Their results are compared as that caller reads them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from aotc.base.errors import finding
from aotc.base.stages import fixture_file
from aotc.check.parity_process import as_parity_finding
from aotc.check.plain_structures import PlainCall, as_argument, call_file, differences, is_unchanged
from aotc.check.trial_records import read_call
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest, EntryPoint
from aotc_runtime.schema.manifest_labels import executable_key, passed_parameters
from aotc_runtime.schema.pytrees import builder
from aotc_runtime.serving.call_signature import bind, signature_of
from aotc_runtime.serving.flattened_arguments import flatten
from aotc_runtime.serving.loaded_bundle import LoadedBundle


def call_differences(
    loaded: LoadedBundle, manifest: BundleManifest, folder: Path
) -> Iterator[Finding]:
    """Yield differences of calls of the executables, by position where allowed, and by name."""
    for where, spec, call in _calls(manifest, folder):
        for arguments, positional, named in _ways(call):
            try:
                result = loaded[call.key.entry_point](*positional, **named)
            except AotcError as error:
                yield _refused_call(where, error)
                continue
            rtol, atol = float(spec.tolerance.rtol), float(spec.tolerance.atol)
            for path, expected, found in differences(call.result, result, rtol, atol):
                yield _differs(f"{where} {path}", expected, found)
            if not all(is_unchanged(each.value, arguments[each.name]) for each in call.arguments):
                yield _differs(where, "arguments that a call leaves as they are", "changed ones")


def structure_differences(manifest: BundleManifest, folder: Path) -> Iterator[Finding]:
    """Yield differences in how arguments are flattened and results are built, without running."""
    for where, spec, call in _calls(manifest, folder):
        recorded = read_call(fixture_file(folder, call.key), spec.inputs, spec.outputs)
        for _, positional, named in _ways(call):
            try:
                found = _leaves(spec, call.key.entry_point, positional, named)
            except AotcError as error:
                yield _refused_call(where, error)
                continue
            for index, leaf in found.items():
                wanted = recorded.inputs[index]
                if np.asarray(leaf, wanted.dtype).tobytes() != wanted.tobytes():
                    path = spec.inputs[index].path
                    yield _differs(f"{where} {path}", "the argument of that path", "another one")
        result = builder(spec.result)(recorded.expected)
        for path, expected, got in differences(call.result, result, 0.0, 0.0):
            yield _differs(f"{where} {path}", expected, got)


def _ways(call: PlainCall) -> Iterator[tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments passed by position where allowed, then by name: all, and both parts."""
    only_named = [each.name for each in call.arguments if not each.by_position]
    for named in (only_named, [each.name for each in call.arguments if each.by_name]):
        arguments = {each.name: as_argument(each.value) for each in call.arguments}
        positional = tuple(arguments[name] for name in arguments if name not in named)
        yield arguments, positional, {name: arguments[name] for name in named}


def _leaves(
    spec: EntryPoint, name: str, positional: tuple[Any, ...], named: dict[str, Any]
) -> dict[int, Any]:
    """Return the leaves of a call as the loader takes them, by index. Raises ShapeError."""
    parameters = passed_parameters(spec)
    values = bind(name, signature_of(parameters), positional, named, spec)
    return {
        index: leaf
        for parameter, value in zip(parameters, values, strict=True)
        for index, leaf in flatten(parameter.tree, value, f"{name} {parameter.name}")
    }


def _calls(manifest: BundleManifest, folder: Path) -> Iterator[tuple[str, EntryPoint, PlainCall]]:
    """Yield the calls at the profiles that a target has; each with its label."""
    for name, spec in manifest.entry_points.items():
        for profile in spec.profiles:
            key = executable_key(name, profile.sizes)
            file = call_file(folder, key)
            if file.path.exists():
                yield key.label, spec, file.read()


def _refused_call(where: str, error: AotcError) -> Finding:
    first = error.findings[0]
    return as_parity_finding(replace(first, where=first.where or where), "AOTC-E959")


def _differs(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E959", where, found, expected=expected)
