"""Calls outside of the profiles, from the build manifest to the server, against exact numbers."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from hostile.tampering import in_memory, take_apart
from hypothesis import given, settings
from hypothesis import strategies as st
from shape_programs import MANIFEST, PROGRAM, compiling, rewritten
from small_programs import build_signed

import aotc_runtime
from aotc_runtime import AotcError, DeviceArray, LoadedBundle, ResourceError, ShapeError
from aotc_runtime.schema.bundle_manifest import Symbolic, WeightArgument
from aotc_runtime.serving.routing import fallback_calls, padded_arrays
from aotc_runtime.system import host_probe
from tests.conftest import Bundle, Once, manifest_of
from tests.refusals import error_of
from tests.running import printed

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def built(once: Once) -> Bundle:
    folder = once("shapes", lambda folder: build_signed(folder, "shapes", PROGRAM, MANIFEST))
    return folder / "shapes.aotb", folder / "trust.toml"


@pytest.fixture
def bundle(built: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(built[0], trust=built[1]) as bundle:
        yield bundle


@pytest.fixture(scope="module")
def shared(built: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(built[0], trust=built[1]) as bundle:
        yield bundle


def rows(batch: int, seed: int = 0) -> tuple[Array, Array]:
    x, y = np.random.default_rng(seed).normal(size=(2, batch, 4)).astype(np.float32)
    return x, y


def tokens(batch: int, seq: int) -> Array:
    return np.random.default_rng(batch + seq).integers(0, 255, (batch, seq)).astype(np.int32)


def encoded(given: Array) -> tuple[Array, Array]:
    """Return what the encoder computes, in double precision."""
    powers = np.exp(np.sin(given.astype(np.float64)))
    weights = powers / powers.sum(axis=1, keepdims=True)
    return weights, (weights * given).sum(axis=1) / given.shape[1]


def check_rows(result: Any, x: Array, y: Array) -> None:
    np.testing.assert_array_equal(np.asarray(result["sum"]), x + y)
    np.testing.assert_allclose(np.asarray(result["total"]), x.sum(axis=1), rtol=1e-4, atol=1e-5)


def check_encoded(result: Any, given: Array) -> None:
    for found, wanted in zip(result, encoded(given), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-6)


def refused(call: Callable[..., Any], *arguments: Any) -> AotcError:
    return error_of(AotcError, call, *arguments)


def bundle_manifest(bundle: Path) -> dict[str, Any]:
    """The manifest in a bundle, as JSON."""
    return take_apart(in_memory(bundle)).manifest


def report(bundle: LoadedBundle, name: str) -> dict[str, Any]:
    return json.loads(json.dumps(bundle.report()))["entry_points"][name]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(0, 9))
def test_padded_call_is_exact_without_nan(shared: LoadedBundle, batch: int, seed: int) -> None:
    x, y = rows(batch, seed)
    for result in (shared["padded"](x, y), shared["padded"].on_device(x, y)):
        check_rows(result, x, y)
    assert {type(array) for array in shared["padded"](x, y).values()} == {np.ndarray}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.integers(0, 9))
def test_a_split_call_is_the_exact_function(shared: LoadedBundle, half: int, seed: int) -> None:
    x, y = rows(2 * half, seed)
    check_rows(shared["split"](x, y), x, y)
    check_rows(shared["split"].on_device(x, y), x, y)


@pytest.mark.parametrize("sizes", [(2, 8), (8, 16), (2, 2), (8, 10), (10, 6), (26, 14)])
def test_masks_and_lengths_are_supplied(sizes: tuple[int, int], bundle: LoadedBundle) -> None:
    given = tokens(*sizes)
    assert list(bundle["encode"].signature.parameters) == ["tokens"]
    check_encoded(bundle["encode"](given), given)
    check_encoded(bundle["encode"](tokens=given), given)
    check_encoded(bundle["encode"].on_device(given), given)


def test_a_caller_cannot_pass_what_the_loader_passes(bundle: LoadedBundle) -> None:
    given = tokens(2, 8)
    assert refused(bundle["encode"], given, given > 0, np.int32(8)).code == "AOTC-E601"
    for name in ("mask", "length"):
        caught = error_of(AotcError, bundle["encode"], given, **{name: given > 0})
        assert caught.findings[0].hint.startswith(f"leave out {name}, which the loader passes")


def test_leaks_show_that_padding_has_its_fill(built: Bundle, tmp_path: Path) -> None:
    pad = {"policy": "pad", "fill": {"x": "inf"}, "mask": "", "length": "", "proof": []}

    def change(documents: Any) -> None:
        documents.manifest["entry_points"]["leaky"]["out_of_profile"] = {"batch": pad}

    path, trust = rewritten(built[0], tmp_path, change)
    with aotc_runtime.load(path, trust=trust) as bundle:
        assert np.isneginf(bundle["leaky"](rows(3)[0])).all()
        assert np.isfinite(bundle["leaky"](rows(8)[0])).all()


@pytest.mark.parametrize("name", ["padded", "split"])
def test_results_own_their_memory_and_arguments_may_change(name: str, bundle: LoadedBundle) -> None:
    x, y = rows(6)
    result = bundle[name](x, y)
    again = bundle[name](*rows(6, seed=1))
    x[:] = 0
    check_rows(result, *rows(6))
    assert not any(array.flags.writeable for array in result.values())
    assert not np.shares_memory(result["sum"], again["sum"])


@pytest.mark.parametrize("name", ["padded", "split"])
def test_jax_arrays_give_jax_arrays_outside_profiles(name: str, bundle: LoadedBundle) -> None:
    x, y = rows(6)
    result = bundle[name](jnp.asarray(x), y)
    assert all(isinstance(array, jax.Array) for array in result.values())
    check_rows(result, x, y)


@pytest.mark.parametrize("name", ["padded", "split"])
def test_device_arrays_are_taken_and_given(name: str, bundle: LoadedBundle) -> None:
    x, y = rows(6)
    first = bundle[name].on_device(x, y)
    assert isinstance(first["sum"], DeviceArray) and first["sum"].shape == (6, 4)
    check_rows(bundle[name](first["sum"], y), x + y, y)
    check_rows(bundle[name](first["sum"], y), x + y, y)


@pytest.mark.parametrize("batch", [3, 8])
def test_donated_arrays_are_used_up_padded_or_not(batch: int, bundle: LoadedBundle) -> None:
    x = rows(batch)[0]
    state: Any = {"count": np.int32(0), "rows": np.zeros((batch, 4), np.float32)}
    first, _ = bundle["step"].on_device(state, x)
    second, _ = bundle["step"].on_device(first, x)
    np.testing.assert_array_equal(np.asarray(second["rows"]), 2 * x)
    assert int(np.asarray(second["count"])) == 2
    for array in (first["count"], first["rows"]):
        assert refused(np.asarray, array).code == "AOTC-E631"
    third, _ = bundle["step"](second, x)
    assert refused(np.asarray, second["rows"]).code == "AOTC-E631"
    np.testing.assert_array_equal(third["rows"], 3 * x)


@pytest.mark.parametrize("name", ["padded", "split"])
def test_used_up_arrays_are_refused_without_donation(name: str, bundle: LoadedBundle) -> None:
    x, y = rows(6)
    state: Any = {"count": np.int32(0), "rows": np.zeros((6, 4), np.float32)}
    first, _ = bundle["step"].on_device(state, x)
    bundle["step"].on_device(first, x)
    for call in (bundle[name], bundle[name].on_device):
        assert refused(call, first["rows"], y).code == "AOTC-E631"


def test_donated_array_is_returned_when_padded_call_fails(bundle: LoadedBundle) -> None:
    x = rows(3)[0]
    state: Any = {"count": np.int32(0), "rows": np.zeros((3, 4), np.float32)}
    first, _ = bundle["step"].on_device(state, x)
    first["count"].buffer().delete()
    assert refused(bundle["step"], first, x).code == "AOTC-E755"
    assert not first["rows"].is_deleted


def test_padding_oom_gives_back(bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(3)[0]
    state: Any = {"count": np.int32(0), "rows": np.zeros((3, 4), np.float32)}
    first, _ = bundle["step"].on_device(state, x)

    def no_memory(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(padded_arrays.np, "empty", no_memory)
        error = refused(bundle["step"], first, x)
    assert isinstance(error, ResourceError) and error.code == "AOTC-E553"
    result, _ = bundle["step"](first, x)
    np.testing.assert_array_equal(result["rows"], 2 * x)


@pytest.mark.parametrize("batch", [8, 5])
def test_each_argument_is_checked_outside_profiles(batch: int, bundle: LoadedBundle) -> None:
    x, y = rows(batch)
    for wrong, code in (
        (x.astype(np.float64), "AOTC-E606"),
        (x.view(np.int32), "AOTC-E606"),
        (x.tolist(), "AOTC-E605"),
        (x[1:], "AOTC-E612"),
    ):
        for arguments in ((wrong, y), (x, wrong)):
            assert refused(bundle["padded"], *arguments).code == code
    check_rows(bundle["padded"](x.astype(">f4"), np.asfortranarray(y)), x, y)
    assert sum(bundle["padded"].refusals.values()) == 8


@pytest.mark.parametrize(
    ("name", "shape", "code", "rule"),
    [
        ("encode", (3, 8), "AOTC-E616", "batch in calls of 2 and 8"),
        ("encode", (2, 18), "AOTC-E611", "split for batch, pad for seq"),
        ("encode", (2, 7), "AOTC-E613", "a multiple of 2"),
        ("encode", (102, 2), "AOTC-E613", "1 to 100"),
        ("encode", (50, 16), "AOTC-E613", "batch*seq <= 500"),
        ("encode", (8,), "AOTC-E612", "int32[batch, seq]"),
        ("leaky", (3, 4), "AOTC-E611", "fail for batch"),
        ("leaky", (0, 4), "AOTC-E613", "1 to 100"),
    ],
)
def test_a_refusal_names_the_rule(
    name: str, shape: tuple[int, ...], code: str, rule: str, bundle: LoadedBundle
) -> None:
    dtype = np.int32 if name == "encode" else np.float32
    error = refused(bundle[name], np.zeros(shape, dtype))
    assert error.code == code and rule in error.findings[0].expected
    assert bundle[name].refusals == {code: 1}


def test_the_report_tells_paths_padding_parts_and_shapes(bundle: LoadedBundle) -> None:
    for batch, seq in ((2, 8), (2, 8), (2, 6), (2, 6), (2, 6), (10, 8), (10, 6)):
        bundle["encode"](tokens(batch, seq))
    refused(bundle["encode"], tokens(3, 8))
    found = report(bundle, "encode")
    paths = {
        path: {label: each["calls"] for label, each in labels.items() if each["calls"]}
        for path, labels in found["paths"].items()
    }
    assert paths == {
        "exact": {"encode[batch=2,seq=8]": 2},
        "range": {},
        "pad": {"encode[batch=2,seq=8]": 3},
        "split": {"encode[batch=8,seq=8]": 2},
        "compiled": {},
    }
    assert sum(found["calls"].values()) == 7
    assert found["padding"]["calls"] == 4
    assert found["padding"]["elements"] == 3 * 12 + 60
    assert found["padding"]["filled"] == 3 * 4 + 20
    assert found["padding"]["overhead"] == pytest.approx(1 / 3)
    flops = bundle.manifest.entry_points["encode"].profiles
    cost = {
        profile.sizes["batch"]: profile.cost.flops for profile in flops if profile.sizes["seq"] == 8
    }
    assert found["padding"]["flops"] == 4 * (cost[2] // 4) + cost[8] // 4
    assert found["splits"] == {"calls": 2, "parts": 4}
    assert found["refusals"] == {"AOTC-E616": 1} and found["compiles"] is None
    assert {
        (each["sizes"]["batch"], each["sizes"]["seq"], each["count"]) for each in found["shapes"]
    } == {(2, 6, 3), (2, 8, 2), (3, 8, 1), (10, 6, 1), (10, 8, 1)}
    assert found["shapes_dropped"] == 0


def test_sixteen_threads_with_mixed_sizes_get_their_own_results(bundle: LoadedBundle) -> None:
    sizes = [(2, 8), (2, 6), (8, 16), (8, 12), (10, 8), (18, 14), (26, 4), (16, 16)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(12):
                given = tokens(*sizes[(number + turn) % len(sizes)])
                check_encoded(bundle["encode"](given), given)
                x, y = rows(1 + (number + turn) % 8, seed=number)
                check_rows(bundle["padded"](x, y), x, y)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    assert sum(bundle["encode"].calls.values()) == sum(bundle["padded"].calls.values()) == 16 * 12


def test_oldest_shapes_are_dropped(bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback_calls, "REMEMBERED_MAX", 2)
    calls = bundle["padded"]._checked_calls().fallback()
    found = [calls.find(((batch, 4), (batch, 4))) for batch in (3, 4, 5)]
    assert [shapes[0][0] for shapes in calls._calls] == [4, 5]
    assert calls.find(((4, 4), (4, 4))) is found[1], "the same one, not made anew"
    assert calls.find(((3, 4), (3, 4))) is not found[0]


def test_sizes_that_the_shapes_do_not_tell_are_served_by_no_profile(bundle: LoadedBundle) -> None:
    call = bundle["padded"]
    resident = call._resident
    assert resident is not None
    inputs = tuple(msgspec.structs.replace(t, shape=("batch*seq", 4)) for t in resident.spec.inputs)
    spec = msgspec.structs.replace(resident.spec, inputs=inputs, dimensions=("batch", "seq"))
    found = fallback_calls.FallbackCalls(
        msgspec.structs.replace(resident, spec=spec),
        call._checked_calls()._exact,
        call._table,
        call._checked_calls().execution,
        call.metrics,
    )
    assert refused(found.find, ((6, 4), (6, 4))).code == "AOTC-E611"


def test_only_dimension_with_policy_is_compiled(built: Bundle, tmp_path: Path) -> None:
    def change(documents: Any) -> None:
        compiling("encode")(documents)
        policies = documents.manifest["entry_points"]["encode"]["out_of_profile"]
        policies["seq"] = pads

    manifest = bundle_manifest(built[0])
    pads = manifest["entry_points"]["encode"]["out_of_profile"]["seq"]
    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle:
        check_encoded(bundle["encode"](tokens(2, 6)), tokens(2, 6))
        assert list(report(bundle, "encode")["paths"]["pad"]) == ["encode[batch=2,seq=8]"]
        compiler = bundle["encode"]._checked_calls().fallback().compiler
        assert compiler is not None and compiler.report()["waiting"] == []
    assert compiler._compile is None, "and with the bundle, the module and its weights are closed"


def until_compiled(call: Callable[..., Any], *arguments: Any) -> Any:
    """The first result that is not refused because it is being compiled."""
    for _ in range(1000):
        try:
            return call(*arguments)
        except ShapeError as error:
            assert error.code == "AOTC-E614"
        time.sleep(0.01)
    raise AssertionError("never compiled")


def test_sizes_are_compiled_beside_calls(built: Bundle, tmp_path: Path) -> None:
    path, trust = rewritten(built[0], tmp_path, compiling("later"), furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle:
        assert refused(bundle["later"], *rows(5)).code == "AOTC-E614", "the call does not wait"
        check_rows(until_compiled(bundle["later"], *rows(5)), *rows(5))
        check_rows(bundle["later"].on_device(*rows(5)), *rows(5))
        check_rows(bundle["later"](*rows(8)), *rows(8))
        for batch in (6, 7):
            check_rows(until_compiled(bundle["later"], *rows(batch)), *rows(batch))
        found = report(bundle, "later")
        assert found["paths"]["compiled"]["later[compiled]"]["calls"] == 4
        compiles = found["compiles"]
        assert [each["sizes"]["batch"] for each in compiles["ready"]] == [6, 7], "most = 2"
        assert (compiles["compiled"], compiles["evicted"]) == (3, 1)
        assert compiles["seconds"] > 0 and compiles["failed"] == []
        assert bundle.report()["compilations"] == 0, "nothing was compiled to become ready"
        with aotc_runtime.load(path, trust=trust) as other:
            assert other.report()["compilations"] == 0


def test_calls_are_padded_until_compiled(built: Bundle, tmp_path: Path) -> None:
    pad = {"policy": "pad", "fill": {}, "mask": "", "length": "", "proof": []}
    change = compiling("later", meanwhile=pad)
    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle:
        while not report(bundle, "later")["paths"]["compiled"]:
            check_rows(bundle["later"](*rows(5)), *rows(5))
        assert report(bundle, "later")["paths"]["pad"]["later[batch=8]"]["calls"] >= 1
        assert bundle["later"].refusals == {}


def test_failed_compilation_leaves_bundle_usable(built: Bundle, tmp_path: Path) -> None:
    def change(documents: Any) -> None:
        from shape_programs import add_symbolic

        compiling("later")(documents)
        digest = documents.manifest["entry_points"]["later"]["symbolic"]["module"]["digest"]
        documents.image["layers"] = [
            layer for layer in documents.image["layers"] if layer["digest"] != digest
        ]
        del documents.layers[digest]
        add_symbolic(documents, "later", b"ML\xefRno module")

    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle:
        for _ in range(1000):
            error = refused(bundle["later"], *rows(5))
            if error.code == "AOTC-E615":
                break
            time.sleep(0.01)
        assert error.code == "AOTC-E615"
        assert report(bundle, "later")["compiles"]["failed"][0]["sizes"] == {"batch": 5}
        check_rows(bundle["later"](*rows(8)), *rows(8))


def reason(bundle: LoadedBundle, name: str, *arguments: Any) -> str:
    """Return why a size was not compiled."""
    for _ in range(1000):
        error = refused(bundle[name], *arguments)
        if error.code == "AOTC-E615":
            return error.findings[0].found
        assert error.code == "AOTC-E614"
        time.sleep(0.01)
    raise AssertionError("never compiled")


def test_wrong_compiled_module_serves_no_call(built: Bundle, tmp_path: Path) -> None:
    def other(x: Any, y: Any) -> dict[str, Any]:
        return {"sum": x + y, "total": x.sum(axis=1) + 1}

    change = compiling("later", other)
    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle:
        found = reason(bundle, "later", *rows(5))
        assert found.startswith("another result for fixture later[batch=2]: ")
        check_rows(bundle["later"](*rows(8)), *rows(8))
        assert report(bundle, "later")["compiles"]["compiled"] == 0


def test_oom_call_is_failed(built: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, trust = rewritten(built[0], tmp_path, compiling("later"), furthest_fallback="compile")
    with aotc_runtime.load(path, trust=trust) as bundle, monkeypatch.context() as patched:
        # Two inputs, a result as large, and one of a number for each row.
        needed = 5 * (3 * 4 + 1) * 4
        patched.setattr(host_probe, "free_memory", lambda: needed - 1)
        found = reason(bundle, "later", *rows(5))
        assert found.startswith(f"{needed - 1} bytes of free memory, ")
        assert int(found.split()[5]) >= needed


WITHOUT_JAX = """
import sys, time
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
x = np.ones((5, 4), np.float32)
assert "aotc_runtime.serving.routing.fallback_calls" in sys.modules
assert (bundle["padded"](x, x)["sum"] == 2).all()
for _ in range(1000):
    try:
        result = bundle["later"](x, x)
        break
    except aotc_runtime.ShapeError:
        time.sleep(0.01)
