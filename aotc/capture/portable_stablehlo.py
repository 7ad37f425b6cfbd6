"""StableHLO as a versioned portable artifact, the same bytes wherever the program lies.

Source locations, Python function names and jax's argument names would leak into the executable and
change its bytes, so they are removed here.
"""

import re
from typing import Any

import jaxlib
import numpy as np
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from aotc.base.errors import refusal
from aotc.base.stages import Module
from aotc.capture import jax_private
from aotc.compile.mlir.mlir_context import operations_named
from aotc_runtime.base.digest import sha256

MODULE_NAME = "aotc"

COMPATIBILITY = stablehlo.StablehloCompatibilityRequirement.WEEK_4
"""Artifacts are written in the version of four weeks before the toolchain's, as jax.export does,
so that the other jaxlib versions of our range can read them."""

SHARDING = "sdy.sharding"

PALLAS_FOR_TPU = "tpu_custom_call"
_KERNEL_LOCATIONS = re.compile(r', "debug_locations": "[^"]*"')

KEPT_ATTRIBUTES = frozenset({"tf.aliasing_output", "jax.buffer_donor"})
"""Donation. Other jax.* attributes of arguments and results only have names."""


DEFAULT_PRECISION = "#stablehlo<precision DEFAULT>"
HIGHEST = "#stablehlo<precision HIGHEST>"
FLOAT32 = ("f32", "complex<f32>")
PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.convolution"})


def portable(module: ir.Module, platform: str = "cpu", *, located: bool = False) -> Module:
    """Normalize a module lowered for a platform in place, and serialize it; `located` with lines.

    Raises CompileError (AOTC-E910) for what the installed jaxlib computes wrongly.
    """
    if jaxlib.__version__.startswith("0.11."):
        _check_padding(module)
    with module.context:
        _pin_parameters(module)
        if platform != "cpu":
            _state_precision(module)
        _rename_functions(module)
        _strip_argument_names(module)
        _strip_kernel_locations(module)
        module.operation.attributes["sym_name"] = ir.StringAttr.get(MODULE_NAME)
        if not located:
            passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        version = stablehlo.get_version_from_compatibility_requirement(COMPATIBILITY)
        artifact = jax_private.serialize_portable(module, version)
    return Module(
        artifact=artifact,
        digest=sha256(artifact),
        stablehlo_version=version,
        custom_call_targets=tuple(sorted({_name(each) for each in _custom_calls(module)})),
    )


def _check_padding(module: ir.Module) -> None:
    """Raise CompileError (AOTC-E910) for a convolution that pads by -2 or less before an axis.

    Plain JAX of jaxlib 0.11.2 is as wrong as any executable on processors; 0.12.0 is right.
    """
    for operation in operations_named(module, ("stablehlo.convolution",)):
        given = operation.attributes
        if "padding" in given and np.array(given["padding"])[:, :1].min(initial=0) < -1:
            where, cause = f"{operation.results[0].type}", "convolution-is-wrong-in-this-jaxlib"
            raise refusal("AOTC-E910", where, f"jaxlib {jaxlib.__version__}", cause=cause)


def _pin_parameters(module: ir.Module) -> None:
    """Give every parameter of a program over a mesh a sharding.

    jax states none for closed-over arrays; they are replicated instead of left to XLA.
    """
    meshes = [o for o in module.body.operations if o.operation.name == "sdy.mesh"]
    if not meshes:
        return
    mesh = ir.StringAttr(meshes[0].attributes["sym_name"]).value
    main = ir.SymbolTable(module.operation)["main"]
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    if not types:
        return
    attributes = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
    for index, (type_, known) in enumerate(zip(types, attributes, strict=True)):
        if SHARDING not in known:
            axes = ", ".join("{}" for _ in ir.RankedTensorType(type_).shape)
            whole = ir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{axes}]>")
            kept = {named.name: named.attr for named in known}
            attributes[index] = ir.DictAttr.get({**kept, SHARDING: whole})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _state_precision(module: ir.Module) -> None:
    """Ask for float32 where a product of float32 states no precision.

    Processors and the results that a bundle is compared with use float32. XLA would take TF32 on
    NVIDIA GPUs, and bfloat16 on TPUs. Stated precisions (HIGH, HIGHEST) and algorithms stay.
    """
    for operation in operations_named(module, PRODUCTS):
        element = str(ir.ShapedType(operation.operands[0].type).element_type)
        if element not in FLOAT32 or "algorithm" in operation.attributes:
            continue
        stated = [DEFAULT_PRECISION] * 2
        if "precision_config" in operation.attributes:
            stated = [str(each) for each in operation.attributes["precision_config"]]
        asked = ", ".join(HIGHEST if each == DEFAULT_PRECISION else each for each in stated)
        operation.attributes["precision_config"] = ir.Attribute.parse(f"[{asked}]")


def _rename_functions(module: ir.Module) -> None:
    """Name functions by their places.

    All get names that none has before, since a new name may be the old one of another function.
    """
    operations = [*module.body.operations]
    names = [ir.StringAttr(each.attributes["sym_name"]).value for each in operations]
    unused = "f"
    while any(name.startswith(unused) for name in names):
        unused += "_"
    for prefix in (unused, "f"):
        for index, operation in enumerate(operations):
            name = ir.StringAttr(operation.attributes["sym_name"]).value
            if name != "main":
                new = f"{prefix}{index}"
                ir.SymbolTable.replace_all_symbol_uses(name, new, module.operation)
                ir.SymbolTable.set_symbol_name(operation, new)


def _strip_argument_names(module: ir.Module) -> None:
    for operation in module.body.operations:
        for key in ("arg_attrs", "res_attrs"):
            if key not in operation.attributes:
                continue
            kept = [
                {
                    named.name: named.attr
                    for named in ir.DictAttr(attributes)
                    if not named.name.startswith("jax.") or named.name in KEPT_ATTRIBUTES
                }
                for attributes in ir.ArrayAttr(operation.attributes[key])
            ]
            operation.attributes[key] = ir.ArrayAttr.get([*map(ir.DictAttr.get, kept)])


def _strip_kernel_locations(module: ir.Module) -> None:
    """Pallas keeps the source lines of a TPU's kernel beside its code, in the call's settings."""
    for operation in _custom_calls(module):
        if _name(operation) == PALLAS_FOR_TPU and "backend_config" in operation.attributes:
            settings = ir.StringAttr(operation.attributes["backend_config"]).value
            kept = _KERNEL_LOCATIONS.sub("", settings)
            operation.attributes["backend_config"] = ir.StringAttr.get(kept)


def _name(operation: Any) -> str:
    return str(ir.StringAttr(operation.attributes["call_target_name"]).value)


def _custom_calls(module: ir.Module) -> list[Any]:
    return operations_named(module, ("stablehlo.custom_call",))
