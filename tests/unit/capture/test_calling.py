"""A function is called as people call it: what can be passed by position is."""

from pathlib import Path

import jax
import numpy as np
import pytest

from aotc.capture.call_arguments import flat_call, plan_call
from aotc.config.build_manifest import read_build_manifest
from tests.conftest import manifest_of

MODULE = """
import jax
import jax.numpy as jnp

columns = jax.vmap(lambda x: x / x.sum(), in_axes=1)
both = jax.value_and_grad(lambda x: (x**2).sum())

def every_kind(a, /, x, c=3.0, *, d, e=5.0):
    return a + 10 * x + 100 * c + 1000 * d + 10000 * e

def skipped(x, c=3.0, a=7.0):
    return x + 10 * c + 100 * a
"""

MANIFEST = manifest_of("""
name = "calls"
[entry_points.f]
function = "{module}:{function}"
inputs.x = {{ shape = [3, 3], dtype = "float32" }}
{more}
""")

X = np.arange(9, dtype=np.float32).reshape(3, 3)

CASES = {
    "columns": ("", (X / X.sum(axis=0)).T),
    "both": ("", ((X**2).sum(), 2 * X)),
    "every_kind": ("static = { a = 1.0, d = 4.0 }", 1 + 10 * X + 300 + 4000 + 50000),
    "skipped": ("static = { a = 2.0 }", X + 30 + 200),
}


@pytest.mark.parametrize("function", CASES)
def test_results_are_those_of_a_call_by_position(function: str, tmp_path: Path) -> None:
    module = f"calling_{function}"
    (tmp_path / f"{module}.py").write_text(MODULE)
    more, expected = CASES[function]
    path = tmp_path / "manifest.toml"
    path.write_text(MANIFEST.format(module=module, function=function, more=more))
    manifest = read_build_manifest(path)
    call = flat_call(plan_call("f", manifest), {}, manifest, {})
    for actual, wanted in zip(
        jax.tree.leaves(jax.jit(lambda x: call(x))(X)), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)
