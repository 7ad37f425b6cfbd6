"""Compiling: the same bytes each time, and each way to fail with a code of its own."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Executable, Module
from aotc.base.workers import worker_parent
from aotc.base.workers.worker_child import ANSWER
from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc.compile.compiler_registry import backend_for
from aotc.compile.worker_results import Result
from aotc.compile.xla import jaxlib_private, xla_objects
from aotc.compile.xla.xla_compiler import XlaBackend
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.protobuf_wire import BYTES
from aotc_runtime.schema.bundle_manifest import Target
from tests.refusals import error_of
from tests.waiting import in_threads

MakeJob = Callable[..., CompileJob]
Calling = Callable[[str, int], str]

ADD = """
module @aotc {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %b = stablehlo.add %a, %a : tensor<4xf32>
    return %b : tensor<4xf32>
  }
}
"""


WIDE = ADD.replace("4xf32", "999x999xf32").replace("stablehlo.add %a, %a", "stablehlo.tanh %a")


@pytest.fixture(scope="module")
def varied(make_job: MakeJob) -> Executable:
    return XlaBackend().compile(make_job())


def failure(backend: XlaBackend, job: CompileJob) -> CompileError:
    caught = error_of(CompileError, backend.compile, job)
    assert len(caught.findings) == 1
    assert caught.findings[0].where == f"main for {job.target.name}"
    return caught


def worker(code: str) -> XlaBackend:
    """A backend whose worker does something else."""
    return XlaBackend(worker=(sys.executable, "-c", code))


def test_compiling_twice_gives_the_same_bytes(
    make_job: MakeJob, varied: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XLA_FLAGS", "PJRT_NPROC", "NPROC", "MALLOC_ARENA_MAX", "LONG" * 99):
        monkeypatch.setenv(name, "3" if "NPROC" in name else "x" * 999)
    again = XlaBackend().compile(make_job())
    assert again.serialized == varied.serialized
    assert again.digest == varied.digest == sha256(varied.serialized)


@pytest.mark.parametrize("entries", [("x" * 200,), tuple(f"e{n}" for n in range(40))])
def test_where_packages_lie_does_not_change_the_bytes(
    entries: tuple[str, ...],
    make_job: MakeJob,
    varied: Executable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python's paths take room in memory, and XLA orders kernels by where they lie there."""
    own = [entry for entry in [os.environ.get("PYTHONPATH", "")] if entry]
    longer = os.pathsep.join([*own, *(str(tmp_path / entry) for entry in entries)])
    monkeypatch.setenv("PYTHONPATH", longer)
    assert XlaBackend().compile(make_job()).digest == varied.digest


def test_the_thread_that_compiles_imports_nothing(make_job: MakeJob, tmp_path: Path) -> None:
    """A module imported later would lie in the same arena as the compiler's own memory."""
    watched = (
        "import sys, threading\n"
        "from aotc.base.workers.worker_child import answer\n"
        "from aotc.compile.xla import xla_job as job\n"
        "from aotc.compile.xla import xla_worker as worker\n"
        "start = threading.Thread.start\n"
        "def begin(thread):\n"
        "    thread.before = set(sys.modules)\n"
        "    start(thread)\n"
        "threading.Thread.start = begin\n"
        "join = threading.Thread.join\n"
        "def end(thread):\n"
        "    join(thread)\n"
        "    new = sorted(set(sys.modules) - thread.before)\n"
        f"    print(*new, file=open({str(tmp_path / 'new')!r}, 'w'), flush=True)\n"
        "threading.Thread.join = end\n"
        "answer(job.Job, lambda job, progress: worker.compile_reproducibly(job))\n"
    )
    worker(watched).compile(make_job())
    assert (tmp_path / "new").read_text() == "\n"


def test_forks_give_same_bytes(make_job: MakeJob, varied: Executable, v3: Target) -> None:
    fewer = msgspec.structs.replace(v3, threads=1)
    jobs = [make_job(), make_job(ADD), make_job(WIDE), make_job(WIDE, fewer)]
    alone = XlaBackend(worker=worker_parent.module(XlaBackend.WORKER))
    expected = [alone.compile(job).digest for job in jobs]
    assert expected[0] == varied.digest
    forking = XlaBackend()
    for order in ([0, 1, 2, 3, 0], [3, 2, 1, 0, 3]):
        assert [forking.compile(jobs[n]).digest for n in order] == [expected[n] for n in order]
    forking.stop()


def test_parallel_compilers_give_same_bytes(make_job: MakeJob, varied: Executable) -> None:
    job = make_job()
    made = in_threads(3, lambda _: XlaBackend().compile(job))
    assert [executable.digest for executable in made] == [varied.digest] * 3


