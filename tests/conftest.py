"""Session fixtures: each example is built once, signed with a key made for the session."""

import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "manifests"

# By this name: some libraries install a package `tests` of their own.
pytest_plugins = ["limits"]

# scipy's LAPACK has a thread for each core, and these wait for one another in loops: for the small
# matrices of tests, on cores that are busy, that is tens of times the work. Processes that a test
# starts inherit it; what a server has by default, tests/e2e/test_examples.py has.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test builds, it builds; tests of the cache name one, and pages take `examples_cache`.
os.environ["AOTC_CACHE"] = "off"

Bundle = tuple[Path, Path]
"""A bundle and the trust policy it loads with."""

Run = Callable[..., Any]
"""Runs a command of `aotc`: the fixtures `aotc` and `refused`."""

Once = Callable[[str, Callable[[Path], object]], Path]


LONG = tomllib.loads((ROOT / "tests" / "long_tests.toml").read_text("utf-8"))
"""`make test` leaves out what begins with one of `long`, except for `kept`; the longer decides."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        longest = [
            max(map(len, filter(name.startswith, of)), default=-1)
            for of in (LONG["kept"], LONG["long"])
        ]
        if longest[0] < longest[1]:
            item.add_marker("long")


def manifest_of(text: str) -> str:
    """Return a build manifest of a first version for cpu-x86-64-v3, with more keys."""
    head = 'schema = 1\nversion = "1.0.0"\ntargets = ["cpu-x86-64-v3"]'
    return f"\n{head}{text}" if text.startswith("\n") else f"{head}\n{text}"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def once(shared_folder: Path) -> Once:
    """Fill a folder of this name, once per test run whatever the number of workers."""

    def filled(name: str, fill: Callable[[Path], object]) -> Path:
        folder = shared_folder / "bundles" / name
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            if not (folder / "filled").exists():
                fill(folder)
                (folder / "filled").touch()
        return folder

    return filled


@pytest.fixture(scope="session")
def examples_cache(shared_folder: Path) -> Path:
    """A build cache of the examples, for pages of the documentation that build them again."""
    return shared_folder / "examples-cache"


Built = Callable[..., Bundle]
"""Builds an example by its name: the fixture `built`."""


@pytest.fixture(scope="session")
def built(once: Once, examples_cache: Path) -> Built:
    """Build an example by name, once per test run.

    Where an example is not itself what is tested, it has less of what most of its build takes:
    `less` for `whole` in a `file` below manifests/.
    """

    def build(name: str, file: str = "", whole: str = "", less: str = "") -> Bundle:
        def fill(folder: Path) -> None:
            from aotc.bundle.sign.signer import LocalSigner
            from aotc.bundle.trust.trust_text import policy_text
            from aotc.pipeline.build import build as build_bundle
            from aotc.pipeline.build_options import BuildOptions
            from aotc.pipeline.cache.cache_store import LocalStore

            signer, manifests = LocalSigner.ephemeral(), MANIFESTS
            if file:
                manifests = folder / "manifests"
                shutil.copytree(MANIFESTS, manifests)
                text = (manifests / file).read_text("utf-8")
                assert text.count(whole) == 1
                (manifests / file).write_text(text.replace(whole, less), "utf-8")
            output, cache = folder / f"{name}.aotb", LocalStore(examples_cache, 10**9)
            build_bundle(
                manifests / f"{name}.toml", output, BuildOptions(signer=signer, cache=cache)
            )
            (folder / "trust.toml").write_text(policy_text(name, [signer.public_pem()]))

        folder = once(f"{name}-less" if file else name, fill)
        return folder / f"{name}.aotb", folder / "trust.toml"

    return build


def _example(*given: str) -> Any:
    """Return the fixture of an example: what `built` is given."""
    return pytest.fixture(scope="session")(lambda built: built(*given))


digits_bundle = _example("digits")
lm_bundle = _example("lm", "lm/model.py", "\nLAYERS = 4\n", "\nLAYERS = 1\n")
train_bundle = _example("train")
gp_bundle = _example("gp", "gp/model.py", "jax.lax.scan(try_start, nothing, starts)[0]", "nothing")
encoder_bundle = _example(
    "encoder", "encoder.toml", "64]\nprofiles = [16, 64]", "16]\nprofiles = [16]"
)
parallel_bundle = _example("parallel")
