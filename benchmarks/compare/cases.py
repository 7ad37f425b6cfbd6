"""Cases of the comparison: seven programs, each at the sizes of its shape profiles.

Two of them are also model files of PyTorch and ONNX.

`write_case` puts everything that a peer may start from into one folder: input.npy, expected-N.npy
(results of `jax.jit`), weights.npz by name, params.pickle (the same as the tree the function
takes), module.mlir (StableHLO with the weights inside; where they are large, as arguments before
the input), and for aotc a build manifest with a copy of the program, or for the file that
`contestants.write_file` puts beside it.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import OUT, ROOT

CASES_FOLDER = OUT / "compare"
WEIGHTS_SEED = 0
SIZED = ("encoder", "resnet", "decode")
"""Models of the sizes that are served. Their modules stand here, with `init` and `run`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program at one shape.

    `sizes` maps dimensions to sizes; `file` is the suffix of the model file that aotc builds in
    place of the program, "" for the program.
    """

    model: str
    sizes: dict[str, int]
    file: str = ""

    @property
    def name(self) -> str:
        sizes = (f"{name}{size}" for name, size in self.sizes.items())
        return "-".join([self.model, *sizes, *filter(None, [self.file])])

    @property
    def kind(self) -> str:
        """Name to choose it by: "resnet", "resnet.pt2"."""
        return ".".join([self.model, *filter(None, [self.file])])

    @property
    def folder(self) -> Path:
        return CASES_FOLDER / self.name


CASES = (
    Case("mlp", {"batch": 1}),
    Case("mlp", {"batch": 8}),
    Case("mlp", {"batch": 64}),
    Case("vision", {"batch": 1}),
    Case("vision", {"batch": 4}),
    Case("transformer", {"batch": 1, "seq": 16}),
    Case("transformer", {"batch": 2, "seq": 32}),
    Case("encoder", {"batch": 1, "seq": 128}),
    Case("encoder", {"batch": 8, "seq": 128}),
    Case("resnet", {"batch": 1}),
    Case("resnet", {"batch": 8}),
    *(Case("encoder", {"batch": 1, "seq": 128}, file) for file in ("pt2", "onnx")),
    *(Case("resnet", {"batch": 1}, file) for file in ("pt2", "onnx")),
    Case("decode", {}),
    Case("trivial", {}),
)
KINDS = tuple(dict.fromkeys(case.kind for case in CASES))

MANIFEST = """\
schema = 1
name = "{name}"
version = "1.0.0"
targets = ["native"]
{weights}{dimensions}
[entry_points.run]
{program}
{bind}inputs.{input} = {{ shape = {shape}, dtype = "{dtype}" }}
{static}tolerance = {{ rtol = 1e-3, atol = 1e-4 }}

[entry_points.run.fixtures]
seed = 0
ranges = {{ {input} = {range} }}
"""


@dataclass(frozen=True, slots=True)
class Program:
    """Code of a model and its inputs. shape: sizes, or names of dimensions."""

    source: Path
    function: str
    weights: str
    input: str
    shape: tuple[int | str, ...]
    dtype: str
    range: tuple[int, int]
    static: str = ""


EXAMPLES = ROOT / "manifests"


def _sized(
    model: str, given: str, shape: tuple[int | str, ...], dtype: str, limits: tuple[int, int]
) -> Program:
    return Program(
        source=Path(__file__).parent / f"{model}.py",
        function=f"{model}:run",
        weights=f'init = "{model}:init"',
        input=given,
        shape=shape,
        dtype=dtype,
        range=limits,
    )


PROGRAMS = {
    "mlp": Program(
        source=EXAMPLES / "digits",
        function="digits.model:predict",
        weights='source = "digits/params.safetensors"',
        input="image",
        shape=("batch", 64),
        dtype="float32",
        range=(0, 16),
        static="static = { temperature = 1.0 }\n",
    ),
    "vision": Program(
        source=EXAMPLES / "vision",
        function="vision.model:predict",
        weights='init = "vision.model:init"',
        input="image",
        shape=("batch", 32, 32, 3),
        dtype="float32",
        range=(0, 1),
    ),
    "transformer": Program(
        source=EXAMPLES / "lm",
        function="lm.model:prefill",
        weights='init = "lm.model:init"',
        input="tokens",
        shape=("batch", "seq"),
        dtype="int32",
        range=(0, 255),
    ),
    "trivial": Program(
        source=Path(__file__).parent / "trivial.py",
        function="trivial:add_one",
        weights="",
        input="x",
        shape=(8,),
        dtype="float32",
        range=(0, 1),
    ),
    "encoder": _sized("encoder", "tokens", ("batch", "seq"), "int32", (0, 30521)),
    "resnet": _sized("resnet", "image", ("batch", 224, 224, 3), "float32", (0, 1)),
    "decode": _sized("decode", "x", (1, 4096), "float32", (0, 1)),
}


def manifest_text(case: Case) -> str:
    """The build manifest of one program at one shape."""
    program = PROGRAMS[case.model]
    if case.file:
        return _of_file(case, program)
    dimensions = "".join(
        f"\n[dimensions.{name}]\nrange = [{size}, {size}]\nprofiles = [{size}]\n"
        for name, size in case.sizes.items()
    )
    shape = ", ".join(f'"{axis}"' if isinstance(axis, str) else str(axis) for axis in program.shape)
    return MANIFEST.format(
        name=case.name,
        weights=f"\n[weights.params]\n{program.weights}\n" if program.weights else "",
        dimensions=dimensions,
        program=f'function = "{program.function}"',
        bind='bind = { params = "params" }\n' if program.weights else "",
        input=program.input,
        shape=f"[{shape}]",
        dtype=program.dtype,
        static=program.static,
        range=list(program.range),
    )


def _of_file(case: Case, program: Program) -> str:
    """For a model file, which has its weights and was made for these sizes."""
    return MANIFEST.format(
        name=case.name,
        weights="",
        dimensions="",
        program=f'source = "model.{case.file}"',
        bind="",
        input="input" if case.file == "onnx" else program.input,
        shape=list(shape_of(case)),
        dtype=program.dtype,
        static="",
        range=list(program.range),
    )


def shape_of(case: Case) -> tuple[int, ...]:
    """The sizes of a case's input."""
    shape = PROGRAMS[case.model].shape
    return tuple(case.sizes[axis] if isinstance(axis, str) else axis for axis in shape)


