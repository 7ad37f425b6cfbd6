"""Frontend for files that `jax.export` has serialized."""

from functools import partial
from typing import Any

import flatbuffers  # noqa: F401 - what jax.export reads with; jax does not install it
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.base.errors import refusal
from aotc.capture import jax_private
from aotc.capture.model_files.frontend_protocol import Model, ModelFile, ModelInput
from aotc.frontends.stablehlo.module_checks import refused_as_damaged
from aotc.frontends.stablehlo.module_probe import rewritten
from aotc.frontends.stablehlo.stablehlo_frontend import lift_constants, model_of, spell_out

EXPECTED = "the result of `jax.export.export(...)(...).serialize()`"


class JaxExportFrontend:
    """Reads serialized `jax.export.Exported`s, of fixed and of symbolic sizes."""

    def read(self, file: ModelFile) -> Model:
        """Return the exported function; leaves of its arguments are inputs, named by their paths.

        Raises CaptureError: AOTC-E843 for another file, E844 for effects, several devices and
        dtypes that are no arrays', E845 for a signature.
        """
        (verified,) = rewritten(file, [file.data], EXPECTED, "jax.export")
        with refused_as_damaged(file.text, EXPECTED):
            exported, inputs = describe(file)
            return _model(exported, inputs, verified)


def describe(file: ModelFile) -> tuple[Any, list[ModelInput]]:
    """Return the exported function and its inputs, without reading its module.

    Raises:
        CaptureError: As `JaxExportFrontend.read`; jax raises other errors for damaged files.
    """
    exported = jax.export.deserialize(bytearray(file.data))
    if file.signature is not None:
        cause = "signature-is-not-supported"
        raise refusal("AOTC-E845", file.text, file.signature, cause=cause)
    if exported.ordered_effects or exported.unordered_effects or exported.nr_devices != 1:
        effects = [*exported.ordered_effects, *exported.unordered_effects]
        found = ", ".join(map(str, effects)) or f"{exported.nr_devices} devices"
        raise refusal("AOTC-E844", file.text, found)
    paths = jax.tree_util.tree_flatten_with_path(
        jax.tree.unflatten(exported.in_tree, range(len(exported.in_avals)))
    )[0]
    names = [_name(steps) for steps, _ in paths]
    unknown = [
        f"{name}: {aval.dtype}"
        for name, aval in zip(names, exported.in_avals, strict=True)
        if jnp.issubdtype(aval.dtype, jax.dtypes.extended)
    ]
    if unknown:
        found = ", ".join(unknown)
        raise refusal("AOTC-E844", file.text, found, cause="unsupported-type-in-the-model")
    inputs = [
        ModelInput(name, np.dtype(aval.dtype), tuple(map(_axis, aval.shape)))
        for name, aval in zip(names, exported.in_avals, strict=True)
    ]
    return exported, inputs


def _model(exported: Any, inputs: list[ModelInput], verified: bytes) -> Model:
    """verified: the module as `rewritten` returns it."""
    with mlir.make_ir_context():
        module = ir.Module.parse(verified, context=ir.Context.current)
        spell_out(module)
        lifted = lift_constants(module)
        serialized = jax_private.serialize_portable(module, stablehlo.get_current_version())
    more = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in lifted.values()]
    return model_of(
        jax_private.with_module(exported, serialized, more),
        inputs,
        lifted,
        {"jax.export": f"calling convention {exported.calling_convention_version}"},
        partial(jax.tree.unflatten, exported.out_tree),
    )


def _name(steps: Any) -> str:
    """Return a leaf's path below (args, kwargs): "x" for a keyword, "arg0/w" for a position."""
    inside = jax.tree_util.keystr(steps[1:], simple=True, separator="/")
    return inside if steps[0].idx == 1 else f"arg{inside}"


def _axis(size: Any) -> int | str | None:
    """Return a size, or the name of one that varies; None for an expression of such names."""
    if isinstance(size, int):
        return size
    return str(size) if str(size).isidentifier() else None
