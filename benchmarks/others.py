"""Measures models that others wrote: `python -m benchmarks.others` (benchmarks/RESULTS.md).

`write` makes the files, in an environment with torch, timm, transformers, onnx and onnxscript, for
the ensemble with scikit-learn and skl2onnx, and for the quantized ones with onnxruntime and nncf;
weights are random, since nothing is fetched. `measure` builds a bundle of each `.pt2` or `.onnx`
for each engine, in an environment with the engines, and calls bundles and ONNX Runtime's own
session on the `.onnx` in turns in one process. Bundles that are there are taken.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.peers import aotc
from benchmarks.compare.peers.aotc_tuned import engines

SESSION = "onnxruntime's session"
MANIFEST = """\
schema = 1
name = "{name}"
version = "1.0.0"
targets = ["native"]
engines = ["{engine}"]

[entry_points.run]
source = "{file}"
inputs.{parameter} = {{ shape = {shape}, dtype = "{dtype}" }}
tolerance = {{ rtol = 1e-3, atol = {atol} }}
fixtures.ranges = {{ {parameter} = {range} }}
{precision}
"""
OWN = """
precision = "own"
[precision.own]
weights = "int8"
activations = "dynamic"
"""


def _tagger() -> Any:
    """Return a bidirectional LSTM over 32 embedded tokens, with a class for each."""
    import torch

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(10_000, 128)
            self.lstm = torch.nn.LSTM(128, 128, bidirectional=True, batch_first=True)
            self.tags = torch.nn.Linear(256, 20)

        def forward(self, tokens: Any) -> Any:
            return self.tags(self.lstm(self.words(tokens))[0])

    return Network()


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=False)


def _timm(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import timm

        return timm.create_model(name)

    return make


PICTURE = (1, 3, 224, 224)
MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "vit": (_timm("vit_tiny_patch16_224"), PICTURE),
    "convnext": (_timm("convnext_atto"), PICTURE),
    "lstm": (_tagger, (1, 32)),
    "bert16": (_bert, (1, 16)),
    "bert128": (_bert, (1, 128)),
    "resnet50": (_timm("resnet50"), PICTURE),
}
"""By name: the model and the shape of its input, tokens where that has two axes."""

BOOSTED, FEATURES = "boosted", 16
QUANTIZED = {"bert16-int8": "bert16", "bert128-int8": "bert128", "resnet50-int8": "resnet50"}
"""Models that onnxruntime.quantization makes: tokens dynamic, of pictures static."""
_PARAMETERS = {"bert16": "input_ids", "bert128": "input_ids", "lstm": "tokens"}


def write(name: str, folder: Path) -> None:
    """Write the files of a model: `.onnx` with the example `.npy`, and `.pt2` but of trees."""
    random = np.random.default_rng(0)
    given: np.ndarray[Any, Any]
    if name in QUANTIZED:
        given = np.load(folder / f"{QUANTIZED[name]}.npy")
        _quantize(QUANTIZED[name], folder / f"{name}.onnx", given)
    elif name == BOOSTED:
        from sklearn.ensemble import GradientBoostingRegressor

        rows = random.normal(size=(2000, FEATURES)).astype(np.float32)
        model = GradientBoostingRegressor(n_estimators=100, max_depth=4, random_state=0)
        model.fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2])
        given = rows[:32]
        made = import_module("skl2onnx").to_onnx(model, rows[:1])
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
    else:
        import torch

        make, shape = MODELS[name]
        torch.manual_seed(0)
        model = make().eval()
        tokens = len(shape) == 2
        given = random.integers(0, 10_000, shape) if tokens else random.normal(size=shape)
        given = np.asarray(given, np.int64 if tokens else np.float32)
        with torch.no_grad():
            program = torch.export.export(model, (torch.from_numpy(given),))
        torch.export.save(program, folder / f"{name}.pt2")
        torch.onnx.export(program, dynamo=True).save(folder / f"{name}.onnx")
    np.save(folder / f"{name}.npy", given)


def _quantize(model: str, made: Path, given: np.ndarray[Any, Any]) -> None:
    """Write the quantized model, and that of NNCF of pictures."""
    tools: Any = import_module("onnxruntime.quantization")
    start, name = made.with_name(f"{model}.onnx"), _PARAMETERS.get(model, "x")
    if given.ndim == 2:
        tools.quantize_dynamic(start, made, weight_type=tools.QuantType.QInt8)
        return
    random = np.random.default_rng(1)
    pictures = [random.normal(size=given.shape).astype(np.float32) for _ in range(8)]

    class Pictures(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left = [{name: each} for each in pictures]

        def get_next(self) -> Any:
            return self._left.pop() if self._left else None

    ready = made.with_name(f"{model}-ready.onnx")
    import_module("onnxruntime.quantization.shape_inference").quant_pre_process(start, ready)
    tools.quantize_static(ready, made, Pictures(), per_channel=True)
    nncf, openvino = import_module("nncf"), import_module("openvino")
    compressed = nncf.quantize(openvino.Core().read_model(start), nncf.Dataset(pictures))
    openvino.save_model(compressed, made.with_suffix(".xml"), compress_to_fp16=False)


def measure(name: str, folder: Path, rounds: int, seconds: float, listed: Sequence[str]) -> None:
    """Print a line for each engine: microseconds of a call, and the session's divided by it.

    Beside the bundles of a quantized model are those of float32, and with a precision of aotc's.
    """
    import onnxruntime

    given = np.load(folder / f"{name}.npy")
    session = onnxruntime.InferenceSession(
        folder / f"{name}.onnx", providers=["CPUExecutionProvider"]
    )
    (taken,) = session.get_inputs()
    calls: dict[str, Callable[[], Any]] = {SESSION: lambda: session.run(None, {taken.name: given})}
    if (folder / f"{name}.xml").exists():
        calls["openvino, NNCF's"] = _compiled(folder / f"{name}.xml", given)
    sources = {"": (name, "")}
    if name in QUANTIZED:
        sources[", float32"] = (QUANTIZED[name], "")
        if given.ndim == 2:
            sources[", own"] = (QUANTIZED[name], OWN)
    for engine in listed:
        for label, (source, precision) in sources.items():
            case = f"{engine}{label}"
            try:
                calls[case] = _bundle(source, engine, folder, given, taken.name, precision)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this row's figure
                print(f"{name:14}{case:24}{type(error).__name__}: {str(error)[:200]}", flush=True)
    if not rounds:
        return
    times: dict[str, list[float]] = {each: [] for each in calls}
    for number in range(rounds + 1):
        for each in [*calls] if number % 2 == 0 else [*calls][::-1]:
            once = _turn(calls[each], seconds)
            times[each] += [once] * bool(number)
    for each, taking in times.items():
        ratios = [a / b for a, b in zip(times[SESSION], taking, strict=True)]
        figures = f"{statistics.median(taking):12.1f} us{statistics.median(ratios):8.2f}"
        print(f"{name:14}{each:24}{figures}", flush=True)


def _compiled(path: Path, given: np.ndarray[Any, Any]) -> Callable[[], Any]:
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    return lambda: compiled([given])


def _bundle(
    name: str, engine: str, folder: Path, given: np.ndarray[Any, Any], taken: str, precision: str
) -> Callable[[], Any]:
    """Build the bundle of a model for an engine; a call of it."""
    case = folder / "-".join([name, engine, *["own"] * bool(precision)])
    (case / "program").mkdir(parents=True, exist_ok=True)
    is_onnx = name == BOOSTED or name in QUANTIZED
    source = folder / f"{name}.{'onnx' if is_onnx else 'pt2'}"
    if not (case / "model.trust.toml").exists():
        text = MANIFEST.format(
            name=name,
            engine=engine,
            file=source.absolute(),
            parameter=taken if is_onnx else _PARAMETERS.get(name, "x"),
            shape=list(given.shape),
            dtype=dtype_of(given),
            range=[int(given.min()), int(given.max())],
            atol=0.1 if precision or name in QUANTIZED else 1e-3,
            precision=precision,
        )
        (case / "program" / "manifest.toml").write_text(text)
        aotc.prepare(case)
    run, passed = aotc.load(case), given.astype(dtype_of(given))
    return lambda: run(passed)


def dtype_of(given: np.ndarray[Any, Any]) -> str:
    """Return the type of a bundle's input: without 64-bit types, which jax has not by default."""
    return str(given.dtype).replace("64", "32")


def _turn(call: Callable[[], Any], seconds: float) -> float:
    """Median microseconds of the calls of a turn."""
    times: list[float] = []
    now = time.perf_counter()
    stop = now + seconds
    while now < stop or len(times) < 3:
        before = now
        call()
        now = time.perf_counter()
        times.append((now - before) * 1e6)
    return statistics.median(times)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or measure the models."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.others", description=main.__doc__)
    parser.add_argument("what", choices=["write", "measure"])
    parser.add_argument("--models", default=",".join([*MODELS, BOOSTED, *QUANTIZED]))
    parser.add_argument("--engines", default=",".join(engines()), help="default all installed")
    parser.add_argument("--folder", type=Path, default=Path("out/others-models"))
    parser.add_argument(
        "--rounds", type=int, default=5, help="counted rounds (default 5; 0 builds)"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="of calls in a turn")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.models.split(","):
        if options.what == "write":
            write(name, options.folder)
        else:
            listed = options.engines.split(",")
            measure(name, options.folder, options.rounds, options.seconds, listed)


if __name__ == "__main__":
    main()
