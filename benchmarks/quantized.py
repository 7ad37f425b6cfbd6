"""`python -m benchmarks.quantized`: quantized models as bundles of each engine.

A multilayer perceptron in four forms, written for ONNX: float32, weights of 8 bits, static
quantization (QDQ) and dynamic quantization. Of each, bundles for each engine and ONNX Runtime's
own session on the same file are called in turns in one process; so are bundles of the float32 model
with precisions of their own, beside the session on the model that is quantized alike. Needs aotc's
extras `onnx` and `openvino`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import OUT, verdict

ENGINES = ("onnxruntime", "openvino", "xla")

OF_SESSION, OF_FLOAT = 1.05, 1.0
"""Goals: at most the time of the session on the same file, and of the same engine's float32."""

MANIFEST = """
schema = 1
name = "model"
version = "1.0.0"
targets = ["{target}"]
engines = {engines}
[entry_points.run]
source = "../{source}.onnx"
{precision}
tolerance = {{ rtol = 1e-2, atol = {atol} }}
inputs.x = {{ shape = {shape}, dtype = "float32" }}
fixtures.file = "../{source}.npz"
"""

PRECISIONS = {
    "own weights": ("weights", 'weights = "int8"', "openvino"),
    "own dynamic": ("dynamic", 'weights = "int8"\nactivations = "dynamic"', "onnxruntime"),
    "own int4": ("float32", 'weights = "int4"', "openvino"),
    "own bfloat16": ("float32", 'compute = "bfloat16"', "xla"),
}
"""Precisions of the float32 model: the model whose session each is compared with, its keys, and an
engine with kernels, without which a build refuses other engines."""

MODELS = ("float32", "weights", "static", "dynamic")
FORMS = (*MODELS, *PRECISIONS)


