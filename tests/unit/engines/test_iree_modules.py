"""Input and messages of IREE's compiler, without IREE: tests/engines runs the results."""

import math
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir import ir

from aotc.base.errors import CompileError
from aotc.compile.compile_refusals import require_installed
from aotc.compile.target_files import read_target
from aotc.engines.iree import iree_module_text, repairs
from aotc.engines.iree.iree_compiler import complaint, llvm_features
from aotc.engines.iree.iree_job import COMPILER
from aotc.engines.iree.repairs import angle_repairs, index_repairs
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from tests.unit.engines.lowering import module_of


def parsed(text: str) -> ir.Module:
    with module_of(lambda x: x, jnp.ones(1)).context:
        return ir.Module.parse(text)


PUBLIC = """\
  func.func public @run(%p1_in: tensor<2x4xf32>) -> (tensor<2x3xf32>) \
attributes {iree.reflection = {"aotc.driver" = "local-sync"}} {
    %p0_in = util.global.load @w0 : tensor<4x3xf32>
    %p2_in = util.global.load @w2 : tensor<3xf32>
    %r0 = func.call @main(%p0_in, %p1_in, %p2_in) : \
(tensor<4x3xf32>, tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x3xf32>)
    return %r0 : tensor<2x3xf32>
  }
}
"""


def test_weights_are_parameters_by_their_place_and_inputs_are_passed() -> None:
    module = module_of(lambda w, x, b: x @ w + b, jnp.ones((4, 3)), jnp.ones((2, 4)), jnp.ones(3))
    text = iree_module_text.text_of(module, (0, 2), "local-sync")
    assert '@w0 = #stream.parameter.named<"weights"::"0"> : tensor<4x3xf32>' in text
    assert '@w2 = #stream.parameter.named<"weights"::"2"> : tensor<3xf32>' in text
    assert text.count("func.func public") == 1
    assert text[text.index("  func.func public") :] == PUBLIC


def test_unsigned_integers_have_no_sign_outside() -> None:
    module = module_of(lambda w, x: w + x, jnp.ones(3, jnp.uint32), jnp.uint32(1))
    text = iree_module_text.text_of(module, (0,), "local-task")
    assert "@w0 = " in text and ": tensor<3xi32>" in text
    assert "@run(%p1_in: tensor<i32>) -> (tensor<3xi32>)" in text
    assert "stablehlo.bitcast_convert %p0_in : (tensor<3xi32>) -> tensor<3xui32>" in text
    assert "stablehlo.bitcast_convert %r0 : (tensor<3xui32>) -> tensor<3xi32>" in text


def test_a_signature_counts_bytes() -> None:
    module = module_of(lambda x: (x, x > 0), jnp.ones((2, 3)))
    parameters, results = iree_module_text.signature_of(module)
    assert [each.size_bytes for each in (*parameters, *results)] == [24, 24, 6]


def test_types_that_are_computed_otherwise_are_refused_by_name() -> None:
    for dtype, found in ((jnp.float8_e5m2, "f8E5M2"), (jnp.complex64, "complex<f32>")):
        with pytest.raises(UnsupportedError, match=found):
            iree_module_text.require_supported(
                module_of(lambda x, to=dtype: x.astype(to), jnp.ones(2))
            )
    for function, name in (
        *((jnp.tan, "tan"), (jnp.arctan, "atan2"), (jnp.cbrt, "cbrt"), (jnp.sort, "sort")),
        (jax.grad(_window), "select_and_scatter"),
        (lambda x: lax.top_k(x, 2), "sort"),
    ):
        with pytest.raises(UnsupportedError, match=rf"stablehlo\.{name} \(once, \d"):
            iree_module_text.require_supported(module_of(function, jnp.ones(300)))
    sums = """func.func public @main(%a: tensor<2xi1>) -> tensor<2xi1> {
        %r = stablehlo.add %a, %a : tensor<2xi1>
        return %r : tensor<2xi1>
    }"""
    with pytest.raises(UnsupportedError, match=r"stablehlo\.add of booleans"):
        iree_module_text.require_supported(parsed(sums))


def repaired(function: object, *inputs: object) -> str:
    """The text of a function's module after its repair."""
    module = module_of(function, *inputs)
    repairs.repair(module)
    assert module.operation.verify()
    return str(module)


