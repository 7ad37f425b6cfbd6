"""Calls in processes of their own: without jax, with jax imported before, and with jax after."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.conftest import Bundle

LOAD = """
import sys
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
predict = bundle["predict"]
image = np.random.default_rng(0).uniform(0, 16, (8, 64)).astype(np.float32)

def code_of(call, *args):
    try:
        call(*args)
    except aotc_runtime.AotcError as error:
        return error.code
    return None

def same(one, two):
    for name in two:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(two[name]))

expected = {name: np.array(array) for name, array in predict.on_device(image).items()}
"""


def run(bundle: Bundle, program: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, bundle)],
        capture_output=True,
        text=True,
        env={**environment, "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_direct_calls_give_what_the_long_way_gives_and_alias_nothing(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        LOAD
        + """
assert all(served.direct is not None for served in predict._table.values())
same(predict(image), expected)
same(predict.on_device(image), expected)
unaligned = np.frombuffer(b"." + image.tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 64)
for array in (np.asfortranarray(image), image[::-1][::-1], image.astype(">f4"), unaligned,
              image.view(np.matrix)):
    same(predict(array), expected)
frozen = image.copy()
frozen.flags.writeable = False
same(predict(frozen), expected)
for wrong, code in ((image.astype(np.float64), "AOTC-E606"), (image.astype(np.int32), "AOTC-E606"),
                    (image[:7], "AOTC-E611"), (image.tolist(), "AOTC-E605"), (None, "AOTC-E605")):
    assert code_of(predict, wrong) == code, (code_of(predict, wrong), code)
assert code_of(predict) == code_of(predict, image, image) == "AOTC-E601"
assert sum(predict.refusals.values()) == 7

argument = image.copy()
first = predict(argument)
argument[:] = -1
second = predict(np.ascontiguousarray(image[::-1]))
same(first, expected)
assert not np.array_equal(second["probabilities"], first["probabilities"])
same(predict(predict_input := image), expected)
assert not first["probabilities"].flags.writeable
bundle.close()
same(first, expected)
assert code_of(predict, image) == "AOTC-E633"
assert "jax" not in sys.modules
""",
    )


def test_each_of_several_arguments_is_checked_before_a_direct_call(gp_bundle: Bundle) -> None:
    run(
        gp_bundle,
        LOAD.partition("predict =")[0]
        + "def code_of"
        + LOAD.partition("def code_of")[2].partition("def same")[0]
        + """
fit = bundle["fit"]
(served, *_) = fit._table.values()
assert served.direct is not None and len(served.executable.inputs) == 2
x, y = (np.ones(aval.shape, aval.dtype) for aval in served.executable.inputs)
for wrong, code in (
    (lambda a: a.astype(np.float32), "AOTC-E606"),
    (lambda a: a.view(np.int64), "AOTC-E606"),
    (lambda a: a.tolist(), "AOTC-E605"),
    (lambda a: np.ma.masked_array(a, mask=True), "AOTC-E605"),
):
    assert code_of(fit, wrong(x), y) == code_of(fit, x, wrong(y)) == code
assert code_of(fit, x) == code_of(fit, x, y, y) == "AOTC-E601"
assert code_of(fit, x, y) is None and code_of(fit, x.astype(">f8"), y) is None
assert "jax" not in sys.modules
""",
    )


def test_results_that_jax_would_narrow_stay_numpy_arrays(gp_bundle: Bundle) -> None:
    run(
        gp_bundle,
        """
import sys
import jax
import jax.numpy as jnp
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
x, y = (np.ones(shape) for shape in bundle["fit"].spec.profiles[0].input_shapes)
queries = np.ones(bundle["sample"].spec.profiles[0].input_shapes[-2])
key = jnp.zeros(2, jnp.uint32)
results = jax.tree.leaves(bundle["sample"](bundle["fit"](x, y), queries, key))
assert results
for found in results:
    assert type(found) is np.ndarray and found.dtype == np.float64, type(found)
""",
    )


def test_process_that_imports_jax_later_gets_jax_arrays(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        LOAD
        + """
same(predict(image), expected)
import jax
import jax.numpy as jnp
assert float(jax.jit(lambda x: x + 1)(jnp.float32(1))) == 2
result = predict(image)
same(result, expected)
assert type(result["label"]) is np.ndarray
result = predict(jnp.asarray(image))
same(result, expected)
assert all(isinstance(leaf, jax.Array) for leaf in result.values())
assert code_of(predict, image.astype(np.float64)) == "AOTC-E606"
same({"label": jnp.from_dlpack(predict.on_device(image)["label"])}, {"label": expected["label"]})
same(predict(image), expected)
""",
    )


@pytest.mark.parametrize("x64", ["False", "True"])
def test_process_with_jax_is_served_alike(x64: str, digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        f"""
import jax
import jax.numpy as jnp
jax.config.update("jax_enable_x64", {x64})
assert float(jax.jit(lambda x: x + 1)(jnp.float32(1))) == 2
"""
        + LOAD
        + """
