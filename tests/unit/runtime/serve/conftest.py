"""Servers of the examples, started once for the tests of a module."""

from collections.abc import Iterator

import pytest
from served import Served, serving

import aotc_runtime
from aotc_runtime import LoadedBundle
from aotc_serve.service.bundle_repository import Repository, Settings
from tests.conftest import Bundle, Once, manifest_of
from tests.e2e.small_programs import build_signed

PROGRAM = """\
import jax.numpy as jnp


def rows(x, y):
    return {"sum": x * 2 + y, "across": (x + y).T}


def running(x):
    return jnp.cumsum(x, axis=0)


def scaled(x, factor):
    return x * factor


def masked(x, mask):
    real = jnp.where(mask[:, :, None], x, 0)
    return {"mean": real.sum(1) / mask.sum(1)[:, None], "twice": x * 2}


def first(x, mask):  # right as long as all rows are of one length
    real = jnp.where(mask[:1, :, None], x, 0)
    return {"mean": real.sum(1) / mask[:1].sum(1)[:, None], "twice": x * 2}


def counted(x, count):
    real = jnp.where(jnp.arange(x.shape[1])[None, :, None] < count, x, 0)
    return {"mean": real.sum(1) / count, "twice": x * 2}


def filled(x):
    return {"until": jnp.cumsum(x, axis=1), "twice": x * 2}
"""

MANIFEST = manifest_of("""\
name = "joins"

[dimensions.batch]
range = [1, 64]
profiles = [1, 4, 16]

[dimensions.seq]
range = [1, 16]
profiles = [8]

[entry_points.rows]
function = "program:rows"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.y = { shape = ["batch", 4], dtype = "float32" }
relations = ["batch <= 60"]
out_of_profile.batch = "split"

[entry_points.running]
function = "program:running"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
out_of_profile.batch = "pad"

[entry_points.scaled]
function = "program:scaled"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
inputs.factor = { shape = [], dtype = "float32" }
out_of_profile.batch = "split"
""")

TEXTS = """
[entry_points.{name}]
function = "program:{name}"
inputs.x = {{ shape = ["batch", "seq", 4], dtype = "float32" }}
{inputs}
profiles = [{shorter}{{ batch = 1, seq = 16 }}, {{ batch = 4, seq = 16 }}]
out_of_profile.batch = "split"
out_of_profile.seq = {policy}
"""

SHORTER = "{ batch = 1, seq = 8 }, { batch = 4, seq = 8 }, "
MASK = 'inputs.mask = { shape = ["batch", "seq"], dtype = "bool" }'
MANIFEST += "".join(
    TEXTS.format(name=name, inputs=inputs, policy=policy, shorter=shorter)
    for name, inputs, policy, shorter in (
        ("masked", MASK, '{ policy = "pad", mask = "mask" }', SHORTER),
        ("first", MASK, '{ policy = "pad", mask = "mask" }', ""),
        (
            "counted",
            'inputs.count = { shape = [], dtype = "int32" }',
            '{ policy = "pad", length = "count" }',
            "",
        ),
        ("filled", "", '"pad"', SHORTER),
    )
)


@pytest.fixture(scope="session")
def joins(once: Once) -> Bundle:
    folder = once("joins", lambda place: build_signed(place, "joins", PROGRAM, MANIFEST))
    return folder / "joins.aotb", folder / "trust.toml"


@pytest.fixture(scope="module")
def repository(joins: Bundle) -> Iterator[Repository]:
    found = Repository([str(joins[0])], [joins[1]], Settings(), lambda event, facts: None)
    found.load_all(strict=True)
    yield found
    found.close()


@pytest.fixture(scope="module")
def digits(digits_bundle: Bundle) -> Iterator[LoadedBundle]:
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        yield bundle


@pytest.fixture(scope="module")
def served(digits_bundle: Bundle, encoder_bundle: Bundle, train_bundle: Bundle) -> Iterator[Served]:
    """A server of three bundles, with limits that tests can reach."""
    bundles, policies = zip(digits_bundle, encoder_bundle, train_bundle, strict=True)
    limits = ["--max-body", "4M", "--max-tensor", "1M", "--body-seconds", "2"]
    limits += ["--header-seconds", "2", "--max-connections", "300"]
    with serving(bundles, policies, *limits) as server:
        yield server
