"""What a build leaves for reviewers, by stage: one document per target, a blob of the bundle.

Canonical JSON without floats, covered by the root digest; loaders hash it and never read it.
evidence.md describes every field. What is in the bundle manifest (memory, cost, thunks,
parity, custom-call targets) is not repeated here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from aotc_runtime.schema.bundle_manifest import Decimal
from aotc_runtime.schema.pytrees import INTEGER_MAX

type Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
"""A number of bytes, lines or steps. A larger one could not be shown."""

XLA = "XLA"
"""The place of code that was generated for the program."""

RUNTIME = "XLA runtime"
"""The place of code that was written once, in XLA: copies, loops, branches, sorts."""

IREE = "IREE"
"""The place of code that IREE generated for the program."""

ONNX_RUNTIME = "ONNX Runtime"
"""The place of what ONNX Runtime's operators do."""

OPENVINO = "OpenVINO"
"""The place of what OpenVINO's operators do."""

COLLECTIVES = "collectives"
CUSTOM_CALL = "custom call"

PLACES = (
    XLA,
    RUNTIME,
    COLLECTIVES,
    CUSTOM_CALL,
    "DUCC",
    "Eigen",
    IREE,
    "LAPACK",
    ONNX_RUNTIME,
    OPENVINO,
    "Triton",
    "XNN",
    "YNN",
    "cuBLAS",
    "cuDNN",
    "cuFFT",
    "cuSOLVER",
    "cuSPARSE",
    "oneDNN",
)
"""Every name of a place."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every part: immutable, no unknown fields."""


class FunctionCoverage(_Part, frozen=True):
    """A Python function of the program that ran while an entry point was traced.

    name: its qualified name.  lines: how many hold code.  traced: of these, how many ran. Which
    these are says the provenance (`aotc.base.source_locations`).
    """

    name: str
    lines: Count
    traced: Count


class Coverage(_Part, frozen=True):
    """The parts of the program that went into an entry point's modules: over all of its profiles,
    by file, as the manifest's folder has it; functions by name.
    """

    files: dict[str, tuple[FunctionCoverage, ...]] = {}

    @property
    def lines(self) -> int:
        """Lines with code in the functions that ran."""
        return sum(f.lines for functions in self.files.values() for f in functions)

    @property
    def traced(self) -> int:
        """Lines that ran, of those with code in these functions."""
        return sum(f.traced for functions in self.files.values() for f in functions)

    @property
    def shown_part(self) -> float:
        """Part of the lines that ran, of at least one: three decimals, rounded down, so that a
        gate of what is shown lets this entry point through.
        """
        return self.traced * 1000 // self.lines / 1000


class ControlFlow(_Part, frozen=True):
    """Control flow that the program leaves to run time, all of whose branches were traced.

    equations: of the jaxpr, nested ones included.  conditionals: `cond` and `switch`.  branches:
    theirs together.  whiles: loops of unknown length.  scans: of known length.
    """

    equations: Count = 0
    conditionals: Count = 0
    branches: Count = 0
    whiles: Count = 0
    scans: Count = 0


class Pipeline(_Part, frozen=True):
    """A pipeline of XLA's passes. passes: run in it.  changed: those that changed the module, in
    order, as often as they did.
    """

    name: str
    passes: Count
    changed: tuple[str, ...]


class CompilerRecord(_Part, frozen=True):
    """How XLA was asked, and what it did.

    options: by name, of the target and of tuning.  debug_options: how many of XLA's debug options
    have another value than the toolchain's default, if the backend can tell.  pipelines: in the
    order in which they began; empty where this jaxlib does not tell.
    """

    options: dict[str, str]
    debug_options: Count | None
    pipelines: tuple[Pipeline, ...]


class Place(_Part, frozen=True):
    """Who does a part of the work: "XLA" is code generated for this program, the others are
    libraries and XLA's own runtime. steps: by kind, each counted once however often it repeats.
    """

    name: str
    steps: dict[str, Count]


class Optimized(_Part, frozen=True):
    """The module after XLA's passes.

    instructions: by opcode, in all computations.  fusions: by kind.  custom_calls: by target.
    """

    instructions: dict[str, Count]
    fusions: dict[str, Count]
    custom_calls: dict[str, Count]


class Allocations(_Part, frozen=True):
    """Buffers of one purpose: how many, and their bytes together."""

    count: Count
    size_bytes: Count


class MemoryPlan(_Part, frozen=True):
    """XLA's buffer assignment.

    allocations: by purpose: "parameter", "output", "temporary", "constant", "thread-local".
    values: how many values share the temporaries.  value_bytes: what those would take without
    sharing.
    """

    allocations: dict[str, Allocations]
    values: Count
    value_bytes: Count


class ExecutableEvidence(_Part, frozen=True):
    """What the backend knows of one executable.

    operations: of the StableHLO module, by name.  kernels: bytes of machine code by symbol.
    """

    operations: dict[str, Count]
    compilation: CompilerRecord
    optimized: Optimized
    placement: tuple[Place, ...]
    plan: MemoryPlan
    kernels: dict[str, Count]