def function_of(model: str) -> Callable[[Any, Any], Any]:
    """The program as a function of its parameters and its input. The examples are on the path."""
    if model == "mlp":
        from digits.model import predict

        return lambda params, image: predict(params, image, temperature=1.0)
    if model == "vision":
        from vision.model import predict as predict_vision

        return predict_vision
    if model == "transformer":
        from lm.model import prefill

        return prefill
    if model in SIZED:
        run: Callable[[Any, Any], Any] = import_module(f"benchmarks.compare.{model}").run
        return run
    from benchmarks.compare.trivial import add_one

    return lambda params, x: add_one(x)


def _params(model: str) -> Any:
    if model == "mlp":
        from safetensors.numpy import load_file

        nested: dict[str, dict[str, Any]] = {}
        for name, tensor in load_file(EXAMPLES / "digits" / "params.safetensors").items():
            layer, _, part = name.partition("/")
            nested.setdefault(layer, {})[part] = tensor
        return nested
    if model == "vision":
        from vision.model import init as init_vision

        return init_vision()
    if model == "transformer":
        from lm.model import init

        return init()
    if model in SIZED:
        return import_module(f"benchmarks.compare.{model}").init()
    return None


def input_of(case: Case) -> np.ndarray[Any, Any]:
    """Random input of the case's shape, always the same."""
    program, shape = PROGRAMS[case.model], shape_of(case)
    random = np.random.default_rng(WEIGHTS_SEED)
    if program.dtype == "int32":
        return random.integers(*program.range, shape, np.int32, endpoint=True)
    return random.uniform(*program.range, shape).astype(np.float32)


def write_case(case: Case) -> None:
    """Write the case's folder anew. Imports jax."""
    import jax

    folder = case.folder
    shutil.rmtree(folder, ignore_errors=True)
    program_folder = folder / "program"
    program_folder.mkdir(parents=True)
    source = PROGRAMS[case.model].source
    if source.is_dir():
        shutil.copytree(source, program_folder / source.name)
    else:
        shutil.copyfile(source, program_folder / source.name)
    (program_folder / "manifest.toml").write_text(manifest_text(case))

    params = jax.tree.map(np.asarray, _params(case.model))
    (folder / "params.pickle").write_bytes(pickle.dumps(params))
    flat = jax.tree_util.tree_flatten_with_path(params)[0]
    np.savez(
        folder / "weights.npz",
        **{jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in flat},
    )
    given = input_of(case)
    np.save(folder / "input.npy", given)
    function = function_of(case.model)
    on_device = jax.device_put(params)
    if case.model in SIZED:
        lowered = jax.jit(function).lower(on_device, given)
        expected = lowered.compile()(on_device, given)
    else:
        lowered = jax.jit(lambda given: function(on_device, given)).lower(given)
        expected = lowered.compile()(given)
    (folder / "module.mlir").write_text(lowered.as_text())
    for index, leaf in enumerate(jax.tree.leaves(expected)):
        np.save(folder / f"expected-{index}.npy", np.asarray(leaf))