same(predict(image), expected)
same(predict(jnp.asarray(image)), expected)
assert isinstance(predict(jnp.asarray(image))["label"], jax.Array)
assert code_of(predict, image.astype(np.float64)) == "AOTC-E606"
with jax.disable_jit():
    same(predict(image), expected)
assert bundle.report()["compilations"] == 0
""",
    )


def test_the_first_load_decides_how_many_threads_xla_has(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        """
import os
import sys
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=3)
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
assert sum("XLAEigen" in name for name in names) == 3, names
assert bundle.report()["threads"] == 3
assert "PJRT_NPROC" not in os.environ
aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=3)
for threads in (2, 0, -1):
    try:
        aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=threads)
    except aotc_runtime.ResourceError as error:
        assert error.code == "AOTC-E552"
    else:
        raise AssertionError(threads)
""",
    )


def test_a_pre_forking_server_loads_in_its_workers(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        """
import os
import sys
import numpy as np
import aotc_runtime

workers = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2], threads=1)
        label = bundle["predict"](np.zeros((8, 64), np.float32))["label"]
        os._exit(0 if label.shape == (8,) else 1)
    workers.append(pid)
statuses = [os.waitpid(pid, 0)[1] for pid in workers]
assert statuses == [0, 0, 0], statuses

bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
pid = os.fork()
if pid == 0:
    codes = []
    for use in (lambda: bundle["predict"](np.zeros((8, 64), np.float32)),
                lambda: aotc_runtime.load(sys.argv[1], trust=sys.argv[2])):
        try:
            use()
        except aotc_runtime.BackendError as error:
            codes.append(error.code)
    os._exit(0 if codes == ["AOTC-E754"] * 2 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert bundle["predict"](np.zeros((8, 64), np.float32))["label"].shape == (8,)
""",
    )


def test_first_loads_of_many_threads_at_once_are_all_ready(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        """
import sys
import threading
import aotc_runtime

sys.setswitchinterval(1e-5)
barrier = threading.Barrier(8)
outcomes = []

def work():
    barrier.wait()
    try:
        with aotc_runtime.load(sys.argv[1], trust=sys.argv[2]) as bundle:
            outcomes.append(bundle.state.value)
    except aotc_runtime.AotcError as error:
        outcomes.append(error.code)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert outcomes == ["ready"] * 8, outcomes
""",
    )


def test_bundle_dropped_while_used_is_no_compilation(digits_bundle: Bundle) -> None:
    run(
        digits_bundle,
        """
import sys
import aotc_runtime

def load():
    return aotc_runtime.load(sys.argv[1], trust=sys.argv[2])

held = load()
executables = [served.executable for served in held["predict"]._table.values()]
held.close()
load()
assert load().report()["compilations"] == 0
del executables
""",
    )


VIEWED = """
import gc, sys
import numpy as np
import aotc_runtime
bundle = aotc_runtime.load(sys.argv[1], trust=sys.argv[2])
step, init = bundle["train_step"], bundle["init"]
image = np.random.default_rng(0).uniform(0, 16, (64, 64)).astype(np.float32)
batch = {"image": image, "label": np.zeros(64, np.int32)}

def leaves(tree):
    if isinstance(tree, (np.ndarray, aotc_runtime.DeviceArray)):
        return [tree]
    inside = tree.values() if isinstance(tree, dict) else tree
    return [leaf for each in inside for leaf in leaves(each)]

expected = leaves(step(init(0), batch)[0])

def use_up_under(from_dlpack, call):
    state = init.on_device(0)
    arrays = leaves(state)
    values = [np.asarray(array) for array in arrays]
    views = [from_dlpack(array) for array in arrays]
    result = call(state, batch)
    assert all(array.is_deleted for array in arrays)
    for array in arrays:
        try:
            np.asarray(array)
        except aotc_runtime.ShapeError as error:
            assert error.code == "AOTC-E631"
        else:
            raise AssertionError("a donated array was read")
    for found, wanted in zip(leaves(result[0]), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    del state, arrays, array
    gc.collect()
    step(init(0), batch)
    for view, value in zip(views, values, strict=True):
        np.testing.assert_array_equal(np.asarray(view), value)

CALLS = (step, step.on_device)
"""


def test_dlpack_views_outlive_the_calls_that_donate(train_bundle: Bundle) -> None:
    run(
        train_bundle,
        VIEWED
        + """
for call in CALLS:
    use_up_under(np.from_dlpack, call)
import jax.numpy as jnp
for call in CALLS:
    use_up_under(jnp.from_dlpack, call)
""",
    )


def test_views_that_dlpack_gave_outlive_the_bundle(train_bundle: Bundle) -> None:
    run(
        train_bundle,
        VIEWED
        + """
state = init.on_device(0)
arrays = leaves(state)
values = [np.asarray(array) for array in arrays]
views = [np.from_dlpack(array) for array in arrays]
step(state, batch)
bundle.close()
del state, arrays, bundle, step, init, expected
gc.collect()
for view, value in zip(views, values, strict=True):
    np.testing.assert_array_equal(view, value)
""",
    )