assert (result["total"] == 4).all()
assert "jax" not in sys.modules
"""


def test_all_of_it_works_without_jax(built: Bundle, tmp_path: Path) -> None:
    change = compiling("later")
    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    printed(WITHOUT_JAX, path, trust)


ENDS_WHILE_COMPILING = """
import sys
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
for batch in (5, 6):
    try:
        bundle["later"](*np.ones((2, batch, 4), np.float32))
    except aotc_runtime.ShapeError as error:
        print(error.code)
"""


def test_process_may_end_while_compiling(built: Bundle, tmp_path: Path) -> None:
    change = compiling("later")
    path, trust = rewritten(built[0], tmp_path, change, furthest_fallback="compile")
    assert printed(ENDS_WHILE_COMPILING, path, trust).split() == ["AOTC-E614"] * 2


SYMBOLIC = manifest_of("""\
name = "symbolic"

[dimensions.batch]
range = [1, 64]
profiles = [4]

[entry_points.logits]
function = "program:logits"
inputs.unread = { shape = ["batch"], dtype = "float32" }
inputs.x = { shape = ["batch", 3], dtype = "float32" }
out_of_profile.batch = "compile"
""")

LOGITS = """\
import jax
import jax.numpy as jnp
import numpy as np

KERNEL = jnp.asarray(np.linspace(-1, 1, 7200, dtype="float32").reshape(3, 2400))


