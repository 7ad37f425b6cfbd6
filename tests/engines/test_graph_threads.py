"""Tests of the threads of a graph's call: the calling one, or a pool."""

import json
from pathlib import Path

import numpy as np
import pytest

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Module
from aotc.compile.target_files import builtin_folder
from aotc.engines.onnx_graphs.graph_compiler import GraphBackend
from aotc.engines.onnxruntime.onnxruntime_kind import OnnxKind
from aotc.engines.openvino.openvino_kind import OpenvinoKind
from tests.engines.conftest import ENGINES, Other
from tests.engines.sums import SCORES, make, write
from tests.refusals import error_of
from tests.running import printed
from tests.unit.commands.tune.test_tuning_variants import HOST

SERVER = """
import json, os, sys
import numpy as np
import aotc_runtime

bundle, policy = sys.argv[1:]
image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load(bundle, trust=policy, threads=3) as loaded:
    scores = loaded["predict"](image)["scores"].tolist()
    print(json.dumps([scores, len(os.listdir("/proc/self/task"))]))
"""

GRAPHS = [each for each in ENGINES if each.name in ("onnxruntime", "openvino")]


def bundle(other: Other, threads: str, folder: Path) -> Path:
    """A folder with a bundle whose target states who computes a call."""
    manifest = write(folder, other.listed, targets='"stated"')
    (folder / "targets").mkdir()
    text = (builtin_folder() / "cpu-x86-64-v3.toml").read_text()
    text = text.replace('name = "cpu-x86-64-v3"', 'name = "stated"')
    option = f'\n[options]\n{other.name}-threads = "{threads}"\n'
    (folder / "targets" / "stated.toml").write_text(text + option)
    make(folder, manifest)
    return folder


@pytest.mark.parametrize("other", [each.as_param() for each in GRAPHS])
def test_a_target_states_who_computes_a_call(other: Other, tmp_path: Path) -> None:
    counts = {}
    kind = OnnxKind if other.name == "onnxruntime" else OpenvinoKind
    for threads in kind.engine.threads:
        folder = bundle(other, threads, tmp_path / threads)
        said = printed(SERVER, folder / "sums.aotb", folder / "trust.toml")
        scores, counts[threads] = json.loads(said)
        np.testing.assert_allclose(scores, SCORES, atol=1e-5)
    if other.name == "onnxruntime":  # each executable has a pool of its own
        assert counts["calling"] + 2 * 3 <= counts["pool"] == counts["spinning"]


@pytest.mark.parametrize("kind", [OnnxKind, OpenvinoKind])
def test_unknown_engine_option_is_rejected_early(kind: type[OnnxKind | OpenvinoKind]) -> None:
    backend = GraphBackend(kind.engine, ["false"])
    option = f"{backend.platform}-threads"
    job = CompileJob("f", Module(b"", "", "", ()), HOST, options={option: "many"})
    (finding,) = error_of(CompileError, backend.compile, job).findings
    assert (finding.code, finding.found) == ("AOTC-E908", f"{option} = many")
    assert finding.expected.startswith("one of: calling, pool")