def test_stopping_ends_what_is_being_compiled(make_job: MakeJob, tmp_path: Path) -> None:
    started = tmp_path / "started"
    backend = worker(f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")

    def stop() -> None:
        while not started.exists():
            pass
        backend.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    error = failure(backend, make_job())
    thread.join()
    assert (error.code, error.findings[0].found) == ("AOTC-E902", "killed by SIGKILL")


def test_an_executable_is_described_by_what_is_inside_it(varied: Executable, v3: Target) -> None:
    inside = xla_objects.contents(varied.serialized)
    assert (inside.triple, inside.cpu) == (v3.triple, v3.cpu)
    assert len(inside.objects) >= 2
    assert varied.isa == v3.features
    assert inside.thunks == varied.thunks
    assert {"kernel", "sort"} <= varied.thunks.keys()
    assert varied.custom_call_targets == ()
    assert varied.memory.argument_bytes == 64 * 64 * 4 + 4
    assert varied.memory.output_bytes >= 64 * 64 * 4 + 64 * 4
    assert varied.cost.flops >= 2 * 64**3
    assert varied.cost.transcendentals > 0


def test_loops_are_cut_for_the_threads_of_the_target(make_job: MakeJob, v3: Target) -> None:
    made = {
        threads: XlaBackend().compile(make_job(WIDE, msgspec.structs.replace(v3, threads=threads)))
        for threads in (1, 2, 16, 4096)
    }
    assert len({executable.digest for executable in made.values()}) == len(made)
    assert {executable.diagnostics for executable in made.values()} == {()}


def test_the_processors_of_the_build_host_do_not_matter(make_job: MakeJob, v3: Target) -> None:
    pinning = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    start = "os.execv(sys.argv[1], sys.argv[1:])"
    command = worker_parent.module(XlaBackend.WORKER)
    pinned = XlaBackend(worker=(sys.executable, "-c", pinning + start, *command))
    assert pinned.compile(make_job(WIDE)).digest == XlaBackend().compile(make_job(WIDE)).digest


def test_target_options_reach_compiler(make_job: MakeJob, v3: Target, varied: Executable) -> None:
    target = msgspec.structs.replace(v3, options={"xla_cpu_enable_fast_math": "True"})
    assert XlaBackend().compile(make_job(target=target)).digest != varied.digest


@pytest.mark.parametrize(
    "options", [{"xla_no_such_option": "1"}, {"xla_cpu_enable_fast_math": "perhaps"}]
)
def test_unknown_option_is_refused(make_job: MakeJob, v3: Target, options: dict[str, str]) -> None:
    target = msgspec.structs.replace(v3, options=options)
    error = failure(XlaBackend(), make_job(ADD, target))
    assert error.code == "AOTC-E908"
    assert next(iter(options)) in error.findings[0].found


def test_a_program_that_xla_refuses_is_quoted(make_job: MakeJob, v3: Target) -> None:
    # An MLIR module without a main function.
    error = failure(XlaBackend(), make_job("module @aotc {}"))
    assert error.code == "AOTC-E901"
    assert "main" in error.findings[0].found
    job = CompileJob("main", Module(b"no artifact", sha256(b""), "", ()), v3)
    assert failure(XlaBackend(), job).code == "AOTC-E901"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os.write(2, b'LLVM ERROR: no'); os.abort()", ("SIGABRT", "LLVM ERROR: no")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ("SIGSEGV",)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ("SIGKILL",)),
        ("raise SystemExit('out of luck')", ("exit status 1", "out of luck")),
        ("pass", ("exit status 0",)),
    ],
)
def test_compiler_crash_is_reported(make_job: MakeJob, code: str, said: tuple[str, ...]) -> None:
    error = failure(worker(code), make_job(ADD))
    assert error.code == "AOTC-E902"
    assert [words for words in said if words not in error.findings[0].found] == []


FULL_DISK = """
import resource, signal
from msgspec import Struct
from aotc.compile.worker_results import Result
from aotc.base.workers.worker_child import answer

class Any(Struct):
    pass

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
answer(Any, lambda job, progress: Result(serialized=bytes(1000)))
"""


def test_worker_without_room_for_its_result_is_understood(make_job: MakeJob) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        worker(FULL_DISK).compile(make_job(ADD))


