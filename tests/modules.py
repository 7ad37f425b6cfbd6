"""Modules in text form, as jax's own reader has them."""

from jaxlib.mlir import ir

from aotc.compile.mlir.mlir_context import new_context


def parsed(text: str) -> ir.Module:
    """A module, in a context of its own that knows all dialects."""
    with new_context():
        return ir.Module.parse(text)
