"""Tests that plain JAX runs again when its results change and no module does."""

from pathlib import Path

import pytest

from aotc.base.errors import ParityError
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from tests.conftest import manifest_of

MANIFEST = manifest_of("""
name = "keyed"
[dimensions.n]
range = [1, 4]
profiles = [4]
[entry_points.f]
function = "program:f"
inputs.x = { like = "program:like", arguments = { n = "n" } }
out_of_profile = { n = "pad" }
""")

PROGRAM = """
import jax
import jax.numpy as jnp


ONE = 1


class Out:
    def __init__(self, total):
        self.total = total


jax.tree_util.register_pytree_node(Out, lambda o: ((o.total,), None), lambda _, c: Out(*c))


def like(n):
    return jnp.ones(n)


def f(x):
    # The build does not see that this asks for a size: Python has no hook for `is`.
    return Out(x * (1 if x.shape[0] is not ONE else 1.0))
"""


class Program:
    """A program with a cache."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._text = folder, PROGRAM
        (folder / "keyed.toml").write_text(MANIFEST)

    def build(self, *changes: tuple[str, str]) -> Built:
        """Build the program, with these changes of its text from here on."""
        for before, after in changes:
            assert before in self._text, before
            self._text = self._text.replace(before, after)
        (self._folder / "program.py").write_text(self._text)
        cache = LocalStore(self._folder / "cache", 10**9)
        return build(
            self._folder / "keyed.toml", self._folder / "x.aotb", BuildOptions(cache=cache)
        )


def reasons(built: Built) -> tuple[str, ...]:
    (reference,) = (done for done in built.tasks if done.task.kind == "reference")
    return reference.reasons


def test_what_no_profile_shows_runs_plain_jax_again(tmp_path: Path) -> None:
    program = Program(tmp_path)
    first = program.build()
    assert reasons(program.build()) == ()
    digests = {profile.module.digest for profile in first.program.profiles.values()}

    renamed = program.build(("o.total", "o.whole"), ("self.total", "self.whole"))
    assert reasons(renamed) == ("source file program.py changed",)
    option = program.build(
        ("class Out", "jax.config.update('jax_traceback_filtering', 'off')\n\n\nclass Out")
    )
    assert "options of jax changed" in reasons(option)
    inputs = program.build(("jnp.ones(n)", "jnp.ones(n) * jnp.ones(n).sum() / 4"))
    assert "fixture inputs.f[n=1] changed" in reasons(inputs)
    for built in (renamed, option, inputs):
        assert {each.module.digest for each in built.program.profiles.values()} == digests

    # At a size between the profiles alone: the cached results of plain JAX would hide it.
    with pytest.raises(ParityError) as refused:
        program.build(("else 1.0)", "else 2.0)"))
    assert {finding.code for finding in refused.value.findings} == {"AOTC-E955"}
