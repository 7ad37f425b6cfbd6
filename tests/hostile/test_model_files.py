"""Model files that attack the build that reads them are refused with a code."""

import dataclasses
import json
import re
import resource
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from aotc.base.errors import CaptureError
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.confined_process import MEMORY_VARIABLE, SECONDS_VARIABLE
from aotc.bundle.sign.signer import generate_key_pair, load_signer
from aotc.capture import jax_private
from aotc.capture.model_entry_points import check_lowered
from aotc.commands.import_tensorflow.tensorflow_import import import_signature
from aotc.commands.init.drafting_process import draft_manifest
from aotc.commands.init.init_request import Job, Request
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.base.errors import AotcError
from tests.conftest import manifest_of
from tests.refusals import error_of
from tests.unit.capture.test_custom_call_checks import OVERWRITES

MANIFEST = manifest_of("""
name = "it"
[entry_points.f]
source = "{file}"
{more}
[entry_points.f.fixtures]
seed = 0
""")

ENDLESS = """
module {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.while(%a = %x) : tensor<f32>
      cond {
        %true = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %true : tensor<i1>
      } do {
        %b = stablehlo.add %a, %a : tensor<f32>
        stablehlo.return %b : tensor<f32>
      }
    return %0 : tensor<f32>
  }
}
"""

LARGE = """
module {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.iota dim = 0 : tensor<4000000000xf32>
    %1 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4000000000xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<4000000000xf32>
    %3 = "stablehlo.sort"(%2) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }) : (tensor<4000000000xf32>) -> tensor<4000000000xf32>
    %4 = stablehlo.slice %3 [5:6] : (tensor<4000000000xf32>) -> tensor<1xf32>
    %5 = stablehlo.reshape %4 : (tensor<1xf32>) -> tensor<f32>
    return %5 : tensor<f32>
  }
}
"""

GOOD = """
module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def written(folder: Path, data: bytes | str, name: str = "it.mlir", more: str = "") -> Path:
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    path = folder / "it.toml"
    path.write_text(MANIFEST.format(file=name, more=more))
    return path


def refusal(manifest: Path) -> AotcError:
    caught = error_of(AotcError, build, manifest, output=manifest.with_name("it.aotb"))
    assert not manifest.with_name("it.aotb").exists()
    return caught


def test_a_kernel_that_writes_beyond_its_results_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, OVERWRITES)).code == "AOTC-E844"


def symbolic(lying: bool) -> Any:
    """A function of any number of matrices; lying: whose kernel writes as many results as there are
    matrices into one.
    """
    (n,) = export.symbolic_shape("n")
    made = export.export(jax.jit(jnp.linalg.cholesky))(jax.ShapeDtypeStruct((n, 3, 3), "float32"))
    if not lying:
        return made
    text = str(made.mlir_module())
    # What is returned of each matrix is how it went, in as many numbers as the file says: one.
    call = re.search(r"(%\d+):2 = stablehlo.custom_call @lapack_spotrf_ffi\((.*?)\)", text)
    assert call is not None
    size = call[2].split(", ")[2]
    text = re.sub(
        rf"{size} = stablehlo.reshape .*",
        f"{size} = stablehlo.constant dense<1> : tensor<1xi32>",
        text,
    )
    text = re.sub(rf"compare EQ, {call[1]}#1, (%\d+)", r"compare EQ, \1, \1", text)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        data = jax_private.serialize_portable(module, mlir.hlo.get_current_version())
    return dataclasses.replace(made, mlir_module_serialized=data)


SYMBOLIC = """
inputs.arg0 = { shape = ["n", 3, 3] }
[dimensions.n]
range = [1, 4]
profiles = [4]
"""


@pytest.mark.parametrize("recorded", [False, True])
def test_varying_kernel_sizes_are_judged_when_built(recorded: bool, tmp_path: Path) -> None:
    """Of recorded results there is no reference that would judge it."""
    manifest = written(tmp_path, bytes(symbolic(lying=True).serialize()), "it.jax", SYMBOLIC)
    if recorded:
        matrices = np.broadcast_to(np.eye(3, dtype=np.float32), (4, 3, 3))
        np.savez(tmp_path / "inputs.npz", arg0=matrices)
        np.savez(tmp_path / "results.npz", **{"result[n=4]": matrices})
        files = 'file = "inputs.npz"\nresults = "results.npz"'
        manifest.write_text(manifest.read_text("utf-8").replace("seed = 0", files))
    found = refusal(manifest)
    assert (found.code, "i32[1]" in found.findings[0].found) == ("AOTC-E844", True)


def test_the_reference_judges_what_it_is_about_to_compile() -> None:
    """At sizes of trials, which no profile has."""
    for lying in (False, True):
        lowered = jax.jit(symbolic(lying).call).lower(jax.ShapeDtypeStruct((5, 3, 3), jnp.float32))
        if not lying:
            check_lowered("f", lowered)
            continue
        assert error_of(CaptureError, check_lowered, "f", lowered).code == "AOTC-E844"


def test_endless_loop_ends_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call; the capture before it has the same time, which a busy machine may need."""
    for seconds in ("5", "20", "80"):
        monkeypatch.setenv(SECONDS_VARIABLE, seconds)
        found = refusal(written(tmp_path, ENDLESS))
        if found.code != "AOTC-E835":
            break
    assert found.code == "AOTC-E836"
    assert found.findings[0].found.startswith(f"more than {seconds} s")
    assert SECONDS_VARIABLE in found.findings[0].hint