def main() -> None:
    """Build the bundles, call them in turns, and print ratios of times."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quantized", description=main.__doc__
    )
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"some of {','.join(ENGINES)}")
    parser.add_argument("--forms", default=",".join(FORMS), help=f"some of {', '.join(FORMS)}")
    parser.add_argument("--target", default="native", help="of the bundles (default native)")
    parser.add_argument("--sizes", default="256,512,512,64", help="of the layers")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default 1)")
    options = parser.parse_args()
    sizes = [*map(int, options.sizes.split(","))]
    folder = OUT / f"quantized-{'-'.join(map(str, sizes))}-{options.batch}"
    folder.mkdir(parents=True, exist_ok=True)
    given = np.random.default_rng(0).standard_normal((options.batch, sizes[0]), np.float32)
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    wanted = options.forms.split(",")
    every = {**{model: (model, "", "") for model in MODELS}, **PRECISIONS}
    models = {every[form][0] for form in wanted}
    write_models(folder, sizes, given, models)
    for model in sorted(models, key=MODELS.index):
        session = _session(folder / f"{model}.onnx", given, options.threads)
        forms = {form: every[form][1:] for form in wanted if every[form][0] == model}
        for form, (keys, able) in forms.items():
            for engine in options.engines.split(","):
                engines = [*dict.fromkeys(filter(None, (engine, able)))]
                made = _bundle(folder / form, engines, options.target, given, keys)
                if isinstance(made, str):
                    print(json.dumps({"model": form, "engine": engine, "refused": made}))
                    continue
                calls[form, engine] = _call(made, given, options.threads)
            calls[form, "session"] = session
    for line in compared(_times(calls, options.rounds)):
        print(json.dumps(line))


def write_models(
    folder: Path, sizes: Sequence[int], given: Any, models: Collection[str] = MODELS
) -> None:
    """Write the models, float32 always, and the inputs of their fixtures."""
    onnx: Any = import_module("onnx")
    tools: Any = import_module("onnxruntime.quantization")

    class Inputs(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [{"x": given}]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    onnx.save(_network(onnx, sizes, len(given), quantized=False), folder / "float32.onnx")
    start, int8 = folder / "float32.onnx", tools.QuantType.QInt8
    if "weights" in models:
        onnx.save(_network(onnx, sizes, len(given), quantized=True), folder / "weights.onnx")
    if "dynamic" in models:
        tools.quantize_dynamic(start, folder / "dynamic.onnx", weight_type=int8)
    if "static" in models:
        tools.quantize_static(start, folder / "static.onnx", Inputs(), weight_type=int8)
    for name in MODELS:
        np.savez(folder / f"{name}.npz", x=given)


def _network(onnx: Any, sizes: Sequence[int], rows: int, quantized: bool) -> Any:
    """Layers with weights in float32, or in 8 bits with a scale for each column."""
    make, random = onnx.helper.make_node, np.random.default_rng(1)
    nodes, arrays, value = [], [], "x"
    for layer, (depth, columns) in enumerate(pairwise(sizes)):
        weight = (random.standard_normal((depth, columns)) / depth**0.5).astype(np.float32)
        held: dict[str, Any] = {f"b{layer}": (random.standard_normal(columns) / 9).astype("f4")}
        if quantized:
            scale = np.abs(weight).max(0) / 127
            held |= {f"q{layer}": np.rint(weight / scale).astype(np.int8), f"s{layer}": scale}
            names = [f"q{layer}", f"s{layer}"]
            nodes.append(make("DequantizeLinear", names, [f"w{layer}"], axis=1))
        else:
            held[f"w{layer}"] = weight
        nodes.append(make("MatMul", [value, f"w{layer}"], [f"m{layer}"], name=f"product{layer}"))
        value = f"a{layer}"
        nodes.append(make("Add", [f"m{layer}", f"b{layer}"], [value], name=f"sum{layer}"))
        if layer < len(sizes) - 2:
            value = f"r{layer}"
            nodes.append(make("Relu", [f"a{layer}"], [value], name=f"relu{layer}"))
        arrays += [onnx.numpy_helper.from_array(array, name) for name, array in held.items()]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, size])
        for name, size in (("x", sizes[0]), (value, sizes[-1]))
    ]
    graph = onnx.helper.make_graph(nodes, "mlp", ends[:1], ends[1:], arrays)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )


def _bundle(
    model: Path, engines: Sequence[str], target: str, given: Any, precision: str
) -> Path | str:
    """Build a bundle, and return its folder, or the first finding of an engine that refuses.

    With the keys of a `precision`, it is that of the float32 model. It is of the first engine.
    """
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text
    from aotc.pipeline.build import build
    from aotc.pipeline.build_options import BuildOptions
    from aotc_runtime.base.errors import AotcError
    from aotc_runtime.schema.bundle_manifest import engine_of

    place = model.with_name(f"{model.name.replace(' ', '-')}-{engines[0]}")
    place.mkdir(exist_ok=True)
    text = MANIFEST.format(
        target=target,
        engines=[*engines],
        source="float32" if precision else model.name,
        precision='precision = "own"' if precision else "",
        # Two engines may round a number to different steps.
        atol=1e-4 if model.name in ("float32", "own int4", "own bfloat16") else 0.1,
        shape=list(given.shape),
    )
    text += f"[precision.own]\n{precision}\n" if precision else ""
    (place / "manifest.toml").write_text(text, encoding="utf-8")
    signer = LocalSigner.ephemeral()
    try:
        built = build(place / "manifest.toml", place / "model.aotb", BuildOptions(signer=signer))
    except AotcError as error:
        return f"{error.code}: {error.findings[0].found}"
    (manifest,) = built.bundle.manifests.values()
    (profile,) = manifest.entry_points["run"].profiles
    if engine_of(profile.platform or manifest.target.platform) != engines[0]:
        return f"compiled by {engines[1]} instead"
    policy = policy_text("*", [signer.public_pem()])
    (place / "trust.toml").write_text(policy, encoding="utf-8")
    return place


def _call(place: Path, given: Any, threads: int) -> Callable[[], Any]:
    import aotc_runtime

    policy = place / "trust.toml"
    run = aotc_runtime.load(place / "model.aotb", trust=policy, threads=threads)["run"]
    return lambda: run(given)


def _session(path: Path, given: Any, threads: int) -> Callable[[], Any]:
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": given})


def _times(
    calls: Mapping[tuple[str, str], Callable[[], Any]], rounds: int
) -> Mapping[tuple[str, str], float]:
    """Return the median of the seconds of each call, in turns, after one round of all."""
    found: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for number in range(rounds + 1):
        for key, call in calls.items():
            started = time.perf_counter()
            call()
            if number:
                found[key].append(time.perf_counter() - started)
    return {key: statistics.median(each) for key, each in found.items()}


def compared(times: Mapping[tuple[str, str], float]) -> Iterator[Mapping[str, Any]]:
    """Yield each bundle's time, and its ratios to the session's and to float32's."""
    for (model, engine), seconds in times.items():
        plain = times.get(("float32", engine))
        of_session = seconds / times[model, "session"]
        line = {"model": model, "engine": engine, "us": round(seconds * 1e6)}
        if engine != "session":
            line["of_session"] = f"{of_session:.2f} {verdict(of_session, OF_SESSION)}"
        if plain is not None and model != "float32":
            line["of_float32"] = f"{seconds / plain:.2f} {verdict(seconds / plain, OF_FLOAT)}"
        yield line


if __name__ == "__main__":
    main()
