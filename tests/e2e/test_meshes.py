"""Programs over several devices, from their manifests to a server without jax."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax_free
import mesh_programs
import numpy as np
import pytest
from jax_free import Array, Arrays
from small_programs import build_signed

from aotc.pipeline.build import build
from aotc_runtime import LoadedBundle
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from parallel.model import encode, init
from tests.conftest import Bundle, Once
from tests.running import printed


@pytest.fixture(scope="module")
def meshes(once: Once) -> Bundle:
    program, manifest = mesh_programs.PROGRAM, mesh_programs.MANIFEST
    folder = once("meshes", lambda folder: build_signed(folder, "meshes", program, manifest))
    return folder / "meshes.aotb", folder / "trust.toml"


def plain(tokens: Array) -> Arrays:
    """Return what the example gives in plain JAX on one device."""
    mesh = jax.make_mesh((1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        return {name: np.asarray(value) for name, value in jax.jit(encode)(init(), tokens).items()}


def encoded(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """At a profile, padded, and with device arrays that stay spread."""
    tokens, call = inputs["tokens"], bundle["encode"]
    spread = call.on_device(tokens)
    again = call.on_device(spread["encoded"])
    return {
        **call(tokens),
        "padded": call(tokens[:3])["encoded"],
        "again": np.asarray(again["encoded"]),
        "read_only": np.array(not call(tokens)["encoded"].flags.writeable),
    }


def test_four_devices_compute_what_one_does(parallel_bundle: Bundle, tmp_path: Path) -> None:
    tokens = np.random.default_rng(5).uniform(-1, 1, (8, 16, 64)).astype(np.float32)
    outputs, report = jax_free.run(encoded, parallel_bundle, tmp_path, {"tokens": tokens})

    expected = plain(tokens)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs["padded"], expected["encoded"][:3], rtol=1e-4, atol=1e-5)
    twice = plain(expected["encoded"])["encoded"]
    np.testing.assert_allclose(outputs["again"], twice, rtol=1e-3, atol=1e-4)
    assert outputs["read_only"]
    assert report["devices"] == 4
    assert report["mesh"]["axes"] == {"data": 2, "model": 2}
    assert report["mesh"]["devices"] == [0, 1, 2, 3]
    assert report["mesh"]["shardings"]["encode outputs"] == {
        "encoded": "data, -, -",
        "pooled": "data, model",
    }
    assert report["compilations"] == 0


def test_the_executables_of_the_example_talk_to_each_other(parallel_bundle: Bundle) -> None:
    from aotc.bundle.read.bundle_review import review
    from aotc.report.inspect_report import bundle_report

    read = review(open_bundle(parallel_bundle[0]), None, datetime.now(UTC))
    target = bundle_report(read)["targets"]["cpu-x86-64-v3"]
    profiles = target["entry_points"]["encode"]["profiles"]
    assert all(profile["thunks"]["collective"] > 0 for profile in profiles)
    assert all(profile["parity"]["status"] == "ran" for profile in profiles)
    assert target["requires"]["devices"] == target["target"]["devices"] == 4


def test_building_over_a_mesh_again_gives_the_same_bytes(meshes: Bundle, tmp_path: Path) -> None:
    manifest = meshes[0].with_name("manifest.toml")
    again = build(manifest, output=tmp_path / "again.aotb").bundle
    assert again.root_digest == read_root(open_bundle(meshes[0])).entry.digest


def everything(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    """Constants, odd sizes, two axes on one, other dtypes; a state that is fed back; keys."""
    import ml_dtypes

    from aotc_runtime import AotcError

    mixed, step = bundle["mixed"], bundle["step"]
    found = dict(mixed(inputs["x"], inputs["scale"], inputs["half"].view(ml_dtypes.bfloat16)))
    found["half"] = found["half"].astype(np.float32)
    state = {name: inputs[name] for name in ("moment", "value", "count")}
    first = step.on_device(state, inputs["change"])
    other = step.on_device(state, inputs["change"])["value"]
    second = step.on_device(first, other)  # spread in another way than `change`
    codes = []
    for touch in (lambda: np.asarray(first["moment"]), second["value"].__dlpack__):
        try:
            touch()
        except AotcError as error:
            codes.append(error.code)
    found |= {f"state/{name}": np.asarray(array) for name, array in second.items()}
    found["used up"] = np.array(codes)
    parts = step(
        {
            **state,
            "moment": np.tile(state["moment"], (2, 1)),
            "value": np.tile(state["value"], (2, 1)),
        },
        np.tile(inputs["change"], (2, 1)),
    )
    found["split"] = parts["value"]
    found["noise"], found["keys"] = bundle["noise"](inputs["keys"], np.float32(1))
    found["turned"] = bundle["turned"](inputs["x"][:4, :8])
    return found


@pytest.fixture(scope="module")
def numbers() -> Arrays:
    rng = np.random.default_rng(11)

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    half = jnp.asarray(draw(4, 6), jnp.bfloat16)
    return {
        "x": draw(8, 512),
        "scale": np.float32(0.5),
        "half": np.asarray(half).view(np.uint16),
        "moment": draw(4, 64),
        "value": draw(4, 64),
        "count": np.int32(7),
        "change": draw(4, 64),
        "keys": np.asarray(jax.random.key_data(jax.random.split(jax.random.key(1), 4))),
    }


@pytest.fixture(scope="module")
def found(meshes: Bundle, numbers: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    return jax_free.run(everything, meshes, tmp_path_factory.mktemp("run"), numbers).outputs


def test_arrays_shard_over_any_axes(found: Arrays, numbers: Arrays, meshes: Bundle) -> None:
    scope: dict[str, Any] = {}
    exec(mesh_programs.PROGRAM, scope)
    half = jnp.asarray(numbers["half"].view(jnp.bfloat16))
    mesh = jax.make_mesh((1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        mixed = jax.jit(scope["mixed"])(scope["weights"](), numbers["x"], numbers["scale"], half)
    for name, value in mixed.items():
        expected = np.asarray(value.astype(jnp.float32))
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-3, err_msg=name)
    np.testing.assert_array_equal(found["turned"], numbers["x"][:4, :8].T)


def test_donated_state_stays_on_its_devices_and_is_used_up(found: Arrays, numbers: Arrays) -> None:
    moment = np.float32(0.9) * numbers["moment"] + numbers["change"]
    value = numbers["value"] - np.float32(0.1) * moment
    np.testing.assert_allclose(found["split"], np.tile(value, (2, 1)), rtol=1e-5, atol=1e-5)
    moment = np.float32(0.9) * moment + value
    np.testing.assert_allclose(found["state/moment"], moment, rtol=1e-5, atol=1e-5)
    assert found["state/count"] == numbers["count"] + 2
    assert found["used up"].tolist() == ["AOTC-E631", "AOTC-E634"]


def turn(bundle: LoadedBundle, inputs: Arrays) -> Arrays:
    return {"turned": bundle["turned"](inputs["x"])}


def test_a_mesh_of_one_device_is_a_program_on_one_device(tmp_path: Path) -> None:
    head, _, tail = mesh_programs.MANIFEST.partition("[weights.params]")
    manifest = head.replace("= 2", "= 1").replace("= 4", "= 1")
    manifest += "[entry_points.turned]" + tail.partition("[entry_points.turned]")[2]
    bundle = build_signed(tmp_path, "meshes", mesh_programs.PROGRAM, manifest)
    x = np.arange(32, dtype=np.float32).reshape(4, 8)

    outputs, report = jax_free.run(turn, bundle, tmp_path, {"x": x})
    np.testing.assert_array_equal(outputs["turned"], x.T)
    assert report["devices"] == 1
    assert report["mesh"]["axes"] == {"data": 1, "model": 1}


def test_random_keys_are_cut_between_keys(found: Arrays, numbers: Arrays) -> None:
    keys = jax.random.wrap_key_data(jnp.asarray(numbers["keys"]))
    drawn = jax.vmap(lambda key: jax.random.uniform(key, (4,)))(keys) + 1
    np.testing.assert_allclose(found["noise"], np.asarray(drawn), rtol=1e-6)
    np.testing.assert_array_equal(found["keys"], numbers["keys"])


LOADING = """
import json, sys
import aotc_runtime

