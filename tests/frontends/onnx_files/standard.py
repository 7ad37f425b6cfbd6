"""The node tests of the standard, as the onnx wheel holds them, through this frontend and jit."""

import sys
import time
import warnings
from typing import Any

import jax
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from aotc.capture.model_files.frontend_protocol import ModelFile
from aotc.frontends.onnx.onnx_frontend import OnnxFrontend
from aotc.frontends.onnx.onnx_operator_table import OPERATORS
from aotc_runtime.base.errors import AotcError


def cases() -> list[Any]:
    """The node tests; those of function bodies repeat others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = load_model_tests(kind="node")
    return sorted((c for c in every if "_expanded" not in c.name), key=lambda case: case.name)


class Unpassable(Exception):
    """A case whose inputs or results are no arrays."""


def array(value: Any) -> Any:
    """An input or a result of a case as an array."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic | int | float | bool):
        raise Unpassable(f"{type(value).__name__} at the edge of the model")
    return np.asarray(value)


def baked(model: Any, arrays: dict[str, Any]) -> Any:
    """The model with the inputs that decide shapes as constants of it: that is what they are in a
    model that can be built.
    """
    deciding = set()
    for node in model.graph.node:
        entry = OPERATORS.get((node.domain, node.op_type))
        positions = set(entry.deciding) if entry else set()
        if node.op_type == "Loop":  # how many steps it stacks
            positions |= {0, 1}
        for index in sorted(positions):
            if index < len(node.input) and node.input[index] in arrays:
                deciding.add(node.input[index])
    for info in list(model.graph.input):
        if info.name in deciding:
            model.graph.initializer.append(
                numpy_helper.from_array(np.asarray(arrays.pop(info.name)), info.name)
            )
            model.graph.input.remove(info)
    return model


def read(model: Any) -> Any:
    """Return what the frontend makes of a model."""

    def beside(name: str) -> bytes:
        raise FileNotFoundError(name)

    return OnnxFrontend().read(
        ModelFile("model.onnx", model.SerializeToString(), None, beside, True)
    )


def different(found: Any, expected: Any, rtol: float = 1e-3, atol: float = 1e-7) -> str | None:
    """Return how a result differs from the recorded one, as onnx's own runner compares them."""
    found = np.asarray(found)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)}, not {expected.dtype}{list(expected.shape)}"
    if found.dtype == bool:
        return None if (found == expected).all() else "wrong values"
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    if expected.dtype.kind in "iu":
        wide = np.int64
    try:
        np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol, atol)
    except AssertionError as error:
        return "wrong values: " + " ".join(str(error).split())[:160]
    return None


def failure(case: Any) -> str | None:
    """Return why a case fails, None if it passes."""
    try:
        for given, results in case.data_sets:
            model = onnx.ModelProto.FromString(case.model.SerializeToString())
            names = [info.name for info in model.graph.input]
            inputs = {n: array(v) for n, v in zip(names, given, strict=False)}
            expected = [array(value) for value in results]
            made = read(baked(model, inputs))
            found = jax.jit(made.function)(
                dict(made.weights), *[inputs[entry.name] for entry in made.inputs]
            )
            for info, wanted in zip(model.graph.output, expected, strict=True):
                name = info.name
                wrong = different(found[name], wanted, case.rtol, case.atol)
                if wrong:
                    return f"{name}: {wrong}"
    except Unpassable as error:
        return str(error)
    except AotcError as error:
        first = error.findings[0]
        return f"{first.code} {first.found}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this case's
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return None


def main() -> None:
    """Print each case that fails, and how many pass. Arguments: parts of names."""
    jax.config.update("jax_enable_x64", True)
    parts = sys.argv[1:]
    passed = count = 0
    for case in cases():
        if parts and not any(part in case.name for part in parts):
            continue
        count += 1
        began = time.monotonic()
        reason = failure(case)
        passed += reason is None
        if reason is not None:
            print(f"{case.name}\t{reason}", flush=True)
        took = time.monotonic() - began
        if took > 5:
            print(f"# {case.name} took {took:.0f} s", flush=True)
        if count % 50 == 0:
            jax.clear_caches()
    print(f"# {passed} of {count}")


if __name__ == "__main__":
    main()
