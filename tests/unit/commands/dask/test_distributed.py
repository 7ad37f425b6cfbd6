"""Results of an executor's workers are those of this host, or a refusal."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from aotc.base.child_processes import StoppedError
from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable, Module
from aotc.commands.dask import executor_messages, executor_worker
from aotc.commands.dask.executor_backend import Cluster, ExecutorBackend
from aotc.compile.target_files import read_target
from aotc.compile.xla.xla_compiler import XlaBackend
from aotc.pipeline.cached_backend import toolchain_parts
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BuiltWith, Cost, Memory, Mesh, MeshAxis

TARGET = read_target("cpu-x86-64-v3", Path(), "test")
SMALL = CompileJob("f", Module(b"module", sha256(b"module"), "1.0.0", ("TopK",)), TARGET)
LARGE_MODULE = b"module" * 2**16
LARGE = replace(
    SMALL,
    module=Module(LARGE_MODULE, sha256(LARGE_MODULE), "1.0.0", ()),
    options={"xla_flag": "1"},
    constants={3: np.arange(6, dtype=np.float32).reshape(2, 3)},
    mesh=Mesh(axes=(MeshAxis(name="x", size=2),), devices=(1, 0)),
)


class Naming(XlaBackend):
    """Its executables say what they were made of."""

    def toolchain(self) -> BuiltWith:
        return BuiltWith("1", "0.12.0", "0.12.0", "", 1, 1, "1")

    def compile(self, job: CompileJob) -> Executable:
        if job.label == "refused":
            raise CompileError(Finding("AOTC-E901", "refused", "a program", "none", "correct it"))
        if job.label == "slow":
            raise StoppedError if STOPPED.wait(30) else TimeoutError
        constants = {index: value.tolist() for index, value in job.constants.items()}
        parts = (job.label, job.module.artifact[:20], job.options, constants, job.target.name)
        parts = (*parts, job.mesh)
        code = repr((parts, job.module.custom_call_targets)).encode()
        memory, cost = Memory(1, 2, 3, 4, 5), Cost(1, 2, 3)
        return Executable(code, sha256(code), ("avx",), (), (), memory, cost, {"k": 1}, 0.5)

    def stop(self) -> None:
        STOPPED.set()


STOPPED = threading.Event()

type Meddle = Callable[[bytes], bytes]


class Recording(ThreadPoolExecutor):
    """Counts what is sent. meddle: does the work instead of a worker."""

    def __init__(self, meddle: Meddle | None = None) -> None:
        super().__init__(1)
        self.meddle, self.sent = meddle, list[bytes]()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        (request,) = args
        self.sent.append(request)
        return super().submit(self.meddle or fn, request)


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that compile by `Naming`."""
    monkeypatch.setattr(executor_worker, "backend_for", lambda platform: Naming())
    STOPPED.clear()


@pytest.fixture(autouse=True, scope="module")
def toolchain() -> Iterator[None]:
    """Workers read theirs once; that of a class of the tests is searched for in every package."""
    executor_worker._own_parts.cache_clear()
    yield
    executor_worker._own_parts.cache_clear()


PARTS = cache(lambda: toolchain_parts(Naming()))


def backend(executor: Any, **parts: str) -> ExecutorBackend:
    return ExecutorBackend(Naming(), executor, {**PARTS(), **parts})


def code_of(executor: Any, job: CompileJob = SMALL, **parts: str) -> str:
    with executor, pytest.raises(CompileError) as caught:
        backend(executor, **parts).compile(job)
    return caught.value.code


@pytest.mark.parametrize("job", [SMALL, LARGE])
def test_an_executable_is_the_one_that_is_made_here(job: CompileJob) -> None:
    with Recording() as executor:
        assert backend(executor).compile(job) == Naming().compile(job)


def test_a_refusal_comes_back_with_its_findings() -> None:
    assert code_of(Recording(), replace(SMALL, label="refused")) == "AOTC-E901"


def test_a_worker_with_another_toolchain_refuses_and_says_what_differs() -> None:
    with Recording() as executor, pytest.raises(CompileError) as caught:
        backend(executor, **{"package jaxlib": "0.99.0"}).compile(SMALL)
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E913"
    assert "package jaxlib" in finding.found and "0.99.0" in finding.found


def truthful(request: bytes) -> executor_messages.Answer:
    answer = executor_messages.decode_answer(request, executor_worker.answer(request))
    assert answer is not None
    return answer


def damaged(request: bytes) -> bytes:
    answer = executor_worker.answer(request)
    return answer.replace(b"avx", b"fma")


def answering(**fields: Any) -> Meddle:
    """A worker that gives this answer to whatever it is asked."""
    answer = executor_messages.Answer(**fields)
    return lambda request: executor_messages.encode_answer(request, answer)