def test_indices_of_a_gather_are_clamped_to_what_is_there() -> None:
    text = repaired(lambda x, i: x.at[i].get(mode="clip"), jnp.ones((4, 3)), jnp.array([1, 9]))
    assert "stablehlo.minimum" in text


INDEX = jnp.array([1, 9])


@pytest.mark.parametrize(
    ("update", "has", "lacks"),
    [
        (lambda x, i: x.at[i].add(1.0), "dense<-0.000000e+00>", "stablehlo.pad"),
        (lambda x, i: x.at[i].max(1.0), "dense<0xFF800000>", "stablehlo.pad"),
        (lambda x, i: x.at[i].multiply(2.0), "stablehlo.compare LE", "stablehlo.pad"),
        (lambda x, i: x.at[i[0]].set(2.0), "stablehlo.gather", "stablehlo.pad"),
        (lambda x, i: x.at[i].set(2.0), "stablehlo.pad", "stablehlo.gather"),
    ],
)
def test_updates_outside_of_an_array_change_nothing(update: object, has: str, lacks: str) -> None:
    text = repaired(update, jnp.ones((4, 3)), INDEX)
    assert has in text and lacks not in text


@pytest.mark.parametrize(
    "update",
    [
        lambda x: x.at[1].set(2.0),
        lambda x: x.at[np.array([0, -1])].add(2.0),
        lambda x: x.at[jnp.arange(3), jnp.arange(3)].set(2.0),
    ],
)
def test_updates_at_places_that_are_known_stay_as_they_are(update: object) -> None:
    text = repaired(update, jnp.ones((4, 3)))
    assert "stablehlo.scatter" in text
    assert "stablehlo.pad" not in text and "stablehlo.compare LE" not in text


def test_starts_that_are_no_int32_are_clamped_before_they_become_one() -> None:
    one = jnp.ones((4, 3))
    assert "minimum" in repaired(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), one, np.int8(3))
    assert "minimum" not in repaired(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), one, 3)


def test_an_operation_is_put_in_other_words() -> None:
    text = repaired(jnp.power, jnp.ones(3), jnp.ones(3))
    assert "func.call" not in text and "stablehlo.bitcast_convert" in text


@pytest.mark.parametrize(
    ("function", "copies"), [(lambda x: x.at[1].set(0.0), 1), (lambda x: x + 1, 0)]
)
def test_what_iree_would_change_in_place_is_copied(function: object, copies: int) -> None:
    text = repaired(function, jnp.ones(5))
    assert text.count("stablehlo.xor") == copies


def test_what_callers_give_up_and_weights_are_not_copied() -> None:
    module = module_of(lambda x: x.at[1].set(0.0), jnp.ones(5), donate_argnums=0)
    repairs.repair(module)
    weights = module_of(lambda x: x.at[1].set(0.0), jnp.ones(5))
    repairs.repair(weights, weights=(0,))
    assert "stablehlo.xor" not in str(module) + str(weights)


def test_products_of_small_floats_are_summed_in_float32() -> None:
    half = jnp.ones((3, 3), jnp.bfloat16)
    assert "-> tensor<3x3xf32>" in repaired(lambda x: x @ x, half)
    single = half.astype(jnp.float32)
    assert "stablehlo.convert" not in repaired(lambda x: x @ x, single)


def _window(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME").sum()


def _taken(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (1,), (2,), "SAME")


def _convolved(x: jax.Array) -> jax.Array:
    return lax.conv(x.reshape(1, 1, -1), jnp.ones((1, 1, 1)), (2,), "SAME")


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (_taken, "reduce_window of single numbers at a stride"),
        (_convolved, "convolution of single numbers at a stride"),
        (jnp.cumsum, "reduce_window of sums of 300 numbers"),
    ],
)
def test_what_is_not_repaired_is_refused(function: object, found: str) -> None:
    with pytest.raises(repairs.UnrepairableError, match=found):
        repairs.repair(module_of(function, jnp.ones(300)))


def test_a_named_function_is_called_instead() -> None:
    text = repaired(lax.composite(lambda x: x + 1, "named.sum"), jnp.ones(3))
    assert "stablehlo.composite" not in text and "func.call" not in text
    assert "stablehlo.add" in text


