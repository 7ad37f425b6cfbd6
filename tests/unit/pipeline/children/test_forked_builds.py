"""A build whose processes a zygote forks is the one of processes that start anew."""

from pathlib import Path

import pytest

from aotc.base.workers import worker_parent
from aotc.check import parity_process
from aotc.pipeline import parity_check, user_processes
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from tests.small_manifests import one_function

MANIFEST = one_function("small", "[3]", weights='init = "small:init"')

PROGRAM = """
import os
import jax
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(30, dtype="float32")
DEEP = jnp.arange(40.0)
os.environ.get("SMALL")

def init():
    return {"w": np.arange(3.0, dtype="float32")}

@jax.jit
def within(x):
    return jax.lax.scan(lambda carry, _: (carry + DEEP[:3], None), x, length=2)[0]

def f(params, x):
    noise = jax.random.normal(jax.random.key(0), (3,))
    return jnp.tanh(x @ x * params["w"]) + TABLE[:3] + within(x) + noise
"""

BY_CHANCE = PROGRAM.replace("np.arange(3.0, dtype=", "np.random.normal(size=3).astype(")


class Command(tuple[str, ...]):
    """The command of a process that imports by itself what it needs, when it needs it."""

    def begin(self, *_: object) -> None:
        pass


class Project:
    """A program, and how its processes are started."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder / "project", monkeypatch
        self._caches = folder / "caches"
        self.folder.mkdir()
        (self.folder / "small.toml").write_text(MANIFEST)
        self.write(PROGRAM)

    def write(self, program: str) -> None:
        (self.folder / "small.py").write_text(program)

    def build(self, cache: str) -> Built:
        store = LocalStore(self._caches / cache, 10**9)
        return build(
            self.folder / "small.toml", self.folder / "small.aotb", BuildOptions(cache=store)
        )

    def start_anew(self) -> None:
        """Every process, from here on."""
        for module in (user_processes, parity_process, parity_check):
            self._monkeypatch.setattr(
                module, "zygotes_of", lambda name: Command(worker_parent.module(name))
            )


def ran(built: Built) -> set[str]:
    return {done.task.name for done in built.tasks if not done.cached}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


def test_forked_build_has_same_bytes_and_shares_the_cache(project: Project) -> None:
    one = project.build("one")
    assert ran(project.build("one")) == {"capture", "pack"}
    project.start_anew()
    other = project.build("other")
    assert other.bundle.root_digest == one.bundle.root_digest
    keys = [{done.task.name: done.task.key for done in each.tasks} for each in (one, other)]
    assert keys[0] == keys[1]
    assert ran(project.build("one")) == {"capture", "pack"}


def test_the_next_build_runs_the_program_as_it_is_then(project: Project) -> None:
    first = project.build("cache")
    project.write(PROGRAM.replace("import jax\n", "import jax\nimport beside\n"))
    (project.folder / "beside.py").write_text("")
    second = project.build("cache")
    assert "beside.py" in second.program.sources and "beside.py" not in first.program.sources


def test_what_chance_gives_is_something_else_each_time(project: Project) -> None:
    project.write(BY_CHANCE)
    digests = {project.build("cache").bundle.root_digest for _ in range(2)}
    assert len(digests) == len(range(2))