def logits(unread, x):
    # In a loop, where jax would keep it if it could.
    none = jnp.zeros((x.shape[0], 2400))
    return jax.lax.fori_loop(0, 1, lambda _, found: found + x @ KERNEL, none)
"""


def test_compiled_module_uses_the_weights_of_the_bundle(tmp_path: Path) -> None:
    path, trust = build_signed(tmp_path, "symbolic", LOGITS, SYMBOLIC)
    allowed = 'furthest_fallback = "compile"\n\n[[keys]]'
    trust.write_text(trust.read_text().replace("\n[[keys]]", f"\n{allowed}", 1))
    kernel = np.linspace(-1, 1, 7200, dtype=np.float32).reshape(3, 2400)
    with aotc_runtime.load(path, trust=trust) as bundle:
        symbolic = bundle.manifest.entry_points["logits"].symbolic
        assert isinstance(symbolic, Symbolic)
        lifted = [a for a in symbolic.arguments if isinstance(a, WeightArgument)]
        assert [each.set for each in lifted] == ["closure"], "no second copy in the module"
        assert symbolic.module.size < kernel.nbytes
        for batch in (4, 7):
            x = np.random.default_rng(batch).normal(size=(batch, 3)).astype(np.float32)
            result = until_compiled(bundle["logits"], x[:, 0].copy(), x)
            np.testing.assert_allclose(result, x @ kernel, rtol=1e-5, atol=1e-6)
        assert report(bundle, "logits")["paths"]["compiled"]["logits[compiled]"]["calls"] == 1