def test_array_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "4 GiB")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert refusal(written(tmp_path, LARGE)).code in ("AOTC-E842", "AOTC-E836")
    assert max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before, 0) < 4 * 2**20


def test_good_file_is_built_by_processes_that_cannot_read_the_key(tmp_path: Path) -> None:
    pair = generate_key_pair(tmp_path / "release", None)
    signer = load_signer(pair.private, None)
    manifest = written(tmp_path, GOOD)
    made = build(manifest, tmp_path / "it.aotb", BuildOptions(signer=signer))
    assert made.attestation is not None
    names = {line.partition(":")[0] for line in made.isolation}
    assert names == {"files", "limits", "network", "privileges"}


WITH_WEIGHTS = """
bind = {{ arg0 = "params" }}
[weights.params]
{weights}
"""


@pytest.mark.parametrize(
    ("weights", "is_kept_apart"),
    [('source = "params.npz"', True), ('source = "params.npz"\ninit = "made:init"', False)],
)
def test_weights_files_hide_the_key(weights: str, is_kept_apart: bool, tmp_path: Path) -> None:
    """An init function runs in the same process, and has all that its user has."""
    (tmp_path / "made.py").write_text(
        "import jax.numpy as jnp\n\ndef init():\n    return {'w': jnp.ones(4)}\n"
    )
    np.savez(tmp_path / "params.npz", w=np.ones(4, np.float32))
    vector = jax.ShapeDtypeStruct((4,), "float32")
    made = export.export(jax.jit(lambda params, x: params["w"] + x))({"w": vector}, vector)
    more = WITH_WEIGHTS.format(weights=weights)
    manifest = written(tmp_path, bytes(made.serialize()), "it.jax", more)
    signer = load_signer(generate_key_pair(tmp_path / "release", None).private, None)
    told = build(manifest, tmp_path / "it.aotb", BuildOptions(signer=signer)).isolation
    assert any("no keys are read" in line for line in told) == is_kept_apart
    assert any("with functions of the manifest" in line for line in told) != is_kept_apart


def test_a_kernel_at_sizes_that_only_callers_choose_is_not_shipped(tmp_path: Path) -> None:
    """Their hosts would fill the sizes in, and nothing there compares them."""
    more = SYMBOLIC.replace("[dimensions.n]", 'out_of_profile = { n = "compile" }\n[dimensions.n]')
    data = bytes(symbolic(lying=False).serialize())
    found = refusal(written(tmp_path, data, "it.jax", more))
    assert (found.code, "sizes" in found.findings[0].expected) == ("AOTC-E844", True)


def test_init_reads_with_build_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []
    run = worker_parent.run

    def watched(worker: Any, job: Any, *more: Any, **named: Any) -> Any:
        jobs.append(job)
        return run(worker, job, *more, **named)

    monkeypatch.setattr(worker_parent, "run", watched)
    monkeypatch.setenv(SECONDS_VARIABLE, "77")
    (tmp_path / "it.mlir").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    made = draft_manifest(Request("it.mlir", None, {}, {}, {}, {}, {}))
    assert made.text
    assert jobs[0].limits is not None
    assert jobs[0].limits.seconds == 77


FRAMEWORK = """#!{python}
import json, pathlib, resource, socket, sys

def tried(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "done"

found = {{
    "key": tried(lambda: open({key!r}).read()),
    "elsewhere": tried(lambda: open({key!r} + ".more", "w").close()),
    "socket": tried(lambda: socket.socket().close()),
    "inside": tried(lambda: open(sys.argv[3] + "/made", "w").close()),
    "memory": resource.getrlimit(resource.RLIMIT_DATA)[0] < 2**34,
}}
pathlib.Path(sys.argv[3], "refused.json").write_text(json.dumps([json.dumps(found)]))
"""


def test_framework_process_is_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow runs operations of a SavedModel while it loads it, which may write files."""
    monkeypatch.setenv(MEMORY_VARIABLE, "1 GiB")
    key = tmp_path / "release.key"
    key.write_text("secret")
    monkeypatch.setattr(confined_process, "_secrets", {str(key)})
    python = tmp_path / "python"
    python.write_text(FRAMEWORK.format(python=sys.executable, key=str(key)))
    python.chmod(0o755)
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"")
    caught = error_of(CaptureError, import_signature, saved, python, None, [{}], None)
    found = json.loads(caught.findings[0].found)
    limited = {name: found[name] for name in ("socket", "inside", "memory")}
    assert limited == {"socket": "PermissionError", "inside": "done", "memory": True}
    if found["elsewhere"] == "done":
        pytest.skip("no Landlock here")
    assert found["key"] == found["elsewhere"] == "PermissionError"


def test_endless_framework_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS_VARIABLE, "1")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"")
    with pytest.raises(CaptureError, match="more than 1 s") as caught:
        import_signature(saved, python, None, [{}], None)
    assert caught.value.code == "AOTC-E843"
