"""Evidence of a build for reviewers, by stage: one document per target, a blob of the bundle.

Canonical JSON without floats, covered by the root digest; loaders hash it and never read it.
evidence.md describes every field. Facts of the bundle manifest (memory, cost, thunks, parity,
custom-call targets) are not repeated here.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from aotc_runtime.schema.bundle_manifest import Decimal, SignedDecimal
from aotc_runtime.schema.pytrees import INTEGER_MAX

type Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
"""A number of bytes, lines or steps, limited to what can be shown."""

XLA = "XLA"
"""Place of code that was generated for the program."""

RUNTIME = "XLA runtime"
"""Place of code that is part of XLA: copies, loops, branches, sorts."""

IREE = "IREE"
"""Place of code that IREE generated for the program."""

ONNX_RUNTIME = "ONNX Runtime"
"""Place of the work of ONNX Runtime's operators."""

OPENVINO = "OpenVINO"
"""Place of the work of OpenVINO's operators."""

COLLECTIVES = "collectives"
CUSTOM_CALL = "custom call"

LIBRARIES = (
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
"""All names of places."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts: immutable, without unknown fields."""


class FunctionCoverage(_Part, frozen=True):
    """A Python function of the program that ran while an entry point was traced.

    `name` is qualified. `lines` counts the lines with code, and `traced` those of them that ran;
    the provenance has their numbers (`aotc.base.source_locations`).
    """

    name: str
    lines: Count
    traced: Count


class Coverage(_Part, frozen=True):
    """Code that ran while an entry point's profiles were traced, by file of the program.

    Files are relative to the manifest's folder; functions are sorted by name.
    """

    files: dict[str, tuple[FunctionCoverage, ...]] = {}

    @property
    def lines(self) -> int:
        """Count the lines with code in the functions that ran."""
        return sum(f.lines for functions in self.files.values() for f in functions)

    @property
    def traced(self) -> int:
        """Count the lines of these functions that ran."""
        return sum(f.traced for functions in self.files.values() for f in functions)

    @property
    def shown_part(self) -> float:
        """Return the share of the lines that ran, rounded down to three decimals.

        Rounded down, a gate set to the share that is shown lets this entry point through.
        """
        return self.traced * 1000 // self.lines / 1000


class ControlFlow(_Part, frozen=True):
    """Control flow that is decided at run time, with all its branches traced.

    `equations` counts those of the jaxpr, nested ones included; `conditionals` each `cond` and
    `switch`, and `branches` their branches; `whiles` loops of unknown, `scans` of known length.
    """

    equations: Count = 0
    conditionals: Count = 0
    branches: Count = 0
    whiles: Count = 0
    scans: Count = 0


class Pipeline(_Part, frozen=True):
    """A pipeline of XLA's passes.

    `passes` is how many ran; `changed` lists the pass of each change of the module, in order.
    """

    name: str
    passes: Count
    changed: tuple[str, ...]


class CompilerRecord(_Part, frozen=True):
    """The options and passes of a compilation by XLA.

    `options` holds those of the target and of tuning. `debug_options` counts XLA's debug options
    that differ from the toolchain's defaults; None if the backend cannot tell. `pipelines` are in
    the order in which they began; empty where this jaxlib does not report them.
    """

    options: dict[str, str]
    debug_options: Count | None
    pipelines: tuple[Pipeline, ...]


class LibraryWork(_Part, frozen=True):
    """The part of an executable's work that one library does.

    "XLA" is code generated for this program; other names are libraries and XLA's own runtime.
    `steps` counts by kind, each step once however often it repeats.
    """

    name: str
    steps: dict[str, Count]


class Optimized(_Part, frozen=True):
    """The module after XLA's passes.

    `instructions` of all computations are by opcode, `fusions` by kind, `custom_calls` by target.
    """

    instructions: dict[str, Count]
    fusions: dict[str, Count]
    custom_calls: dict[str, Count]


class Allocations(_Part, frozen=True):
    """The buffers of one purpose, and their bytes together."""

    count: Count
    size_bytes: Count


class MemoryPlan(_Part, frozen=True):
    """XLA's buffer assignment.

    `allocations` are by purpose: "parameter", "output", "temporary", "constant", "thread-local".
    `values` counts those that share the temporaries, `value_bytes` is their size without sharing.
    """

    allocations: dict[str, Allocations]
    values: Count
    value_bytes: Count


class ExecutableEvidence(_Part, frozen=True):
    """Facts that the backend reports of one executable.

    `operations` counts the StableHLO module's by name; `kernels` is machine code bytes by symbol.
    """

    operations: dict[str, Count]
    compilation: CompilerRecord
    optimized: Optimized
    placement: tuple[LibraryWork, ...]
    plan: MemoryPlan
    kernels: dict[str, Count]


class ValueTrials(_Part, frozen=True):
    """Comparison of an executable with plain JAX on other inputs than its fixture's.

    `ran` lists kinds of inputs; `skipped` gives a reason for each other kind. `truth` lists kinds
    with results that exceed the tolerance of plain JAX's, but are at least as close to those in
    float64. `state` compares a call with the fixture before these trials with one after them:
    "identical" bytes, or "within" the tolerance, on a device whose sums have no fixed order.
    """

    ran: tuple[str, ...]
    skipped: dict[str, str]
    truth: tuple[str, ...]
    state: Literal["identical", "within"]


class ProfileEvidence(_Part, frozen=True):
    """One executable.

    `compiled` is unset if the backend reports nothing, `trials` if the build could not run it.
    """

    sizes: dict[str, Count]
    control_flow: ControlFlow
    compiled: ExecutableEvidence | UnsetType = UNSET
    trials: ValueTrials | UnsetType = UNSET


class ExpectedWithin(_Part, frozen=True):
    """The tolerance within which fixture results match those of a model's framework.

    The rule is |actual - expected| <= atol + rtol * |expected|; both are decimals. `file` is as in
    the build manifest; `not_compared` has labels of profiles for which it has no results.
    """

    file: str
    rtol: str
    atol: str
    not_compared: tuple[str, ...] = ()


class ModelOrigin(_Part, frozen=True):
    """The model file that an entry point was made from.

    `file` is as in the build manifest; `producer` names what wrote it, with versions. `narrowed`
    lists weights and inputs with 64 bits in the file and 32 here; `orders` gives the axes of
    weights that are stored in another order, as axes of the file. `expected` is unset without
    results of the framework: then the executables are compared with the converted model, and its
    conversion with nothing. `layers` counts equations of the first profile's jaxpr by the layer or
    node of the model that has them, as the file names it; equations without one are left out.
    """

    file: str
    producer: dict[str, str]
    narrowed: tuple[str, ...] = ()
    orders: dict[str, tuple[Count, ...]] = {}
    expected: ExpectedWithin | UnsetType = UNSET
    layers: dict[str, Count] = {}


class QuantizedWeight(_Part, frozen=True):
    """A weight that the build stored in fewer bits.

    Attributes:
        set: Its weights set.
        tensor: Its name in the program.
        original: Digest of its bytes there.
        was: Its element type there.
        dtype: The element type of the stored numbers.
        values: Name of the stored numbers in the same set.
        scale: Name of their scales in the same set; "" for bfloat16.
        contracted: Axes that products sum over, whose numbers share a scale.
        group: How many numbers along the last of these axes share a scale, and no others; 0 for
            one scale over all of them.
        max_error: The largest absolute difference.
        snr_db: Power of the weight over that of the differences, in decibels.
    """

    set: str
    tensor: str
    original: str
    was: str
    dtype: Literal["int8", "int4", "bfloat16"]
    values: str
    scale: str
    contracted: tuple[Count, ...]
    group: Count
    max_error: Decimal
    snr_db: SignedDecimal

    @property
    def label(self) -> str:
        """Return the weight's set and name."""
        return f"{self.set} {self.tensor}"


class Calibration(_Part, frozen=True):
    """The static scales of factors that calls round, and the data that they were computed of.

    Attributes:
        data: Digest of the evaluation data.
        samples: How many of them were called.
        units: The scale of the other factor in all products of a weight, by its set and name.
    """

    data: str
    samples: Count
    units: dict[str, Decimal]


KEPT = ("keep", "accuracy control")
"""Reasons why a weight's products stay as they are."""


class AppliedPrecision(_Part, frozen=True):
    """The precision of an entry point, and what the build did for it.

    Attributes:
        name: The build manifest's.
        quantized: The weights that are stored in fewer bits.
        kept: Weights that stay as they are, with the reason.
        activations: Whether calls round the other factors of matrix products to 8 bits: "dynamic"
            with scales of each row, "static" with calibrated ones; or both factors of all products
            to "bfloat16", but those of weights that the manifest keeps.
        products: How many products of an executable do so, at most.
        calibration: The static scales.
    """

    name: str
    quantized: tuple[QuantizedWeight, ...]
    kept: dict[str, str]
    activations: Literal["none", "dynamic", "static", "bfloat16"] = "none"
    products: Count = 0
    calibration: Calibration | UnsetType = UNSET

    @property
    def weights(self) -> Literal["int8", "int4", "bfloat16"]:
        """Return the element type of the quantized weights."""
        return "bfloat16" if self.activations == "bfloat16" else self.quantized[0].dtype

    @property
    def wide(self) -> set[tuple[str, str]] | None:
        """Return the weights whose products stay float32, among those of bfloat16, if any are."""
        if self.activations != "bfloat16":
            return None
        names = (label.split(" ", 1) for label, why in self.kept.items() if why in KEPT)
        return {(owner, tensor) for owner, tensor in names}

    @property
    def rounded(self) -> dict[tuple[str, str], float | None]:
        """Return the weights whose products round the other factor, each with its static scale."""
        units = self.calibration.units if self.calibration else {}
        return {
            (each.set, each.tensor): float(units[each.label]) if units else None
            for each in self.quantized
            if self.activations in ("dynamic", "static") and (not units or each.label in units)
        }


class EntryPointEvidence(_Part, frozen=True):
    """The coverage and the executables of one entry point.

    `profiles` are in the bundle manifest's order. `reference` is "recorded" if its fixtures'
    results were recorded elsewhere, not computed by plain JAX. `model` is unset for a function.
    With `precision`, parity's reference is plain JAX with the quantized weights. `allowance` is the
    part of the absolute tolerance that stands for numbers rounded to another step. Of `tried`
    dimensions, trials alone support a split: an exported function hides its operations.
    """

    coverage: Coverage
    profiles: tuple[ProfileEvidence, ...]
    reference: Literal["recorded"] | UnsetType = UNSET
    model: ModelOrigin | UnsetType = UNSET
    precision: AppliedPrecision | UnsetType = UNSET
    allowance: Decimal | UnsetType = UNSET
    tried: tuple[str, ...] | UnsetType = UNSET


class EngineRefusal(_Part, frozen=True):
    """The reason why an earlier engine of the list did not compile the target.

    It is of the first executable that failed: label with target, error code, compiler's message.
    """

    engine: str
    where: str
    code: str
    found: str


class Figure(_Part, frozen=True):
    """A measurement over several rounds."""

    median: Decimal
    least: Decimal
    most: Decimal


class SizeFigure(_Part, frozen=True):
    """A measurement over several rounds, in bytes."""

    median: Count
    least: Count
    most: Count


class MeasuredEngine(_Part, frozen=True, tag="measured", tag_field="status"):
    """An engine whose executables all ran and agreed with plain JAX.

    `latency_us` is the geometric mean of calls over all executables, in microseconds; `start_ms`
    the time from the start of a process to a ready bundle, in milliseconds; `memory_bytes` the peak
    of resident memory by then. `relative` is the objective divided by the first engine's, median
    over rounds, and `wins` counts the rounds in which it was better than the first.
    """

    engine: str
    latency_us: Figure
    start_ms: Figure
    memory_bytes: SizeFigure
    relative: Decimal
    wins: Count


class LeftOutEngine(_Part, frozen=True, tag="left-out", tag_field="status"):
    """An engine that did not compile or run the target, or differed from plain JAX."""

    engine: str
    reason: str


MIXED = "mixed"
"""Stands for several engines, each for some executables of a target."""


class EngineChoice(_Part, frozen=True):
    """The engine that `aotc build --tune` chose for the target, with the measurements.

    `engine` is `MIXED` where every executable has the engine that calls it fastest; `engines`, in
    the order of the list, then also has the figures of that mix. `rounds` counts calls, and
    `starts` processes. `margin` is the share of the first engine's figure that another had to save.
    """

    objective: Literal["latency", "start", "memory"]
    engine: str
    engines: tuple[MeasuredEngine | LeftOutEngine, ...]
    rounds: Count
    starts: Count
    margin: Decimal


class Evidence(_Part, frozen=True):
    """The evidence of the target whose bundle manifest refers to it.

    `schema` is that of this document. `refused` lists engines before the target's own in the list
    of the build; `chosen` is set where `--tune` measured several engines.
    """

    entry_points: dict[str, EntryPointEvidence]
    schema: Count = 1
    refused: tuple[EngineRefusal, ...] | UnsetType = UNSET
    chosen: EngineChoice | UnsetType = UNSET
