"""Builds whose executables come from the workers of an executor are the builds of this host."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
from hostile.doors import toolchain

from aotc.base.errors import CompileError, UsageError
from aotc.commands.dask.dask_cluster import connect
from aotc.commands.dask.executor_option_service import on_executor
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cached_backend import on_this_host
from tests.refusals import error_of
from tests.waiting import until

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed")

MANIFEST = """
schema = 1
name = "many"
version = "1.0.0"
targets = ["cpu-x86-64-v3", "cpu-x86-64-v4"]
[weights.params]
init = "program:init"
[dimensions.batch]
range = [1, 4]
profiles = [1, 4]
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = ["batch", 8], dtype = "float32" }
"""
PROGRAM = """
import jax.numpy as jnp
def init():
    return {"w": jnp.arange(64.0).reshape(8, 8)}
def f(params, x):
    for _ in range(4):
        x = jnp.tanh(x @ params["w"])
    return jnp.sort(x)
"""

COMPILER = "aotc.compile.xla.xla_worker"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "many.toml").write_text(MANIFEST)
    (folder / "program.py").write_text(PROGRAM)
    return folder


def built(project: Path, folder: Path, executor: Executor | None = None) -> Built:
    compilers = on_executor(executor) if executor else on_this_host
    return build(project / "many.toml", folder / "many.aotb", BuildOptions(compilers=compilers))


@pytest.fixture(scope="module")
def local(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(project, tmp_path_factory.mktemp("local"))


def started(folder: Path, module: str, *arguments: str) -> psutil.Popen:
    """A process of Dask."""
    return psutil.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "said").open("ab"),
    )


class Scheduler:
    """A scheduler on loopback."""

    def __init__(self, folder: Path) -> None:
        place = ["--scheduler-file", f"{folder}/scheduler.json"]
        where = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        self.process = started(folder, "dask_scheduler", *where, *place)
        path = folder / "scheduler.json"
        written = until(lambda: path.exists() and json.loads(path.read_text() or "{}"), "it serves")
        assert isinstance(written, dict)
        self.address = str(written["address"])

    def stop(self) -> None:
        with suppress(psutil.NoSuchProcess):
            self.process.kill()
        self.process.wait()


class Dask:
    """A scheduler and two workers on loopback, each a process of its own."""

    def __init__(self, folder: Path, scheduler: Scheduler) -> None:
        self.scheduler = scheduler.process
        self.address = scheduler.address
        alone = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        self.workers = [
            started(
                folder, "dask_worker", self.address, *alone, "--local-directory", f"{folder}/{n}"
            )
            for n in range(2)
        ]

    @property
    def url(self) -> str:
        return self.address.replace("tcp://", "dask://")

    def compiling(self, worker: psutil.Popen) -> list[psutil.Process]:
        return [child for child in worker.children() if is_compiler(child)]

    def stop(self) -> None:
        for process in self.workers:
            with suppress(psutil.NoSuchProcess):
                process.kill()
            process.wait()


def is_compiler(process: psutil.Process) -> bool:
    try:
        return COMPILER in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def schedulers() -> Iterator[list[Scheduler]]:
    """Yield those of the tests so far: one serves all of them until one is ended."""
    found: list[Scheduler] = []
    yield found
    for each in found:
        each.stop()


@pytest.fixture
def dask(
    schedulers: list[Scheduler], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dask]:
    if not schedulers or schedulers[-1].process.poll() is not None:
        schedulers.append(Scheduler(tmp_path_factory.mktemp("scheduler")))
    cluster = Dask(tmp_path, schedulers[-1])
    yield cluster
    cluster.stop()


def test_killed_worker_is_harmless(dask: Dask, project: Path, tmp_path: Path, local: Built) -> None:
    lost = dask.workers[0]
    with connect(dask.url) as executor, ThreadPoolExecutor(1) as thread:
        building = thread.submit(built, project, tmp_path, executor)
        (compiler, *_) = until(
            lambda: dask.compiling(lost) or (building.done() and [None]), "it compiles"
        )
        assert compiler is not None, "the build was over before this worker had begun"
        lost.send_signal(signal.SIGKILL)
        lost.wait()
        found = building.result()
    assert found.bundle.root_digest == local.bundle.root_digest
    assert sum(done.task.kind == "executable" for done in found.tasks) == 4
    until(lambda: not is_compiler(compiler), "what it had begun went with it")


def test_any_executor_will_do(project: Path, tmp_path: Path, local: Built) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        assert built(project, tmp_path, executor).bundle.root_digest == local.bundle.root_digest


def test_ctrl_c_ends_the_command_and_what_workers_do_for_it_and_not_the_workers(
    dask: Dask, project: Path, tmp_path: Path, local: Built, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["build", str(project / "many.toml"), "-o", str(tmp_path / "x.aotb")]
    arguments += ["--executor", dask.url]
    command = [sys.executable, "-m", "aotc.cli.main", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: any(map(dask.compiling, dask.workers)), "a worker compiles", process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "aborted"
    assert not (tmp_path / "x.aotb").exists()
    until(lambda: not any(map(dask.compiling, dask.workers)), "no worker compiles")
    capfd.readouterr()
    assert toolchain([*arguments, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["root_digest"] == local.bundle.root_digest


@pytest.mark.parametrize("gone", ["workers", "scheduler"])
def test_lost_workers_end_the_build(dask: Dask, project: Path, tmp_path: Path, gone: str) -> None:
    with connect(dask.url, patience=1.0) as executor, ThreadPoolExecutor(1) as thread:
        building = thread.submit(built, project, tmp_path, executor)
        until(lambda: any(map(dask.compiling, dask.workers)) or building.done(), "one compiles")
        for process in dask.workers if gone == "workers" else [dask.scheduler]:
            process.kill()
        error = building.exception(120)
    assert isinstance(error, CompileError)
    assert error.code == "AOTC-E914"
    assert gone == "scheduler" or "no worker" in error.findings[0].found


@pytest.mark.parametrize(
    "url", ["dask://127.0.0.1", "tcp://127.0.0.1:8786", "dask://[::1", "dask://h:port"]
)
def test_a_url_that_names_no_scheduler_is_refused(url: str) -> None:
    assert error_of(UsageError, connect, url).code == "AOTC-E064"


def test_a_missing_dask_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotc.commands.dask.dask_cluster.find_spec", lambda name: None)
    caught = error_of(UsageError, connect, "dask://127.0.0.1:1")
    assert "'.[dask]'" in caught.findings[0].hint


def test_a_scheduler_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotc.commands.dask.dask_cluster.CONNECT_SECONDS", 1.0)
    assert error_of(UsageError, connect, "dask://127.0.0.1:1").code == "AOTC-E065"