class ValueTrials(_Part, frozen=True):
    """Other inputs than its fixture's that an executable was compared with plain JAX on.

    ran: kinds of inputs.  skipped: the other kinds, each with why.  truth: kinds with results
    beyond the tolerance of plain JAX's, which are at least as close to those in float64.  state:
    "identical" if two calls with the fixture, one before and one after these, gave the same bytes;
    "within" if the same within the tolerance, on a device that adds up in another order each time.
    """

    ran: tuple[str, ...]
    skipped: dict[str, str]
    truth: tuple[str, ...]
    state: Literal["identical", "within"]


class ProfileEvidence(_Part, frozen=True):
    """One executable. compiled: nothing where its backend says nothing.  trials: nothing where the
    build could not run it.
    """

    sizes: dict[str, Count]
    control_flow: ControlFlow
    compiled: ExecutableEvidence | UnsetType = UNSET
    trials: ValueTrials | UnsetType = UNSET


class ExpectedWithin(_Part, frozen=True):
    """The results of fixtures were compared with what the framework of a model gave for them, and
    were within atol + rtol * |expected|; both are decimals. file: as the build manifest has it.
    """

    file: str
    rtol: str
    atol: str


class ModelOrigin(_Part, frozen=True):
    """The model file that an entry point was made of. file: as the build manifest has it.
    producer: what wrote it, with versions.  narrowed: weights and inputs that have 64 bits in the
    file and 32 here.  orders: of weights that are stored with their axes in another order, that of
    the file's axes.  expected: absent if nothing says what its framework computes: then the
    executables are compared with the converted model, and its conversion with nothing.  layers:
    equations of the first profile's jaxpr by the layer or node of the model that has them, as the
    file names it; those that belong to none are left out.
    """

    file: str
    producer: dict[str, str]
    narrowed: tuple[str, ...] = ()
    orders: dict[str, tuple[Count, ...]] = {}
    expected: ExpectedWithin | UnsetType = UNSET
    layers: dict[str, Count] = {}


class EntryPointEvidence(_Part, frozen=True):
    """profiles: in the bundle manifest's order.  reference: "recorded" if the results of its
    fixtures were recorded elsewhere; otherwise plain JAX computed them at the build.  model: absent
    for a function.
    """

    coverage: Coverage
    profiles: tuple[ProfileEvidence, ...]
    reference: Literal["recorded"] | UnsetType = UNSET
    model: ModelOrigin | UnsetType = UNSET


class EngineRefusal(_Part, frozen=True):
    """Why an engine that was asked before did not compile the target: for the first executable that
    it refused, its label with the target, the error's code, and the compiler's words.
    """

    engine: str
    where: str
    code: str
    found: str


class Figure(_Part, frozen=True):
    """What was measured in several rounds."""

    median: Decimal
    least: Decimal
    most: Decimal


class SizeFigure(_Part, frozen=True):
    """What was measured in several rounds, in bytes."""

    median: Count
    least: Count
    most: Count


class MeasuredEngine(_Part, frozen=True, tag="measured", tag_field="status"):
    """An engine whose executables all ran and agreed with plain JAX.

    latency_us: of a call, the geometric mean over all executables, microseconds.  start_ms: from
    the start of a process to a bundle that is ready, milliseconds.  memory_bytes: the most that is
    resident by then.  relative: of the objective, to the first engine's, median over rounds.  wins:
    rounds in which it was better than the first.
    """

    engine: str
    latency_us: Figure
    start_ms: Figure
    memory_bytes: SizeFigure
    relative: Decimal
    wins: Count


class LeftOutEngine(_Part, frozen=True, tag="left-out", tag_field="status"):
    """An engine that did not compile or did not run the target, or differed from plain JAX."""

    engine: str
    reason: str


MIXED = "mixed"
"""Stands for several engines, each for some executables of a target."""


class EngineChoice(_Part, frozen=True):
    """Which engine `aotc build --tune` took for the target, and why.

    engine: `MIXED` where every executable has the one that calls it fastest, which is then among
    the engines as well, with the figures of the whole.
    engines: those of the list that were tried, in its order.  rounds: of calls; starts: of
    processes.  margin: what part of the first one's figure another had to save.
    """

    objective: Literal["latency", "start", "memory"]
    engine: str
    engines: tuple[MeasuredEngine | LeftOutEngine, ...]
    rounds: Count
    starts: Count
    margin: Decimal


class Evidence(_Part, frozen=True):
    """One target, that of the bundle manifest which refers to it. schema: of this document.
    refused: by the engines that stand before the target's own in the list of the build.  chosen: by
    measurement, where the build had several engines to choose among.
    """

    entry_points: dict[str, EntryPointEvidence]
    schema: Count = 1
    refused: tuple[EngineRefusal, ...] | UnsetType = UNSET
    chosen: EngineChoice | UnsetType = UNSET
