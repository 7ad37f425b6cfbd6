"""Texts of mixed lengths: one executable for all lengths beside profiles and ONNX Runtime.

`python -m benchmarks.ranges [ROUNDS]`, in an environment with onnxruntime, starlette, uvicorn and
uvloop: builds the encoder of the examples with `profiles = "range"`, with six profiles and with
one, exports the first, and calls bundles and a session of ONNX Runtime on the exported model in
turns in one process, each with one thread; then the range and the session over REST, as
`benchmarks.serve_peers` does.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, machine

TEXTS, ROUNDS, REST_ROUNDS = 100, 40, 15
PROGRAM = """
import jax.numpy as jnp
from encoder.model import init, encode as masked

def encode(params, tokens):
    return masked(params, tokens, jnp.ones(tokens.shape, bool))
"""
MANIFEST = """
schema = 1
name = "texts"
version = "1.0.0"
targets = ["native"]
engines = ["onnxruntime"]
[weights.params]
init = "{module}:init"
[dimensions.seq]
range = [1, 64]
profiles = {profiles}
[entry_points.encode]
function = "{module}:encode"
bind = {{ params = "params" }}
inputs.tokens = {{ shape = [1, "seq"], dtype = "int32" }}
{more}
tolerance = {{ rtol = 1e-4, atol = 1e-5 }}
[entry_points.encode.fixtures]
ranges = {{ tokens = [0, 255] }}
"""
PADDED = """inputs.mask = { shape = [1, "seq"], dtype = "bool" }
out_of_profile.seq = { policy = "pad", mask = "mask" }"""


def build(folder: Path, name: str, profiles: str) -> tuple[Path, Path]:
    """Build and sign a bundle; return it and its policy."""
    from aotc.bundle.sign.signer import LocalSigner
    from aotc.bundle.trust.trust_text import policy_text
    from aotc.pipeline.build import build as run
    from aotc.pipeline.build_options import BuildOptions

    is_range = name == "range"
    (folder / "texts.py").write_text(PROGRAM)
    module, more = ("texts", "") if is_range else ("encoder.model", PADDED)
    manifest = folder / f"{name}.toml"
    manifest.write_text(MANIFEST.format(profiles=profiles, module=module, more=more))
    signer, policy = LocalSigner.ephemeral(), folder / f"{name}-trust.toml"
    policy.write_text(policy_text("texts", [signer.public_pem()]))
    bundle = folder / f"{name}.aotb"
    run(manifest, bundle, BuildOptions(signer=signer))
    return bundle, policy


def session(bundle: Path, policy: Path, folder: Path) -> Callable[[Any], Any]:
    """Return a call of the exported model in ONNX Runtime, with one thread as the bundles."""
    import onnxruntime

    from aotc.cli.command_group import cli

    words = ["export", str(bundle), "encode", "--as", "onnx", "--profile", "seq=64"]
    words += ["--trust", str(policy), "-o", str(folder / "model")]
    cli.main(words, standalone_mode=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    made = onnxruntime.InferenceSession(folder / "model" / "model.onnx", options)
    (given,) = made.get_inputs()
    return lambda tokens: made.run(None, {given.name: tokens})


def over_http(folder: Path, texts: list[Any], rounds: int) -> None:
    """Ask our server and starlette with ONNX Runtime in turns, four clients each."""
    import msgspec

    import aotc_runtime
    from benchmarks.serve import serving
    from benchmarks.serve_peers.__main__ import CLIENTS, SECONDS, other
    from benchmarks.serve_peers.measured import Measured, over_rest
    from benchmarks.serve_peers.models import FOLDER, ported

    bundle, policy = folder / "range.aotb", folder / "range-trust.toml"
    with aotc_runtime.load(bundle, trust=policy) as loaded:
        model = ported(loaded, "encode")
    (FOLDER / "encoder").mkdir(parents=True, exist_ok=True)
    (FOLDER / "encoder" / "model.json").write_bytes(msgspec.json.encode(model))
    copy(folder / "model" / "model.onnx", FOLDER / "encoder")
    command = (sys.executable, "-m", "benchmarks.serve_peers.peer", "starlette", "onnxruntime")
    with serving(bundle, policy) as server, other(*command, "encoder") as (peer,):
        ours, theirs = (
            Measured(name, "REST", over_rest(each.port, model, [[text] for text in texts]), each)
            for name, each in (("range", server), ("starlette, ONNX Runtime", peer))
        )
        for turn in range(-1, rounds):
            for each in (ours, theirs):
                each.check(theirs.way.first())
                each.round(SECONDS, CLIENTS)
                if turn < 0:
                    each.forget()
        for each in (ours, theirs):
            print(each.row(theirs.rate))


def main() -> None:
    import onnxruntime  # noqa: F401 - no part of the first load

    import aotc_runtime

    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(2.2, 0.8, TEXTS), 1, 64).astype(int)
    texts = [random.integers(0, 256, (1, length)).astype(np.int32) for length in lengths]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copytree(ROOT / "manifests" / "encoder", folder / "encoder")
        calls: dict[str, Callable[[Any], Any]] = {}
        print(machine())
        for name, profiles in {
            "range": '"range"',
            "six": "[2, 4, 8, 16, 32, 64]",
            "one": "[64]",
        }.items():
            bundle, policy = build(folder, name, profiles)
            started = time.perf_counter()
            calls[name] = aotc_runtime.load(bundle, trust=policy, threads=1)["encode"]
            took, size = time.perf_counter() - started, bundle.stat().st_size
            print(f"{name}: {size} bytes, {took:.3f} s to load")
        calls["session"] = session(folder / "range.aotb", folder / "range-trust.toml", folder)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(-2, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS):
            for name in random.permutation([*calls]):
                call, started = calls[name], time.perf_counter()
                for tokens in texts:
                    call(tokens)
                if turn >= 0:
                    times[name].append((time.perf_counter() - started) / TEXTS * 1e6)
        over_http(folder, texts, REST_ROUNDS)
    for name, each in times.items():
        ratio = statistics.median(a / b for a, b in zip(each, times["range"], strict=True))
        print(f"{name}: {statistics.median(each):.1f} us a call, {ratio:.2f} of the range")


if __name__ == "__main__":
    main()
