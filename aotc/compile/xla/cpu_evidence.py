"""The evidence of an executable for reviewers, read from its bytes.

Which work is done by code that XLA generated, and which by libraries, is known on CPU from the
thunks (openxla/xla xla/backends/cpu/runtime, one kind per class). On GPU it is known from the
instructions: custom calls into cuBLAS and cuDNN, and fusions that Triton compiles, say so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from aotc.base import evidence
from aotc.compile.binary import elf
from aotc.compile.xla import hlo_module
from aotc.compile.xla.hlo_module import Instruction, memory_plan
from aotc.compile.xla.xla_objects import Contents, UnknownLayoutError


def examine(
    inside: Contents, operations: Mapping[str, int], compilation: evidence.CompilerRecord
) -> evidence.ExecutableEvidence:
    """Return an executable's evidence. Raises UnknownLayoutError.

    `operations` are those of the module it was compiled from, by name.
    """
    try:
        optimized = hlo_module.describe_module(inside.module)
        return evidence.ExecutableEvidence(
            operations=dict(sorted(operations.items())),
            compilation=compilation,
            optimized=optimized,
            placement=thunk_placement(inside.thunks, optimized.custom_calls),
            plan=memory_plan(inside.assignment),
            kernels=kernels(inside),
        )
    except ValueError as error:
        raise UnknownLayoutError(str(error)) from error


def examine_module(
    module: bytes, operations: Mapping[str, int], options: Mapping[str, str]
) -> evidence.ExecutableEvidence:
    """Return the evidence of an accelerator's executable from its optimized module.

    `module` is a serialized HloModuleProto. Raises ValueError if it cannot be parsed.
    """
    return evidence.ExecutableEvidence(
        operations=dict(sorted(operations.items())),
        compilation=evidence.CompilerRecord(
            options=dict(sorted(options.items())), debug_options=None, pipelines=()
        ),
        optimized=hlo_module.describe_module(module),
        placement=instruction_placement(hlo_module.instructions(module)),
        plan=evidence.MemoryPlan(allocations={}, values=0, value_bytes=0),
        kernels={},
    )


def kernels(inside: Contents) -> dict[str, int]:
    """Return bytes of machine code by function, those of one name together. Raises ValueError."""
    sizes: Counter[str] = Counter()
    for data in inside.objects:
        for function in elf.functions(data):
            sizes[function.name] += len(function.code)
    return dict(sorted(sizes.items()))


_LIBRARIES = {
    "ynn-fusion": "YNN",
    "xnn-fusion": "XNN",
    "onednn-fusion": "oneDNN",
    "onednn-op": "oneDNN",
    "dot": "Eigen",
    "convolution": "Eigen",
    "fft": "DUCC",
}
_COLLECTIVES = ("all-", "reduce-scatter", "collective", "ragged-all")

_PREFIXES = {
    "lapack_": "LAPACK",
    "__cublas": "cuBLAS",
    "__cudnn": "cuDNN",
    "__cusparse": "cuSPARSE",
    "cusolver_": "cuSOLVER",
    "cu_cholesky": "cuSOLVER",
    "__onednn": "oneDNN",
    "TopK": evidence.RUNTIME,
    "__gpu$": evidence.RUNTIME,
}
"""Libraries by the prefix of their custom-call targets."""


def library_of(target: str) -> str:
    """Return the library that a custom call goes to, by its target."""
    return next(
        (name for start, name in _PREFIXES.items() if target.startswith(start)),
        evidence.CUSTOM_CALL,
    )


def thunk_placement(
    thunks: Mapping[str, int], custom_calls: Mapping[str, int]
) -> tuple[evidence.LibraryWork, ...]:
    """Return where the steps of a CPU executable are done; `custom_calls` are by target."""
    own = {kind: number for kind, number in thunks.items() if kind != "custom-call"}
    steps = {(_library_of_thunk(kind), kind): number for kind, number in own.items()}
    return _places(steps | {(library_of(name), name): n for name, n in custom_calls.items()})


def instruction_placement(instructions: Iterable[Instruction]) -> tuple[evidence.LibraryWork, ...]:
    """Return where the fusions, calls and transforms of a GPU executable are done."""
    return _places(Counter(filter(None, map(_library_of_instruction, instructions))))


def _library_of_thunk(kind: str) -> str:
    if kind == "kernel":
        return evidence.XLA
    if kind.startswith(_COLLECTIVES):
        return evidence.COLLECTIVES
    return _LIBRARIES.get(kind, evidence.RUNTIME)


def _library_of_instruction(instruction: Instruction) -> tuple[str, str] | None:
    match instruction.opcode:
        case "fusion" if b"__triton" in instruction.backend_config:
            return "Triton", "fusion"
        case "fusion" if b"__cudnn" in instruction.backend_config:
            return "cuDNN", "fusion"
        case "fusion":
            return evidence.XLA, "fusion"
        case "custom-call":
            return library_of(instruction.custom_call_target), instruction.custom_call_target
        case "fft":
            return "cuFFT", "fft"
        case opcode if opcode.startswith(_COLLECTIVES):
            return evidence.COLLECTIVES, opcode
    return None


def _places(steps: Mapping[tuple[str, str], int]) -> tuple[evidence.LibraryWork, ...]:
    """Return the steps by library, XLA first; they are counted by library and kind."""
    places: dict[str, dict[str, int]] = {}
    for name, kind in sorted(steps, key=lambda each: (each[0] != evidence.XLA, each)):
        places.setdefault(name, {})[kind] = steps[name, kind]
    return tuple(evidence.LibraryWork(name=name, steps=each) for name, each in places.items())
