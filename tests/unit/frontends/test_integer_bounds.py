"""Bounds of integers, against functions computed with 64 and with 32 bits."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.frontends.integer_bounds import exceeding

type Function = Callable[[Any], Any]


def looped(x: Any, by: int, times: int) -> Any:
    return lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + by, s[1] * times), (0, x))[1]


PROGRAMS: list[tuple[str, Function, int, int]] = [
    ("", lambda x: (x * 1000003 + 17) % 97, 0, 2147),
    ("", lambda x: (x * 1000003 + 17) & 1023, 0, 50000),  # only the lowest bits count
    ("", lambda x: (x * 1000003 - 17) % 1024, -50000, 50000),
    ("", lambda x: ((x * 1000003) ^ (x << 40)).astype(jnp.int16), -50000, 50000),
    ("", lambda x: x - 5 + (x < 0), -(2**31) + 5, 2**31 - 1),
    ("", lambda x: (x % (2**31 - 1)) // 3 + x // 97 - abs(x) // 9, 0, 2**31 - 1),
    ("", lambda x: jnp.where(x < 0, x + 100, jnp.clip(x, 0, 7)), -100, 2**31 - 101),
    ("", lambda x: jnp.cumsum(x) * jnp.sign(x) - x.sum() + x.max(), 0, 21000000),
    ("", lambda x: jnp.arange(101)[x % 101] + jnp.argsort(x) + jnp.argmax(x), -(2**31), 2**31 - 1),
    ("", lambda x: lax.fori_loop(0, 3, lambda i, h: h * 31 + i, x), 0, 70000),
    ("", lambda x: looped(x, 4, 99), 0, 9),
    ("", lambda x: lax.scan(lambda h, v: (h + v, h), x[0], x[:0])[0] + x, 0, 9),
    ("", lambda x: lax.cond(x[0] < 0, lambda: x * 1000000, lambda: x), 0, 50000),
    ("", lambda x: (16 + jnp.log(x / 8) * 4).astype(jnp.int64).clip(0, 31), 0, 100),
    ("", lambda x: jnp.arange(101, dtype="i4")[x].astype(x.dtype) * 9999, 0, 100),
    ("", lambda x: jnp.zeros(3, x.dtype).at[x % 3].add(x), 0, 2**24),
    ("", lambda x: jnp.dot(x, x) + (x**2).sum(), 0, 3000),
    ("mul", lambda x: (x * 1000003 + 17) % 97, 0, 50000),
    ("mul", lambda x: lax.rem(x * 1000003, jnp.asarray(1024, x.dtype)), 0, 50000),
    ("mul", lambda x: (x * 1000003) % 97 * 0 + (x * 90000 > 0), 0, 50000),
    ("add", lambda x: jnp.where(x + 2147480000 < 0, 1, 0), 0, 5000),
    ("sub", lambda x: (-x - 2147480000) // 3, 0, 5000),
    ("cumsum", lambda x: jnp.cumsum(x), 0, 2**30),
    ("reduce_sum", lambda x: (x.sum() + x) % 97, 0, 2**30),
    ("dot_general", lambda x: jnp.dot(x, x), 0, 50000),
    ("scatter-add", lambda x: jnp.zeros(3, x.dtype).at[x % 3].add(x), 0, 2**30),
    ("reduce_prod", lambda x: x[1:4].prod(), 0, 90000),
    ("cumprod", lambda x: jnp.cumprod(x[1:4]), 0, 90000),
    ("integer_pow", lambda x: (x**3) / 7, 0, 50000),
    ("shift_left", lambda x: (x << 20) >> 20, 0, 50000),
    ("mul", lambda x: jnp.sort(x * 100000), 0, 50000),
    ("mul", lambda x: jnp.arange(101)[jnp.minimum(x * 10**6, 100)], 0, 50000),
    ("mul", lambda x: lax.fori_loop(0, 8, lambda i, h: h * 31 + i, x) % 97, 0, 50000),
    ("mul", lambda x: lax.scan(lambda h, v: ((h * 31 + v) % (10**9 + 7), h), 7, x)[1], 0, 50000),
    ("mul", lambda x: looped(x, 1, 9), 0, 9),
    ("mul", lambda x: lax.cond(x[0] < 1, lambda: x * 1000000, lambda: x), 0, 50000),
    ("convert_element_type", lambda x: (x / 8 * 1e6).astype(jnp.int64) % 97, 0, 50000),
    ("neg", lambda x: -x, -(2**31), 0),
    ("input", lambda x: x // 97, 0, 2**32),
]
"""The operation that is refused, "" if none is, a function, and the ends of its numbers."""


@pytest.mark.parametrize(("name", "function", "low", "high"), PROGRAMS)
def test_programs_are_refused_if_32_bits_give_something_else(
    name: str, function: Function, low: int, high: int
) -> None:
    x = np.linspace(low, high, 101).astype(np.int64)
    with jax.enable_x64(True):
        found = exceeding(jax.make_jaxpr(function)(x), [(low, high)])
        wide = np.asarray(function(jnp.asarray(x)))
    narrow = np.asarray(function(jnp.asarray(x.astype(np.int32))))
    names = {chain[0].primitive.name if chain else "input" for chain, *_ in found}
    assert names == ({name} if name else set())
    assert np.allclose(narrow, wide) is not bool(name)