codes = []
for path, policy, devices in json.loads(sys.argv[1]):
    try:
        bundle = aotc_runtime.load(path, trust=policy, devices=devices)
        codes.append(bundle.report()["devices"])
    except aotc_runtime.AotcError as error:
        codes.append(error.code)
print(json.dumps(codes))
"""


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([("digits", None), ("parallel", None)], [1, "AOTC-E503"]),
        ([("parallel", None), ("digits", None)], [4, 1]),
        ([("digits", 4), ("parallel", None)], [1, 4]),
        ([("parallel", 3)], ["AOTC-E503"]),
        ([("parallel", None), ("parallel", 8)], [4, "AOTC-E555"]),
        ([("digits", 0), ("digits", 4097)], ["AOTC-E555", "AOTC-E555"]),
    ],
    ids=["too late", "fewer", "planned", "too few", "more", "none or endless"],
)
def test_a_process_has_as_many_devices_as_its_first_bundle_wanted(
    loads: list[tuple[str, int | None]],
    expected: list[int | str],
    digits_bundle: Bundle,
    parallel_bundle: Bundle,
) -> None:
    paths = {"digits": digits_bundle, "parallel": parallel_bundle}
    plan = [[*map(str, paths[name]), devices] for name, devices in loads]
    assert json.loads(printed(LOADING, json.dumps(plan))) == expected


UNPLANNED = """
import sys
import time
from pathlib import Path
import aotc_runtime
from aotc_runtime.serving.resident_bundle import make_resident
from aotc_runtime.engines.engine_registry import detect
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.bundle_examination import verify

source, policy = open_bundle(Path(sys.argv[1])), read_policy(Path(sys.argv[2]))
bundle = verify(source, policy, detect(), time.time())
try:
    make_resident(bundle)
except aotc_runtime.AotcError as error:
    print(error.code, error.findings[0].expected)
"""


def test_executables_for_more_devices_than_xla_has_are_rejected(parallel_bundle: Bundle) -> None:
    assert printed(UNPLANNED, *parallel_bundle).strip() == "AOTC-E555 4 devices"
