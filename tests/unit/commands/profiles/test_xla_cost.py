"""XLA's analysis counts one step of a loop; what a call costs has all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from aotc.commands.profiles.probe_messages import CallCost
from aotc.commands.profiles.xla_cost import cost_of_call

MATMUL = 2 * 16**3 + 3 * 16 * 16 * 4
"""Operations and bytes of a product of two 16 by 16 matrices of float32."""


def cost(function: Callable[..., Any], *shapes: tuple[int, ...]) -> CallCost:
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    traced = jax.jit(function).trace(*arguments)
    return cost_of_call(traced, traced.lower(lowering_platforms=("cpu",)))


def matmuls(found: CallCost) -> float:
    """How many products of two 16 by 16 matrices it is; a counter or two beside them."""
    return round(found.work / MATMUL, 2)


def product(x: jax.Array) -> jax.Array:
    return x @ x


def repeated(times: int, *, unroll: int = 1) -> Callable[[jax.Array], jax.Array]:
    def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return product(carry), None

    return lambda x: jax.lax.scan(step, x, None, length=times, unroll=unroll)[0]


def test_a_program_without_loops_costs_what_xla_says() -> None:
    found = cost(lambda x: jnp.tanh(x @ x), (16, 16))
    # The hyperbolic tangent reads and writes 1 KiB each, too.
    assert found == CallCost(MATMUL + 256 + 2 * 16 * 16 * 4, 0)


def test_bytes_and_transcendentals_of_all_steps_count() -> None:
    def outputs(x: jax.Array) -> jax.Array:
        return jax.lax.map(lambda row: jnp.tanh(row @ x), x)

    for size in (16, 64):
        least = 2 * size**3 + size * size + 4 * size**3
        assert least < cost(outputs, (size, size)).work < 1.5 * least


def counted(x: jax.Array) -> jax.Array:
    inner = repeated(5)
    return jax.lax.fori_loop(0, 7, lambda _, c: inner(c), x)


def chosen(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x[0, 0] > 0, repeated(9), repeated(3), x)


def until(x: jax.Array) -> jax.Array:
    return jax.lax.while_loop(lambda c: c.sum() < 5, repeated(4), x)


LOOPS: dict[str, tuple[Callable[..., Any], float, int]] = {
    **{f"unrolled {n}": (repeated(10, unroll=n), 10, 0) for n in (1, 2, 3, 4, 10, 12)},
    "counted, with a loop inside": (counted, 35, 0),
    "in a called function": (jax.jit(jax.checkpoint(repeated(6))), 6, 0),
    "in the costliest branch": (chosen, 9, 0),
    "of a length that depends on values": (until, 4, 1),
    "twice": (lambda x: until(until(x)), 8, 2),
}
"""A function, the products that it is, and its loops that count once."""


@pytest.mark.parametrize(("function", "products", "open_loops"), LOOPS.values(), ids=LOOPS.keys())
def test_every_step_of_a_loop_counts_where_its_length_is_known(
    function: Callable[..., Any], products: float, open_loops: int
) -> None:
    found = cost(function, (16, 16))
    assert matmuls(found) == pytest.approx(products, abs=0.3)
    assert found.open_loops == open_loops


def test_loops_over_a_mesh_count_once_since_their_bodies_need_its_axes() -> None:
    mesh = Mesh(jax.devices()[:1], ("data",))

    def body(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jax.lax.psum(carry, "data") @ carry, None

    def whole(x: jax.Array) -> jax.Array:
        return jax.lax.scan(body, x, None, length=8)[0]

    spread = jax.shard_map(
        whole, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False
    )
    assert cost(spread, (16, 16)).open_loops == 1


def test_a_module_that_was_exported_for_any_size_costs_what_it_does_at_its_size() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x) @ x.T

    (n,) = jax.export.symbolic_shape("n")
    made = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((n, 3), "float32"))
    assert cost(made.call, (4, 3)) == cost(function, (4, 3))
