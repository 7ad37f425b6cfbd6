"""Tests of each component of an executable's cache key."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from aotc.base.stages import CompileJob, Executable, Module
from aotc.compile.target_files import read_target
from aotc.compile.xla.xla_compiler import XlaBackend
from aotc.pipeline import code_identity
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_backend import CachedBackend, job_parts
from aotc.pipeline.cached_tasks import Tasks, key_of
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, Memory, Mesh, MeshAxis

TARGET = read_target("cpu-x86-64-v3", Path(), "test")
MODULE = Module(b"module", sha256(b"module"), "1.0.0", ())
JOB = CompileJob("f", MODULE, TARGET, constants={0: np.zeros(2, np.float32)})


def in_target(**changes: object) -> CompileJob:
    return replace(JOB, target=msgspec.structs.replace(TARGET, **changes))


@pytest.mark.parametrize(
    "changed",
    [
        replace(JOB, module=replace(MODULE, digest=sha256(b"other"))),
        replace(JOB, options={"xla_flag": "1"}),
        replace(JOB, constants={1: np.zeros(2, np.float32)}),
        replace(JOB, constants={0: np.ones(2, np.float32)}),
        replace(JOB, constants={0: np.zeros(2, np.int32)}),
        replace(JOB, constants={0: np.zeros((1, 2), np.float32)}),
        replace(JOB, mesh=Mesh(axes=(MeshAxis(name="x", size=2),), devices=(0, 1))),
        in_target(cpu="haswell"),
        in_target(features=TARGET.features[:-1]),
        in_target(tuning=("prefer-no-gather",)),
        in_target(threads=TARGET.threads + 1),
        in_target(options={"xla_flag": "1"}),
        in_target(triple="aarch64-unknown-linux-gnu"),
    ],
)
def test_an_executables_key_accounts_for(changed: CompileJob) -> None:
    assert key_of("", job_parts(changed)) != key_of("", job_parts(JOB))


def test_names_for_people_do_not_count() -> None:
    assert job_parts(replace(in_target(name="renamed"), label="g")) == job_parts(JOB)


class Counting(XlaBackend):
    """Compiles nothing, and counts."""

    def __init__(self, jaxlib: str = "0.12.0") -> None:
        super().__init__()
        self.jaxlib, self.compiled = jaxlib, 0

    def toolchain(self) -> BuiltWith:
        return BuiltWith("1", "0.12.0", self.jaxlib, "", 1, 1, "1")

    def compile(self, job: CompileJob) -> Executable:
        self.compiled += 1
        memory, cost = Memory(1, 2, 3, 4, 5), Cost(1, 2, 3)
        return Executable(b"code", sha256(b"code"), ("avx",), (), (), memory, cost, {"k": 1}, 0.5)


def test_same_job_is_compiled_once_per_toolchain(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, 10**6)
    first = Counting()
    made = CachedBackend(first, Tasks(store, {})).compile(JOB)
    again, newer = Counting(), Counting("0.12.0.1")
    tasks = Tasks(store, {})
    assert CachedBackend(again, tasks).compile(JOB) == made
    assert CachedBackend(newer, tasks).compile(JOB) == made
    assert (first.compiled, again.compiled, newer.compiled) == (1, 0, 1)


@pytest.mark.parametrize("other", ["libraries", "our code"])
def test_other_tools_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    store = LocalStore(tmp_path, 10**6)
    CachedBackend(Counting(), Tasks(store, {})).compile(JOB)
    if other == "libraries":
        monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/other")
    else:
        edited = {"code of aotc": sha256(b"edited")}
        monkeypatch.setattr(code_identity, "toolchain_code", lambda: edited)
    backend = Counting()
    CachedBackend(backend, Tasks(store, {})).compile(JOB)
    assert backend.compiled == 1
