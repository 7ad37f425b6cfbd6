"""The served models: their bundles, requests of clients, and the same programs for peers.

Peers serve them by jax.jit and as ONNX graphs.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_serve.inference.served_models import models_of
from benchmarks.measure import OUT, ROOT

Array = np.ndarray[Any, Any]
Call = Callable[[Sequence[Array]], Sequence[Array]]

FOLDER = OUT / "serve_peers"
EXAMPLES = ROOT / "manifests"
LENGTHS = (3, 7, 12, 16, 21, 30, 45, 64)
"""Tokens of the texts that clients send in turns."""

SEQ_PROFILES = (8, 16, 32, 64)
"""Lengths that ours and jax.jit have code for; ONNX Runtime takes each text as long as it is."""

MLP = """\
schema = 1
name = "mlp"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[weights.params]
source = "digits/params.safetensors"

[dimensions.batch]
range = [1, 64]
profiles = [1, 8, 64]

[entry_points.run]
function = "digits.model:predict"
bind = { params = "params" }
inputs.image = { shape = ["batch", 64], dtype = "float32" }
static = { temperature = 1.0 }
out_of_profile.batch = "split"
"""


class Ported(msgspec.Struct, frozen=True):
    """A model as its servers tell it: name and datatype of each tensor."""

    model: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]


class Program(NamedTuple):
    """manifest: of an example, or the text of one.  entry: the entry point.

    requests: arrays of what clients send in turns.  jitted: the program by jax.jit.
    """

    manifest: str
    entry: str
    requests: Callable[[], list[list[Array]]]
    jitted: Callable[[], Call]


def _rows() -> list[list[Array]]:
    return [[np.random.default_rng(1).random((1, 64), np.float32) * 16]]


def _texts() -> list[list[Array]]:
    random = np.random.default_rng(2)
    return [[random.integers(0, 256, (1, length)).astype(np.int32)] for length in LENGTHS]


def _steps() -> list[list[Array]]:
    from lm.model import HEAD_WIDTH, HEADS, LAYERS, MAX_LENGTH

    random, position = np.random.default_rng(3), 36
    past = np.zeros((2 * LAYERS, 1, MAX_LENGTH, HEADS, HEAD_WIDTH), np.float32)
    past[:, :, :position] = random.standard_normal(past[:, :, :position].shape)
    return [[*past, np.array([65], np.int32), np.array(position, np.int32)]]


def _mlp() -> Call:
    import jax
    from safetensors.numpy import load_file

    from digits.model import predict

    params: dict[str, dict[str, Any]] = {}
    for name, array in load_file(EXAMPLES / "digits" / "params.safetensors").items():
        layer, _, part = name.replace(".", "/").partition("/")
        params.setdefault(layer, {})[part] = jax.device_put(array)
    function = jax.jit(lambda params, image: predict(params, image, temperature=1.0))
    return lambda arrays: [np.asarray(leaf) for leaf in jax.tree.leaves(function(params, *arrays))]


def _encoder() -> Call:
    import jax

    from encoder.model import encode, init

    params, function = jax.device_put(init()), jax.jit(encode)
    for seq in SEQ_PROFILES:
        function(params, np.zeros((1, seq), np.int32), np.ones((1, seq), np.bool_))

    def call(arrays: Sequence[Array]) -> list[Array]:
        (tokens,) = arrays
        batch, real = tokens.shape
        padded = next(seq for seq in SEQ_PROFILES if seq >= real)
        filled, mask = np.zeros((batch, padded), np.int32), np.zeros((batch, padded), np.bool_)
        filled[:, :real], mask[:, :real] = tokens, True
        found = function(params, filled, mask)
        return [np.asarray(found["text"]), np.asarray(found["tokens"])[:, :real]]

    return call


def _decode() -> Call:
    import jax

    from lm.model import decode, init

    params, function = jax.device_put(init()), jax.jit(decode, donate_argnums=1)

    def call(arrays: Sequence[Array]) -> list[Array]:
        *flat, token, position = arrays
        cache = [{"key": k, "value": v} for k, v in zip(flat[::2], flat[1::2], strict=True)]
        return [
            np.asarray(leaf) for leaf in jax.tree.leaves(function(params, cache, token, position))
        ]

    return call


PROGRAMS = {
    "mlp": Program(MLP, "run", _rows, _mlp),
    "encoder": Program("encoder.toml", "encode", _texts, _encoder),
    "decode": Program("lm.toml", "decode", _steps, _decode),
}


def ported(bundle: LoadedBundle, entry: str) -> Ported:
    """The tensors of an entry point, as the server names them."""
    model = models_of(bundle)[f"{bundle.name}.{entry}"]
    inputs, outputs = (
        [(port.name, port.datatype) for port in ports] for ports in (model.inputs, model.outputs)
    )
    return Ported(model.name, inputs, outputs)


def bundle_of(name: str, engines: Sequence[str]) -> tuple[Path, Path]:
    """Build a bundle; return its file and its policy.

    With several engines the best is taken, as by `--tune`.
    """
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text
    from aotc.commands.tune.tuning_service import Measure
    from aotc.pipeline.build import build
    from aotc.pipeline.build_options import BuildOptions

    given, signer = PROGRAMS[name].manifest, LocalSigner.ephemeral()
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    bundle, policy = folder / "bundle.aotb", folder / "trust.toml"
    with contextlib.ExitStack() as stack:
        # Beside the example's modules and weights, which it names.
        manifest = EXAMPLES / f"{name}-served.toml"
        text = given if "\n" in given else (EXAMPLES / given).read_text()
        text = text.replace("profiles = [16, 64]", f"profiles = {list(SEQ_PROFILES)}")
        target = f'targets = ["cpu-x86-64-v3"]\nengines = {json.dumps(engines)}\n'
        manifest.write_text(re.sub(r"^targets = .*\n", target, text, count=1, flags=re.MULTILINE))
        stack.callback(manifest.unlink)
        tuning = Measure() if len(engines) > 1 else None
        build(manifest, bundle, BuildOptions(signer=signer, tuning=tuning))
    named = name if "\n" in given else Path(given).stem
    policy.write_text(policy_text(named, [signer.public_pem()]))
    return bundle, policy


def jitted(name: str) -> Call:
    """The program by jax.jit, compiled for what clients send."""
    return PROGRAMS[name].jitted()


def onnx_session(name: str) -> Call:
    """The program by ONNX Runtime, as it is set up by default."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(FOLDER / name / "model.onnx"))
    names = [each.name for each in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


ENGINES = {"jax.jit": jitted, "onnxruntime": onnx_session}