def to_another(request: bytes) -> bytes:
    return executor_messages.encode_answer(request + b"?", truthful(request))


def wrong_code(request: bytes) -> bytes:
    made = truthful(request).executable
    assert made is not None
    return answering(executable=replace(made, serialized=b"evil"))(request)


def changed_on_the_way(request: bytes) -> bytes:
    return executor_worker.answer(request.replace(b"\xc4\x06module", b"\xc4\x06nodule"))


def something_else(request: bytes) -> Any:
    return None


def no_text(request: bytes) -> bytes:
    body = msgspec.msgpack.encode({"differences": ["X"]}).replace(b"X", b"\xff")
    return executor_messages._digest(request, body) + body


no_answer = answering()
without_a_code = answering(findings=(Finding("no code", "there", "this", "that", ""),))


@pytest.mark.parametrize(
    "meddle",
    [
        damaged,
        to_another,
        wrong_code,
        changed_on_the_way,
        something_else,
        no_answer,
        no_text,
        without_a_code,
    ],
)
def test_an_answer_is_refused_that_is(meddle: Meddle) -> None:
    assert code_of(Recording(meddle)) == "AOTC-E915"


class AtOnce(Executor):
    """Stops the build, and answers before it returns."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asking.stop()
        done: Future[Any] = Future()
        done.set_result(answering(stopped=True)(args[0]))
        return done

    asking: ExecutorBackend


def test_an_answer_that_was_stopped_with_the_build_is_no_lost_task() -> None:
    executor = AtOnce()
    executor.asking = backend(executor)
    with pytest.raises(StoppedError):
        executor.asking.compile(SMALL)


def test_a_worker_begins_nothing_for_a_build_that_was_stopped() -> None:
    executor_worker.stop_build("a build")
    request = executor_messages.Request("a build", "cpu", dict(PARTS()), b"")
    job = executor_messages.encode_job(SMALL)
    data = msgspec.msgpack.encode(msgspec.structs.replace(request, job=job))
    assert truthful(data) == executor_messages.Answer(stopped=True)


class Giving(Cluster):
    """A cluster that gives this future for every task. trouble: as of a cluster."""

    def __init__(self, future: Future[Any], trouble: str = "") -> None:
        self.future, self.told = future, trouble

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.future

    def trouble(self) -> str:
        return self.told


def shut_down() -> Executor:
    executor = Recording()
    executor.shutdown()
    return executor


def ended(error: Exception | None) -> Executor:
    """A cluster whose tasks end with this error; without one, they are cancelled."""
    future: Future[Any] = Future()
    if error is None:
        future.cancel()
    else:
        future.set_exception(error)
    return Giving(future)


LOST: dict[str, tuple[Callable[[], Executor], str]] = {
    "that a worker says was stopped": (
        lambda: Recording(answering(stopped=True)),
        "worker stopped",
    ),
    "that raises whatever": (lambda: ended(ModuleNotFoundError("aotc")), "Error: aotc"),
    "that others cancel": (lambda: ended(None), "cancelled"),
    "for an executor that was shut down": (shut_down, "RuntimeError"),
    "for a cluster without workers": (lambda: Giving(Future(), "no worker for 60 s"), "60 s"),
}


@pytest.mark.parametrize(("lose", "found"), LOST.values(), ids=LOST.keys())
def test_a_task_is_lost(lose: Callable[[], Executor], found: str) -> None:
    with lose() as executor, pytest.raises(CompileError) as caught:
        backend(executor).compile(SMALL)
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E914" and found in f"{finding.title} {finding.found}"


def test_a_task_that_never_ends_is_left_when_the_build_is_stopped() -> None:
    class Waiting(Recording):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            threading.Timer(0.05, stopped.stop).start()
            return Future()

    with Waiting() as executor, pytest.raises(StoppedError):
        stopped = backend(executor)
        stopped.compile(SMALL)


def test_stopping_ends_what_runs_and_what_waits() -> None:
    with Recording() as executor:
        stopped = backend(executor)
        slow = replace(SMALL, label="slow")
        with ThreadPoolExecutor(2) as threads:
            waiting = [threads.submit(stopped.compile, slow) for _ in range(2)]
            while len(executor.sent) < 2 or not executor_worker._RUNNING._backends:
                time.sleep(0.01)
            stopped.stop()
            assert all(isinstance(future.exception(), StoppedError) for future in waiting)
        sent = len(executor.sent)
        with pytest.raises(StoppedError):
            stopped.compile(SMALL)
        assert len(executor.sent) == sent, "nobody is asked any more"
        assert backend(executor).compile(SMALL), "another build goes on"
    assert not executor_worker._RUNNING._backends
