"""The programs and model files under manifests/, from their manifests to a server without jax."""

import json
import re
from pathlib import Path

import jax_free
import numpy as np
import pytest
from click.testing import CliRunner
from example_programs import EXAMPLES, generated, prompts, require_same
from jax_free import HERE, MANIFESTS, Arrays, Server

import aotc_runtime
from aotc.cli.command_group import cli
from aotc_runtime import LoadedBundle
from lm.model import HEAD_WIDTH, HEADS, LAYERS, MAX_LENGTH
from tests.conftest import Built, Bundle


@pytest.mark.parametrize("name", EXAMPLES)
def test_server_without_jax_answers_as_plain_jax(built: Built, tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    inputs = example.inputs()
    # LAPACK takes as many threads as it would in a server.
    server = Server(HERE.command, {**HERE.environment, "OPENBLAS_NUM_THREADS": ""})
    outputs, report = jax_free.run(example.client, built(name), tmp_path, inputs, server=server)

    require_same(outputs, example.expected(inputs), example)
    for entry_point, expected in example.calls.items():
        served = report["entry_points"][entry_point]["paths"]
        found = {
            path: {label: each["calls"] for label, each in labels.items() if each["calls"]}
            for path, labels in served.items()
        }
        assert {path: calls for path, calls in found.items() if calls} == expected


def watch_the_cache(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Generate, looking at every cache on its way and at every array copied to the host."""
    from aotc_runtime import DeviceArray, ShapeError
    from lm.generate import Functions, generate_greedy

    caches = []
    copied_shapes = []
    copy = DeviceArray.__array__

    def recording_copy(self, dtype=None, copy_=None):  # type: ignore[no-untyped-def]
        copied_shapes.append(self.shape)
        return copy(self, dtype, copy_)

    def recording_decode(cache, token, position):  # type: ignore[no-untyped-def]
        caches.append(cache)
        return bundle["decode"].on_device(cache, token, position)

    DeviceArray.__array__ = recording_copy
    functions = Functions(bundle["prefill"].on_device, recording_decode)
    tokens = generate_greedy(functions, inputs["2x32"], int(inputs["new_tokens"]))
    leaves = [leaf for cache in caches for layer in cache for leaf in layer.values()]
    try:
        np.asarray(leaves[0])
        code = "still there"
    except ShapeError as error:
        code = error.code
    return {
        "tokens": tokens,
        "on_device": np.array([type(leaf) is DeviceArray for leaf in leaves]),
        "used_up": np.array([leaf.is_deleted for leaf in leaves]),
        "cache_shapes": np.array([leaf.shape for leaf in leaves]),
        "copied_ranks": np.array([len(shape) for shape in copied_shapes]),
        "code": np.array(code),
    }


def test_cache_stays_on_device_and_is_used_up(built: Built, tmp_path: Path) -> None:
    outputs, _ = jax_free.run(watch_the_cache, built("lm"), tmp_path, prompts())

    np.testing.assert_array_equal(outputs["tokens"], generated(prompts())["2x32"])
    assert len(outputs["on_device"]) == 7 * LAYERS * 2
    assert outputs["on_device"].all()
    assert outputs["used_up"].all()
    assert (outputs["cache_shapes"] == (2, MAX_LENGTH, HEADS, HEAD_WIDTH)).all()
    # The logits of each step, [batch, VOCABULARY], and the attempt on the used-up cache.
    assert outputs["copied_ranks"].tolist() == [2] * 8 + [4]
    assert outputs["code"] == "AOTC-E631"


def test_bundle_lists_entry_points_that_need_lapack(gp_bundle: Bundle) -> None:
    answer = CliRunner().invoke(cli, ["inspect", str(gp_bundle[0]), "--json"])
    (target,) = json.loads(answer.stdout)["targets"].values()
    needed = {"lapack_dpotrf_ffi", "lapack_dtrsm_ffi"}
    assert set(target["requires"]["custom_call_targets"]) == needed
    for name, called in {"fit": needed, "sample": needed, "predict": {"lapack_dtrsm_ffi"}}.items():
        for profile in target["entry_points"][name]["profiles"]:
            assert set(profile["custom_call_targets"]) == called


# Model files


LARGEST = 100_000
"""Bytes of a model file that is committed."""


@pytest.mark.parametrize(
    ("name", "entry_point", "results"),
    [
        ("smooth", "smooth", {"smooth": "smooth[batch=8]", "rest": "rest[batch=8]"}),
        ("softmax", "softmax", {0: "0"}),
    ],
)
def test_an_example_answers_as_numpy_does(
    built: Built, name: str, entry_point: str, results: dict[str | int, str]
) -> None:
    bundle, policy = built(name)
    (x,) = np.load(MANIFESTS / name / "inputs.npz").values()
    expected = np.load(MANIFESTS / name / "expected.npz")
    loaded = aotc_runtime.load(bundle, trust=policy)
    found = loaded[entry_point](x)
    for key, array in results.items():
        np.testing.assert_allclose(found[key], expected[array], rtol=1e-5, atol=1e-6)
    loaded.close()


def test_committed_model_files_are_small_and_name_no_folder_of_whoever_wrote_them() -> None:
    files = [
        path
        for suffix in ("pt2", "onnx", "jax", "mlir")
        for path in MANIFESTS.glob(f"*/*.{suffix}")
    ]
    assert len(files) == 4
    for path in files:
        data = path.read_bytes()
        assert len(data) < LARGEST
        assert not re.search(rb"/(home|root|work|usr|tmp)/", data), path
