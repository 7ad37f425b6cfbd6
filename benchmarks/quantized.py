"""`python -m benchmarks.quantized`: quantized models as bundles of each engine.

A multilayer perceptron in four forms, written for ONNX: float32, weights of 8 bits, static
quantization (QDQ) and dynamic quantization. Of each, bundles for each engine and ONNX Runtime's
own session on the same file are called in turns in one process; so are bundles of the float32 model
with precisions of their own, beside the session on the model that is quantized alike and, where
`--write` made them, beside models of ONNX Runtime's `MatMulNBitsQuantizer` and of NNCF. Needs
aotc's extras `onnx` and `openvino`; `--write`, which only writes models, needs an environment with
onnx, onnxruntime, onnx_ir, openvino and nncf. Bundles that are there are taken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
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
{engines}
[entry_points.run]
source = "../{source}.onnx"
{precision}
tolerance = {{ rtol = 1e-2, atol = {atol} }}
inputs.x = {{ shape = {shape}, dtype = "float32" }}
fixtures.file = "../{source}.npz"
{ends}
"""

PRECISIONS = {
    "own weights": ("weights", 'weights = "int8"', "openvino"),
    "own dynamic": ("dynamic", 'weights = "int8"\nactivations = "dynamic"', "onnxruntime"),
    "own int4": ("float32", 'weights = "int4"', "openvino"),
    "own bfloat16": ("float32", 'compute = "bfloat16"', "xla"),
    "rounding int8": ("weights", 'weights = "int8"\ngroup = 64', ""),
    "rounding int4": ("float32", 'weights = "int4"', ""),
}
"""Precisions of the float32 model: the model whose session each is compared with, its keys, and an
engine with kernels, without which a build refuses other engines. Rounding ones are for a target
with ONNX Runtime's accuracy level 4."""

GROUP = 64
"""Numbers with one scale in the peers' models, as in ours of 4 bits."""

RESIDENT = """
import sys
from pathlib import Path
import numpy
from benchmarks.quantized import called
call = called(Path(sys.argv[1]), numpy.load(sys.argv[2])["x"], 1)
call(), call()
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmRSS")).split()[1])
"""

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
    parser.add_argument("--rounds", type=int, default=31, help="0 builds alone")
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default 1)")
    parser.add_argument("--write", action="store_true", help="the models and the peers' alone")
    parser.add_argument("--built", action="store_true", help="no bundles but those that are there")
    parser.add_argument("--resident", action="store_true", help="memory in place of time")
    options = parser.parse_args()
    sizes = [*map(int, options.sizes.split(","))]
    folder = OUT / f"quantized-{'-'.join(map(str, sizes))}-{options.batch}"
    folder.mkdir(parents=True, exist_ok=True)
    given = np.random.default_rng(0).standard_normal((options.batch, sizes[0]), np.float32)
    wanted = options.forms.split(",")
    every = {**{model: (model, "", "") for model in MODELS}, **PRECISIONS}
    write_models(folder, sizes, given, {every[form][0] for form in wanted})
    if options.write:
        _write_peers(folder)
        return
    found: dict[tuple[str, str], Path] = {}
    for form in sorted(wanted, key=lambda form: MODELS.index(every[form][0])):
        model, keys, able = every[form]
        for engine in options.engines.split(","):
            engines = [*dict.fromkeys(filter(None, (engine, able)))]
            if options.built and not (_place(folder / form, engine) / "trust.toml").exists():
                continue
            made = _bundle(folder / form, engines, options.target, given, keys)
            if isinstance(made, str):
                print(json.dumps({"model": form, "engine": engine, "refused": made}))
                continue
            found[form, engine] = made
        found[form, "session"] = folder / f"{model}.onnx"
        if keys.startswith("weights") and "activations" not in keys:
            found |= {(form, each.name): each for each in folder.glob(f"{keys[11:15]}-*.[ox]*")}
    if options.resident:
        for key, place in found.items():
            print(json.dumps({"model": key[0], "engine": key[1], **_memory(place, folder)}))
        return
    calls = {each: called(each, given, options.threads) for each in dict.fromkeys(found.values())}
    taken = _times(calls, options.rounds)
    for line in compared({key: taken[each] for key, each in found.items() if each in taken}):
        print(json.dumps(line))


