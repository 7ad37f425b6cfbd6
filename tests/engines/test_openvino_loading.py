"""Loading with OpenVINO: all of its compiling happens then, in float32, without messages."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Once
from tests.engines.conftest import ENGINES
from tests.engines.sums import SCORES, served
from tests.running import printed

CALLS = """
import json, sys
import numpy as np
import aotc_runtime
from aotc_runtime.engines.openvino import openvino_engine as engine

bundle, policy = sys.argv[1:]
image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load(bundle, trust=policy) as loaded:
    device = engine.start("openvino")
    device._core = None  # nothing can be read or compiled from here on
    predict, step = loaded["predict"], loaded["step"]
    state, total = step.on_device(np.zeros(5, np.float32), np.int32(1))
    state, total = step(state, np.int32(3))
    print(json.dumps({
        "scores": [predict(image[:size])["scores"].tolist() for size in (1, 2, 4)],
        "state": state.tolist(),
    }))
"""


@pytest.fixture(scope="session")
def sums(once: Once) -> Path:
    return ENGINES[2].sums(once)


def test_nothing_is_compiled_once_a_bundle_is_ready(sums: Path) -> None:
    answer = json.loads(printed(CALLS, sums / "sums.aotb", sums / "trust.toml"))
    for size, scores in zip((1, 2, 4), answer["scores"], strict=True):
        np.testing.assert_allclose(scores, SCORES[:size], atol=1e-5)
    assert answer["state"] == [0, 1, 0, 1, 0]


def test_the_part_that_sends_messages_is_not_imported(sums: Path) -> None:
    modules = served(sums, 0)["modules"]
    assert "openvino" in modules
    assert not [name for name in modules if "telemetry" in name or "tools.ovc" in name]


def test_float32_is_computed_in_float32() -> None:
    from aotc_runtime.engines.openvino.openvino_compilation import PROPERTIES
    from aotc_runtime.engines.openvino.openvino_engine import package

    openvino = package()
    number = openvino.opset15.parameter([8, 8], np.float32)
    model = openvino.Model([openvino.opset15.matmul(number, number, False, False)], [number], "m")
    compiled = openvino.Core().compile_model(model, "CPU", PROPERTIES)
    assert compiled.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32
    assert compiled.get_property("EXECUTION_MODE_HINT").name == "ACCURACY"


def test_of_what_openvino_says_the_last_line_is_told_or_else_its_kind() -> None:
    from aotc_runtime.engines.openvino.openvino_compilation import last_line

    assert last_line(RuntimeError("in a source:1\n\n  what it is \n\n")) == "what it is"
    assert last_line(RuntimeError("\n")) == "RuntimeError"