def test_what_a_crash_said_is_shown_without_the_log_of_passes(make_job: MakeJob) -> None:
    line = "I1121 13:45:33.590729 24433 hlo_pass_pipeline.cc:211]   HLO pass dce"
    code = f"import sys; sys.stderr.write('the end\\n' + {line!r} + '\\n'); raise SystemExit(3)"
    error = failure(worker(code), make_job(ADD))
    assert error.findings[0].found == "exit status 3\n| the end"


def test_a_compiler_that_does_not_end_is_stopped(make_job: MakeJob) -> None:
    backend = XlaBackend(
        worker=(sys.executable, "-c", "import time; time.sleep(60)"), seconds_max=0.3
    )
    assert failure(backend, make_job(ADD)).code == "AOTC-E903"


@pytest.mark.parametrize(
    "name",
    ["somebodys_kernel", "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"],
)
def test_unservable_custom_call_is_refused(make_job: MakeJob, calling: Calling, name: str) -> None:
    error = failure(XlaBackend(), make_job(calling(name, 4)))
    assert error.code == "AOTC-E904"
    assert error.findings[0].found == name
    assert ("callback" in error.findings[0].hint) == ("callback" in name)


def test_a_feature_that_llvm_does_not_know_is_refused(make_job: MakeJob, v3: Target) -> None:
    target = msgspec.structs.replace(v3, features=(*v3.features, "avx1024", "quantum"))
    error = failure(XlaBackend(), make_job(ADD, target))
    assert error.code == "AOTC-E905"
    assert "avx1024" in error.findings[0].found
    assert "quantum" in error.findings[0].found


def answering(serialized: bytes, folder: Path) -> XlaBackend:
    """A backend whose worker answers with these bytes, whatever it is asked for."""
    memory = dict.fromkeys(("argument", "output", "temp", "alias"), 0)
    made = folder / ANSWER
    made.write_bytes(msgspec.msgpack.encode(Result(serialized=serialized, memory=memory)))
    return worker(f"import shutil, sys; shutil.copy({str(made)!r}, sys.argv[1])")


def test_foreign_code(varied: Executable, make_job: MakeJob, v3: Target, tmp_path: Path) -> None:
    """A jaxlib that ignored the target would be found out by what is in the executable."""
    copying = answering(varied.serialized, tmp_path)
    assert copying.compile(make_job()).digest == varied.digest
    weaker = tuple(feature for feature in v3.features if feature != "avx2")
    for other in ({"features": weaker}, {"cpu": "haswell"}, {"triple": "x86_64-pc-linux-musl"}):
        error = failure(copying, make_job(target=msgspec.structs.replace(v3, **other)))
        assert error.code == "AOTC-E905"


def test_an_executable_of_unknown_layout_is_refused(make_job: MakeJob, tmp_path: Path) -> None:
    copying = answering(b"something else", tmp_path)
    assert failure(copying, make_job(ADD)).code == "AOTC-E906"


def test_a_platform_without_a_backend_is_refused() -> None:
    assert error_of(CompileError, backend_for, "abacus").code == "AOTC-E909"
    assert isinstance(backend_for("cpu"), XlaBackend)


def test_every_private_name_is_there_and_a_missing_one_is_named() -> None:
    assert jaxlib_private.missing() == []
    assert jaxlib_private.missing(["_version", "_xla.no_such_thing"]) == ["_xla.no_such_thing"]


def test_canonical_bytes_do_not_depend_on_the_order_of_object_files(varied: Executable) -> None:
    header, outer, _, index = xla_objects._split(varied.serialized)
    assert isinstance(outer[index].value, bytes)
    fields = protobuf.parse(outer[index].value)
    reversed_fields = [
        field for field in reversed(fields) if b"\x7fELF" in protobuf.serialize([field])
    ]
    slots = iter(reversed_fields)
    shuffled = [
        next(slots) if b"\x7fELF" in protobuf.serialize([field]) else field for field in fields
    ]
    assert shuffled != fields
    outer[index] = Field(outer[index].number, BYTES, protobuf.serialize(shuffled))
    other = header + protobuf.serialize(outer)
    assert other != varied.serialized
    assert xla_objects.canonical(other) == varied.serialized


def test_canonical_bytes_are_their_own_canonical_bytes(varied: Executable) -> None:
    assert xla_objects.canonical(varied.serialized) == varied.serialized
    inside = xla_objects.contents(varied.serialized)
    assert len(set(inside.objects)) == len(inside.objects)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x00", b"\x02ab\x0a\x00"])
def test_bytes_that_are_no_executable_have_no_canonical_form(data: bytes) -> None:
    error_of(xla_objects.UnknownLayoutError, xla_objects.canonical, data)
    error_of(xla_objects.UnknownLayoutError, xla_objects.contents, data)