def write_models(
    folder: Path, sizes: Sequence[int], given: Any, models: Collection[str] = MODELS
) -> None:
    """Write the models that are not there, float32 always, and the inputs of their fixtures."""
    onnx: Any = import_module("onnx")
    tools: Any = import_module("onnxruntime.quantization")

    class Inputs(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [{"x": given}]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    models = {each for each in models if not (folder / f"{each}.onnx").exists()}
    start, int8 = folder / "float32.onnx", tools.QuantType.QInt8
    if not start.exists():
        onnx.save(_network(onnx, sizes, len(given), quantized=False), start)
    if "weights" in models:
        onnx.save(_network(onnx, sizes, len(given), quantized=True), folder / "weights.onnx")
    if "dynamic" in models:
        tools.quantize_dynamic(start, folder / "dynamic.onnx", weight_type=int8)
    if "static" in models:
        tools.quantize_static(start, folder / "static.onnx", Inputs(), weight_type=int8)
    for name in MODELS:
        np.savez(folder / f"{name}.npz", x=given)


def _write_peers(folder: Path) -> None:
    """Write models of the others with weights of 8 and 4 bits, with and without rounded inputs."""
    tools: Any = import_module("onnxruntime.quantization.matmul_nbits_quantizer")
    openvino, nncf = import_module("openvino"), import_module("nncf")
    start = folder / "float32.onnx"
    for bits in (8, 4):
        for name, level in (("nbits", 1), ("nbits-rounding", 4)):
            made = tools.MatMulNBitsQuantizer(
                str(start), bits=bits, block_size=GROUP, is_symmetric=True, accuracy_level=level
            )
            made.process()
            made.model.save_model_to_file(str(folder / f"int{bits}-{name}.onnx"))
        mode, how = nncf.CompressWeightsMode.INT8_SYM, {}
        if bits == 4:
            mode, how = nncf.CompressWeightsMode.INT4_SYM, {"group_size": GROUP, "all_layers": True}
        model = nncf.compress_weights(openvino.Core().read_model(start), mode=mode, **how)
        openvino.save_model(model, folder / f"int{bits}-nncf.xml", compress_to_fp16=False)


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
    from aotc.compile.target_files import builtin_folder
    from aotc.pipeline.build import build
    from aotc.pipeline.build_options import BuildOptions
    from aotc_runtime.base.errors import AotcError
    from aotc_runtime.schema.bundle_manifest import engine_of

    place = _place(model, engines[0])
    if (place / "trust.toml").exists():
        return place
    (place / "targets").mkdir(parents=True, exist_ok=True)
    is_rounding = model.name.startswith("rounding")
    if is_rounding:
        if engines[0] != "onnxruntime":
            return "an option of ONNX Runtime"
        rounding = (builtin_folder() / "cpu-x86-64-v3.toml").read_text(encoding="utf-8")
        rounding = rounding.replace('"cpu-x86-64-v3"', '"rounding"')
        rounding = rounding.replace('"cpu"', '"onnxruntime"')
        rounding += 'options = { onnxruntime-accuracy-level = "4" }\n'
        (place / "targets" / "rounding.toml").write_text(rounding, encoding="utf-8")
    text = MANIFEST.format(
        target="rounding" if is_rounding else target,
        engines=f"engines = {[*engines]}" if not is_rounding else "",
        source="float32" if precision else model.name,
        precision='precision = "own"' if precision else "",
        # Two engines may round a number to different steps.
        atol=1e-4 if model.name in ("float32", "own int4", "own bfloat16") else 0.1,
        shape=list(given.shape),
        ends='fixtures.ranges = { x = [-5, 5] }\nnumerics = "finite"' if is_rounding else "",
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


def _place(model: Path, engine: str) -> Path:
    return model.with_name(f"{model.name.replace(' ', '-')}-{engine}")


def called(place: Path, given: Any, threads: int) -> Callable[[], Any]:
    """Load a bundle in a folder, or another's model, and return a call of it."""
    if place.suffix == ".onnx":
        onnxruntime: Any = import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"x": given})
    if place.suffix == ".xml":
        openvino: Any = import_module("openvino")
        how = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(place, "CPU", how)
        return lambda: compiled([given])
    import aotc_runtime

    policy = place / "trust.toml"
    run = aotc_runtime.load(place / "model.aotb", trust=policy, threads=threads)["run"]
    return lambda: run(given)


def _memory(place: Path, folder: Path) -> Mapping[str, int]:
    """Return bytes of the file, and resident kilobytes of a process of its own after two calls."""
    command = [sys.executable, "-c", RESIDENT, str(place), str(folder / "float32.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    file = place.with_suffix(".bin") if place.suffix == ".xml" else place
    file = place / "model.aotb" if place.is_dir() else file
    return {"file_bytes": file.stat().st_size, "resident_kb": int(done.stdout)}


def _times(calls: Mapping[Path, Callable[[], Any]], rounds: int) -> Mapping[Path, float]:
    """Return the seconds of each call, in turns, after one round of all.

    It is the lower quartile, which other work on the machine moves less than the median.
    """
    found: dict[Path, list[float]] = {key: [] for key in calls}
    for number in range(rounds + 1 if rounds else 0):
        for key, call in calls.items():
            started = time.perf_counter()
            call()
            if number:
                found[key].append(time.perf_counter() - started)
    return {key: sorted(each)[len(each) // 4] for key, each in found.items() if each}


def compared(times: Mapping[tuple[str, str], float]) -> Iterator[Mapping[str, Any]]:
    """Yield each one's time, and a bundle's ratios to the others' models and to float32's."""
    for (model, engine), seconds in times.items():
        line: dict[str, Any] = {"model": model, "engine": engine, "us": round(seconds * 1e6)}
        if engine in ENGINES:
            for (of, peer), taken in times.items():
                if of == model and peer not in ENGINES:
                    line[f"of_{peer}"] = (
                        f"{seconds / taken:.2f} {verdict(seconds / taken, OF_SESSION)}"
                    )
        plain = times.get(("float32", engine))
        if plain is not None and model != "float32":
            line["of_float32"] = f"{seconds / plain:.2f} {verdict(seconds / plain, OF_FLOAT)}"
        yield line


if __name__ == "__main__":
    main()
