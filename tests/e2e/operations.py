"""The StableHLO operations of the programs inside a bundle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.mlir import mlir_context
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified


def operation_paths(bundle: Path, entry_point: str) -> list[Counter[str]]:
    """For each profile, how often each operation occurs, named with the regions it lies in:
    "while/case/custom_call".
    """
    contents, _ = read_unverified(open_bundle(bundle))
    (manifest,) = contents.manifests.values()
    return [
        _count(mlir_context.read_artifact(bytes(contents.blobs[profile.module.digest])))
        for profile in manifest.entry_points[entry_point].profiles
    ]


def _count(module: ir.Module) -> Counter[str]:
    functions = {
        ir.StringAttr(function.attributes["sym_name"]).value: function
        for function in module.body.operations
    }
    found: Counter[str] = Counter()

    def visit(operation: Any, path: tuple[str, ...]) -> None:
        for inner in (o for region in operation.regions for block in region for o in block):
            name = inner.operation.name.removeprefix("stablehlo.")
            if name == "func.call":
                callee = ir.FlatSymbolRefAttr(inner.operation.attributes["callee"]).value
                visit(functions[callee].operation, path)
                continue
            found["/".join((*path, name))] += 1
            visit(inner.operation, (*path, name))

    visit(functions["main"].operation, ())
    return found