def reduced_with(operation: str) -> ir.Module:
    return parsed(f"""func.func public @main(%a: tensor<3xf32>, %z: tensor<f32>) -> tensor<f32> {{
        %r = stablehlo.reduce(%a init: %z) across dimensions = [0]
            : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        reducer(%x: tensor<f32>, %y: tensor<f32>) {{
            %p = stablehlo.{operation} : tensor<f32>
            stablehlo.return %p : tensor<f32>
        }}
        return %r : tensor<f32>
    }}""")


def test_what_is_within_the_function_of_a_reduce_is_repaired_there() -> None:
    module = reduced_with("power %x, %y")
    repairs.repair(module)
    text = str(module)
    assert module.operation.verify()
    assert text.index("stablehlo.reduce") < text.index("stablehlo.log ")


def test_what_needs_a_table_where_none_can_be_is_refused() -> None:
    with pytest.raises(repairs.UnrepairableError, match=r"sine within stablehlo\.reduce"):
        repairs.repair(reduced_with("sine %x"))


def test_a_table_has_what_powers_of_two_leave_of_full_turns() -> None:
    first, second = angle_repairs.table()
    assert len(first) == len(second) == 105
    assert first[0] + second[0] == 1.0
    assert first[3] + second[3] == pytest.approx(8 - 2 * math.pi, abs=1e-15)
    assert math.sin(first[100] + second[100]) == pytest.approx(math.sin(2.0**100), abs=1e-12)
    assert all(
        float(np.float32(high * 2**-2)) * 4 == pytest.approx(high, abs=2**-20) for high in first
    )


def known(function: object, *inputs: object) -> object:
    """The numbers that a function returns, as far as they are known."""
    module = module_of(function, *inputs)
    with module.context:
        main = module.body.operations[0]
        (returned,) = list(main.regions[0].blocks[0].operations)[-1].operation.operands
        found = index_repairs.constant_value(returned)
        return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: jnp.array([3, -7, 5]), [3, -7, 5]),
        (lambda x: lax.iota(jnp.int32, 3).reshape(3, 1), [[0], [1], [2]]),
        (lambda x: jnp.concatenate([jnp.arange(2), jnp.array([-2])]), [0, 1, -2]),
        (lambda x: jnp.array([3, 250]).astype(jnp.uint8) + jnp.uint8(9), [12, 3]),
        (lambda x: lax.select(jnp.arange(2) < 1, jnp.full(2, 7), jnp.arange(2)), [7, 1]),
        (lambda x: lax.broadcasted_iota(jnp.int32, (2, 2), 1), [[0, 1], [0, 1]]),
        (lambda x: jnp.array([1.5, 2.5]).astype(jnp.int32), None),
        (lambda x: lax.clamp(0, x, 200), None),
        (lambda x: x + 1, None),
        (lambda x: x, None),
        (lambda x: lax.iota(jnp.int32, 2**20 + 1), None),
    ],
)
def test_numbers_of_indices_are_known_from_constants(function: object, expected: object) -> None:
    assert known(function, jnp.array([1, 2])) == expected


SAID = [
    "some warning",
    "source.mlir:3:7: error: failed to legalize operation that was explicitly marked illegal",
    "    %2 = stablehlo.custom_call @lapack_foo(%1) : tensor<3xf32>",
    "         ^",
]


def test_a_complaint_names_the_operation() -> None:
    assert complaint(SAID).endswith("marked illegal (at stablehlo.custom_call)")
    assert complaint(["x: error: 'vector.store' op is restricted"]) == (
        "'vector.store' op is restricted"
    )
    assert complaint(["x: error: " + "y" * 5000, "%2 = z.w(%1)"]) == "y" * 300 + " (at z.w)"
    assert complaint(["nothing of that kind"]) == ""


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("cpu-x86-64-v3", "+avx2", "-avx512f"),
        ("cpu-neoverse-n1", "+dotprod", "-sve"),
        ("cpu-neoverse-v2", "+sve2", "-sm4"),
    ],
)
def test_features_are_given_and_denied_by_name(name: str, has: str, lacks: str) -> None:
    features = llvm_features(read_target(name, Path(__file__).parent)).split(",")
    assert has in features and lacks in features


def test_a_compiler_that_is_not_here_is_told_with_what_installs_it() -> None:
    try:
        assert require_installed("iree", "iree", COMPILER) == {COMPILER: version(COMPILER)}
    except CompileError as error:
        with pytest.raises(PackageNotFoundError):
            version(COMPILER)
        assert error.code == "AOTC-E907"
        assert ".[iree]" in error.findings[0].hint
