"""Small models, read as a build reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from aotc.base.errors import CaptureError, refusal
from aotc.capture.model_files.frontend_protocol import Model, ModelFile
from aotc.check.plain_jax import compile_lowered
from aotc.frontends.onnx.onnx_frontend import OnnxFrontend

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

type Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None = (2, 3), kind: int = FLOAT) -> Any:
    """An input or an output."""
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **given: Any) -> Any:
    """A graph. given: initializers by name."""
    tensors = [
        array if isinstance(array, TensorProto) else numpy_helper.from_array(array, name)
        for name, array in given.items()
    ]
    return helper.make_graph(nodes, "main", inputs, outputs, tensors)


def model(of: Any, opset: int = 20, ir_version: int = 10, **options: Any) -> Any:
    """A model of a graph."""
    opsets = options.pop("opsets", {"": opset})
    made = helper.make_model(
        of,
        opset_imports=[helper.make_opsetid(domain, number) for domain, number in opsets.items()],
        **options,
    )
    made.ir_version = ir_version
    return made


def simple(
    nodes: Sequence[Any], shape: Shape = (2, 3), opset: int = 20, kind: int = FLOAT, **given: Any
) -> Any:
    """A model of one input x and one output y."""
    return model(graph(nodes, [value("x", shape, kind)], [value("y", None)], **given), opset)


def read(
    made: Any, *, x64: bool = False, beside: Mapping[str, bytes] | None = None, **options: Any
) -> Model:
    """Read a model, or its bytes."""
    files = {} if beside is None else beside

    def find(name: str) -> bytes:
        if name not in files:
            raise refusal("AOTC-E843", f"m.onnx: {name}", "no such file", expected="a file")
        return files[name]

    data = made if isinstance(made, bytes) else made.SerializeToString()
    signature = options.pop("signature", None)
    assert not options
    return OnnxFrontend().read(ModelFile("m.onnx", data, signature, find, x64))


def run(made: Any, *inputs: Any, x64: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Return what a model computes, jitted as the reference of a build is."""
    got = read(made, x64=x64)
    with jax.enable_x64(x64):
        lowered = jax.jit(got.function).lower(dict(got.weights), *inputs)
        found = compile_lowered(lowered)(dict(got.weights), *inputs)
        return {name: np.asarray(array) for name, array in found.items()}


def refused(made: Any, *inputs: Any, **options: Any) -> CaptureError:
    """Return how a model is refused, when it is read or when it is traced."""
    try:
        got = read(made, **options)
        jax.eval_shape(got.function, dict(got.weights), *inputs)
    except CaptureError as error:
        return error
    raise AssertionError("the model was accepted")


def codes(error: CaptureError) -> list[str]:
    """The codes of a refusal."""
    return [finding.code for finding in error.findings]
