"""Bundles that were built long ago verify, load and answer, and their sources still give them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import msgspec
import numpy as np
import pytest
from safetensors.numpy import load as load_tensors

import aotc_runtime
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime import LoadedBundle
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = ("digits", "trees", "sizes", "layers", "finite", "assets")
EVERY = (*NAMES, "sums")
"""With the bundle that needs another engine's packages; tests/engines/test_mixed.py loads it."""

JAXLIB = "0.12.0.1"

runs = pytest.mark.skipif(
    jaxlib.__version__ != JAXLIB, reason=f"these executables were built with jaxlib {JAXLIB}"
)

type Load = Callable[[str], LoadedBundle]


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """Yield what `trees` and `sizes` were built from."""
    sys.path.insert(0, str(GOLDEN))
    try:
        import golden_programs

        yield golden_programs
    finally:
        sys.path.remove(str(GOLDEN))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    folder = tmp_path_factory.mktemp("golden")
    loaded: dict[str, LoadedBundle] = {}

    def opened(name: str) -> LoadedBundle:
        if name not in loaded:
            policy = folder / f"{name}.toml"
            key = GOLDEN / ("assets.pub" if name == "assets" else "golden.pub")
            trusted = policy_text(name, [key.read_text("utf-8")])
            policy.write_text(f'furthest_fallback = "compile"\n{trusted}')
            loaded[name] = aotc_runtime.load(GOLDEN / f"{name}.aotb", trust=policy)
        return loaded[name]

    yield opened
    for bundle in loaded.values():
        bundle.close()


@pytest.mark.parametrize("name", EVERY)
def test_a_golden_bundle_is_read(name: str) -> None:
    contents, envelopes = read_unverified(open_bundle(GOLDEN / f"{name}.aotb"))
    (manifest,) = contents.manifests.values()
    assert manifest.format_version == ("1.1" if name == "assets" else "1.0")
    assert len(envelopes) == 2


@runs
def test_digits_answers(load: Load) -> None:
    with np.load(Path(__file__).parents[2] / "manifests" / "digits" / "fixtures.npz") as recorded:
        image = recorded["image"][:8]
    result = load("digits")["predict"](image)
    assert np.array_equal(result["label"], result["probabilities"].argmax(-1))


@runs
def test_trees_answer_as_plain_jax(load: Load, program: Any) -> None:
    state, x, key = program.new_state(), jnp.ones((4, 2)), jax.random.key(3)
    found, moments = load("trees")["step"](
        {
            "model": {"weight": np.asarray(state["model"].weight), "bias": np.zeros(3, "f4")},
            "moments": program.Moments(np.ones((2, 3), "f4"), None),
            "caches": [{"0": np.arange(4, dtype="i4"), "1": np.ones(4, bool)}, (2.0,)],
            "empty": {},
        },
        np.ones((4, 2), "f4"),
        key=np.asarray(jax.random.key_data(key)),
    )
    wanted, wanted_moments = jax.jit(program.step, static_argnames="rate")(
        state, x, key=key, rate=0.125
    )
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(found["model"].weight, wanted["model"].weight, **close)
    np.testing.assert_allclose(found["model"].bias, wanted["model"].bias, **close)
    assert found["moments"].square is None and found["empty"] == {}
    assert getattr(found["caches"][0], "0").tolist() == [3, 2, 1, 0]
    np.testing.assert_allclose(moments.mean, wanted_moments.mean, **close)
    np.testing.assert_allclose(moments.square, wanted_moments.square, **close)


@runs
@pytest.mark.parametrize("name", ["layers", "finite"])
def test_layers_answer(load: Load, name: str) -> None:
    state = {10: {"k": np.ones(2, "f4")}, 2: {"k": np.ones(2, "f4")}, -1: 7}
    found = load(name)["grow"](state, np.array([1, 2], "f4"))
    assert {key: np.asarray(value).tolist() for key, value in found[10].items()} == {"k": [11, 12]}
    assert (found[2]["k"].tolist(), int(found[-1])) == ([3, 4], 8)


@runs
def test_assets_are_handed_over(load: Load) -> None:
    bundle = load("assets")
    assert bundle["double"](np.ones(4, "f4")).tolist() == [3] * 4
    assert bundle.assets["labels"].data == b"even\nodd\n"
    with bundle.assets["words"].as_path() as folder:
        assert (folder / "vocab.txt").read_text() == "the\nof\nand\n"
        assert (folder / "special_tokens.json").read_text() == "{}"


@runs
@pytest.mark.parametrize(("batch", "seq"), [(1, 4), (3, 5)])
def test_sizes_answer_as_plain_jax(load: Load, program: Any, batch: int, seq: int) -> None:
    tokens = np.arange(batch * seq, dtype=np.int32).reshape(batch, seq) % 8
    found = load("sizes")["attend"](tokens)
    wanted = program.attend(program.table(), tokens, jnp.ones((batch, seq), bool))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@runs
@pytest.mark.parametrize("name", NAMES)
def test_numbers_stay(name: str, built: Callable[[str], Bundle], once: Any, program: Any) -> None:
    def fill(folder: Path) -> None:
        manifest = GOLDEN / f"{name}.toml"
        build(manifest, folder / f"{name}.aotb", BuildOptions(signer=LocalSigner.ephemeral()))

    fresh = built(name)[0] if name == "digits" else once(f"golden-{name}", fill) / f"{name}.aotb"
    golden = GOLDEN / f"{name}.aotb"
    assert told(fresh) == told(golden)
    found, wanted = recorded(fresh), recorded(golden)
    assert found.keys() == wanted.keys()
    for place, array in wanted.items():
        assert found[place].dtype == array.dtype, place
        np.testing.assert_allclose(found[place], array, rtol=1e-5, atol=1e-6, err_msg=str(place))


def told(bundle: Path) -> Any:
    """Return the bundle manifest without evidence, proofs, fixtures and parity.

    Later builds may try more to prove a policy. Plain JAX computes fixtures with the code that XLA
    makes for the builder's processor.
    """
    contents, _ = read_unverified(open_bundle(bundle))
    (manifest,) = contents.manifests.values()
    found = msgspec.to_builtins(manifest)
    del found["evidence"]
    for entry_point in found["entry_points"].values():
        for policy in entry_point["out_of_profile"].values():
            policy.pop("proof", None)
        for profile in entry_point["profiles"]:
            del profile["fixture"], profile["parity"]
    return found


def recorded(bundle: Path) -> dict[tuple[str, str], Any]:
    """The arrays of all fixtures, by executable and name."""
    source = open_bundle(bundle)
    (manifest,) = read_unverified(source)[0].manifests.values()
    return {
        (f"{entry_point} {profile.sizes}", name): array
        for entry_point, each in manifest.entry_points.items()
        for profile in each.profiles
        for name, array in load_tensors(bytes(source.blob(profile.fixture.digest) or b"")).items()
    }
