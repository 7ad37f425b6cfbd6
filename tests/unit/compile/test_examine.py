"""Tests of evidence against an executable's module, HLO and objects."""

from collections.abc import Callable

import msgspec
import pytest
from jaxlib import _hlo

from aotc.base.evidence import XLA, ExecutableEvidence, LibraryWork
from aotc.base.stages import CompileJob, Executable
from aotc.compile import pass_log
from aotc.compile.binary import elf
from aotc.compile.xla import cpu_evidence, hlo_module, xla_objects
from aotc.compile.xla.cpu_evidence import examine_module
from aotc.compile.xla.hlo_module import memory_plan
from aotc.compile.xla.xla_compiler import XlaBackend

MakeJob = Callable[..., CompileJob]

GPU = """
HloModule m
fused { p = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(p) }
gemm { p = f32[8,8]{1,0} parameter(0) ROOT d = f32[8,8]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
ENTRY main {
  a = f32[8,8]{1,0} parameter(0)
  b = f32[8]{0} parameter(1)
  loop = f32[8]{0} fusion(b), kind=kLoop, calls=fused
  triton = f32[8,8]{1,0} fusion(a), kind=kCustom, calls=gemm, backend_config={"fusion_backend_config":{"kind":"__triton_gemm"}}
  blas = f32[8,8]{1,0} custom-call(a, a), custom_call_target="__cublas$lt$matmul"
  dnn = f32[8,8]{1,0} custom-call(a), custom_call_target="__cudnn$convForward"
  other = f32[8,8]{1,0} custom-call(a), custom_call_target="mine"
  wave = c64[8,5]{1,0} fft(a), fft_type=RFFT, fft_length={8}
  ROOT all = f32[8]{0} all-reduce(loop), to_apply=fused
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def varied(make_job: MakeJob) -> Executable:
    return XlaBackend().compile(make_job())


@pytest.fixture(scope="module")
def evidence(varied: Executable) -> ExecutableEvidence:
    assert varied.evidence is not None
    return varied.evidence


def test_operations_count_loops_once(evidence: ExecutableEvidence) -> None:
    assert evidence.operations["stablehlo.while"] == 1
    assert evidence.operations["stablehlo.dot_general"] == 1
    assert evidence.operations["stablehlo.add"] == 2
    assert not [name for name in evidence.operations if not name.startswith("stablehlo.")]


def test_every_step_is_a_known_kernel(varied: Executable, evidence: ExecutableEvidence) -> None:
    generated = next(place for place in evidence.placement if place.name == XLA)
    assert generated.steps == {"kernel": varied.thunks["kernel"]}
    assert len(evidence.kernels) >= 2
    assert 0 < sum(evidence.kernels.values()) < varied.memory.code_bytes


def test_every_step_has_a_place(varied: Executable, evidence: ExecutableEvidence) -> None:
    placed = sum(sum(place.steps.values()) for place in evidence.placement)
    assert placed == sum(varied.thunks.values())


def test_plan_agrees_with_xla_statistics(varied: Executable, evidence: ExecutableEvidence) -> None:
    parts = {name: part.size_bytes for name, part in evidence.plan.allocations.items()}
    assert parts["parameter"] == varied.memory.argument_bytes
    assert parts["output"] == varied.memory.output_bytes
    assert parts["temporary"] == varied.memory.temp_bytes
    assert evidence.plan.values > 1


def test_passes_that_changed_the_module_are_named(evidence: ExecutableEvidence) -> None:
    pipelines = evidence.compilation.pipelines
    assert sum(pipeline.passes for pipeline in pipelines) > 100
    assert "fusion-wrapper" in {name for pipeline in pipelines for name in pipeline.changed}


def test_options_are_told_by_name_and_counted(make_job: MakeJob, varied: Executable) -> None:
    assert varied.evidence is not None
    assert varied.evidence.compilation.options == {}
    assert varied.evidence.compilation.debug_options == 0
    job = make_job()
    options = {"xla_cpu_enable_fast_math": "True"}
    target = msgspec.structs.replace(job.target, options=options)
    changed = XlaBackend().compile(make_job(target=target)).evidence
    assert changed is not None
    assert changed.compilation.options == options
    assert changed.compilation.debug_options == 1


def test_the_hlo_is_read_as_xla_prints_it(varied: Executable) -> None:
    inside = xla_objects.contents(varied.serialized)
    module = _hlo.HloModule.from_serialized_hlo_module_proto(inside.module)
    printed = [i for c in module.computations() for i in c.instructions()]
    found = list(hlo_module.instructions(inside.module))
    assert sorted(i.name for i in found) == sorted(i.name for i in printed)
    assert hlo_module.describe_module(inside.module).instructions["while"] == 1


def test_work_of_a_gpu_is_placed_by_its_instructions() -> None:
    module = _hlo.hlo_module_from_text(GPU).as_serialized_hlo_module_proto()
    assert cpu_evidence.instruction_placement(hlo_module.instructions(module)) == (
        LibraryWork(name="XLA", steps={"fusion": 1}),
        LibraryWork(name="Triton", steps={"fusion": 1}),
        LibraryWork(name="collectives", steps={"all-reduce": 1}),
        LibraryWork(name="cuBLAS", steps={"__cublas$lt$matmul": 1}),
        LibraryWork(name="cuDNN", steps={"__cudnn$convForward": 1}),
        LibraryWork(name="cuFFT", steps={"fft": 1}),
        LibraryWork(name="custom call", steps={"mine": 1}),
    )


def test_an_accelerators_evidence_is_that_of_its_module() -> None:
    module = _hlo.hlo_module_from_text(GPU).as_serialized_hlo_module_proto()
    told = examine_module(module, {"stablehlo.add": 1}, {"xla_b": "1", "xla_a": "2"})
    assert told.optimized.fusions == {"kCustom": 1, "kLoop": 1}
    assert told.optimized.custom_calls["__cublas$lt$matmul"] == 1
    assert [place.name for place in told.placement][:2] == ["XLA", "Triton"]
    assert list(told.compilation.options) == ["xla_a", "xla_b"]
    assert told.compilation.debug_options is None


def test_work_of_a_cpu_is_placed_by_its_thunks() -> None:
    thunks = {"kernel": 3, "ynn-fusion": 2, "custom-call": 2, "while": 1, "dot": 1, "sort": 1}
    calls = {"lapack_spotrf_ffi": 1, "TopK": 1}
    assert cpu_evidence.thunk_placement(thunks, calls) == (
        LibraryWork(name="XLA", steps={"kernel": 3}),
        LibraryWork(name="Eigen", steps={"dot": 1}),
        LibraryWork(name="LAPACK", steps={"lapack_spotrf_ffi": 1}),
        LibraryWork(name="XLA runtime", steps={"TopK": 1, "sort": 1, "while": 1}),
        LibraryWork(name="YNN", steps={"ynn-fusion": 2}),
    )


def test_the_log_of_passes_is_taken_out_of_what_was_said() -> None:
    prefix = "I1121 13:45:33.590729   24433 hlo_pass_pipeline.cc:"
    pipelines, rest = pass_log.split(
        [
            "I0000 00:00:17 1 cpu_client.cc:9] a client",
            f"{prefix}303] Running HLO pass pipeline on module aotc: first one",
            f"{prefix}211]   HLO pass dce",
            f"{prefix}215]   Module hash 1",
            f"{prefix}269]   Pass caused changes dce",
            "W1121 13:45:33.590729 24433 other.cc:1] a warning",
            f"{prefix}211]   HLO pass cse",
            f"{prefix}206] HLO pass: cse time: 1 us",
            "LLVM ERROR: something",
        ]
    )
    assert rest == ["W1121 13:45:33.590729 24433 other.cc:1] a warning", "LLVM ERROR: something"]
    assert [(p.name, p.passes, p.changed) for p in pipelines] == [("first one", 2, ("dce",))]


@pytest.mark.parametrize("cut", [0, 20, 200])
def test_what_is_no_object_file_is_refused(varied: Executable, cut: int) -> None:
    data = xla_objects.contents(varied.serialized).objects[0][:cut]
    with pytest.raises(ValueError, match="ELF"):
        list(elf.functions(data))


def test_what_is_no_message_is_refused() -> None:
    for read in (hlo_module.describe_module, memory_plan):
        with pytest.raises(ValueError, match=r"byte|field|wire"):
            read(b"\x1a\xff\xff")


def test_a_target_machine_that_is_no_text_is_of_another_layout(varied: Executable) -> None:
    cpu = xla_objects.contents(varied.serialized).cpu.encode()
    with pytest.raises(xla_objects.UnknownLayoutError, match="no text"):
        xla_objects.contents(varied.serialized.replace(cpu, b"\xff" * len(cpu)))
