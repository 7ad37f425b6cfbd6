"""The bundle manifest: one per target, the config blob of that target's OCI image manifest.

Written by `aotc`, read by everyone; canonical JSON (see `aotc_runtime.base.canonical_json`), so it
holds no
floats: tolerances and measured errors are decimal strings. The meaning of every field is also in
docs/reference/bundle-format.md.

A reader takes its own major version and any minor version it knows; the table of versions and
the rule for new ones are there, too.
"""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from aotc_runtime.schema.pytrees import INTEGER_MAX, Tree

FIRST_VERSION, SECOND_VERSION, FORMAT_VERSION = "1.0", "1.1", "1.1"
"""The first version, the one that added assets, packed weights and rounded activations, and the
newest known here."""

Digest = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Size = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Count = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")]
Decimal = Annotated[str, Meta(pattern=r"\A([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|inf|nan)\Z")]
"""A non-negative number as `repr(float)` writes it."""
SignedDecimal = Annotated[str, Meta(pattern=r"\A-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?\Z")]
"""A finite number as `repr(float)` writes it."""
MetricName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_.:]{0,255}\Z")]
"""A metric: "top1", "top5", "rmse", or a function as "package.module:function"."""
Capability = Annotated[str, Meta(pattern=r"\A[0-9]{1,2}\.[0-9]\Z")]
"""A CUDA compute capability, "9.0"."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every part of the manifest: immutable, no unknown fields."""


class CudaDevice(_Part, frozen=True, tag="cuda", tag_field="family", omit_defaults=True):
    """An NVIDIA GPU.

    `description` names the description that was compiled for, with `changes` that the target file
    makes to its fields; `text` is that description unless it is the CUDA plugin's. `kinds` are
    product names of the devices that may run the code, as the driver states them.
    """

    description: str
    compute_capability: Capability
    kinds: tuple[str, ...]
    changes: dict[str, str] = {}
    text: str = ""


class TpuDevice(_Part, frozen=True, tag="tpu", tag_field="family"):
    """Chips of a TPU slice, with the topology as libtpu ("v5e:2x2") and kinds as jax names them."""

    topology: str
    kinds: tuple[str, ...]


type TargetDevice = CudaDevice | TpuDevice


class DeviceRequirements(_Part, frozen=True, omit_defaults=True):
    """Requirements on a host's accelerators.

    `kinds` are product names, of which the device has one. `memory_bytes` must be free on each
    device. `plugin` is the distribution of the PJRT plugin, or of another engine, and
    `accepts_plugin` its versions that the evidence covers. `compute_capability` is of CUDA devices.
    `driver` is the CUDA version that the driver must support at least, "13.0".
    """

    kinds: tuple[str, ...]
    memory_bytes: Size
    plugin: str
    accepts_plugin: tuple[str, ...]
    compute_capability: Capability | None = None
    driver: str | None = None


class Compilation(_Part, frozen=True):
    """The way executables for an accelerator were compiled.

    `without_device` is true if compiled from a description, on a machine that may have no device.
    `left_out` has the steps that are then replaced by defaults, such as "autotuning". `claims` are
    versions that the description states and the executables repeat; XLA refuses to load them where
    less is installed.
    """

    without_device: bool
    left_out: tuple[str, ...]
    claims: dict[str, str]


DEVICES_MAX = 65536
"""More than any machine has; a mesh of more is a mistake or an attack."""

AxisName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]

type Sharding = tuple[tuple[AxisName, ...], ...]
"""For each axis of a tensor, the axes of the mesh that it is cut by, the first of them varying
slowest; () if it is not cut at all. Axes of the mesh that are not named hold copies."""


class MeshAxis(_Part, frozen=True):
    """A named axis of a mesh; `size` is the number of devices along it."""

    name: AxisName
    size: Annotated[int, Meta(ge=1, le=DEVICES_MAX)]


class Mesh(_Part, frozen=True):
    """An array of devices with named axes (docs/reference/bundle-format.md, "Mesh and shardings").

    `devices` has the number of the device, among those of the process, at each place of the mesh,
    the last axis varying fastest.
    """

    axes: tuple[MeshAxis, ...]
    devices: tuple[Annotated[int, Meta(ge=0, le=INTEGER_MAX)], ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each axis, in their order."""
        return {axis.name: axis.size for axis in self.axes}


class OutOfProfilePolicy(StrEnum):
    """The policy for a call whose size in a dimension matches no profile.

    Each goes further than the one before: the call is rejected, served by an executable for every
    size, padded to the next profile, split into several calls, or compiled for its sizes from the
    bundled module.
    """

    FAIL = "fail"
    RANGE = "range"
    PAD = "pad"
    SPLIT = "split"
    COMPILE = "compile"


class DType(StrEnum):
    """Element types, by their numpy and ml_dtypes names."""

    BOOL = "bool"
    INT4 = "int4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT4 = "uint4"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT8_E3M4 = "float8_e3m4"
    FLOAT8_E4M3 = "float8_e4m3"
    FLOAT8_E4M3B11FNUZ = "float8_e4m3b11fnuz"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT8_E8M0FNU = "float8_e8m0fnu"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"


class KeyImpl(StrEnum):
    """Implementations of typed random keys, by jax's names for them.

    Key data are uint32 with the implementation's words in a last axis.
    """

    THREEFRY2X32 = "threefry2x32"
    RBG = "rbg"
    UNSAFE_RBG = "unsafe_rbg"


class ParameterKind(StrEnum):
    """The ways to pass a parameter, named as `inspect.Parameter`'s kinds."""

    POSITIONAL_ONLY = "positional_only"
    POSITIONAL_OR_KEYWORD = "positional_or_keyword"
    KEYWORD_ONLY = "keyword_only"


class BlobRef(_Part, frozen=True):
    """A blob of the same OCI layout; `size` is in bytes."""

    digest: Digest
    size: Size


class TensorSpec(_Part, frozen=True, omit_defaults=True):
    """One array of an entry point.

    Attributes:
        path: Names from the parameter (or the result) down to the leaf, joined by "/".
        dtype: The dtype of the array.
        shape: An integer, or an expression over dimension names such as "batch", "2*seq+1" or
            "batch*seq"; "?" where the axis varies in a way that is not multilinear.
        weak_type: Whether a Python scalar result has jax's weak typing.
        key_impl: The implementation of typed random keys; dtype and shape are of their data.
        sharding: Over the bundle's mesh; () for a tensor that every device holds whole.
    """

    path: str
    dtype: DType
    shape: tuple[Size | str, ...]
    weak_type: bool
    key_impl: KeyImpl | None = None
    sharding: Sharding = ()


class Parameter(_Part, frozen=True):
    """One parameter of an entry point, as the caller passes it."""

    name: str
    kind: ParameterKind
    tree: Tree
    donated: bool


class InputArgument(_Part, frozen=True, tag="input", tag_field="from"):
    """An executable argument that a call passes: `leaf` is the index into the entry point's inputs.

    If `aliased`, XLA may reuse the buffer for an output, which makes it unusable afterwards.
    """

    leaf: Count
    aliased: bool


class WeightArgument(_Part, frozen=True, tag="weight", tag_field="from"):
    """An executable argument bound at load: a tensor of a weights set."""

    set: str
    tensor: str


type Argument = InputArgument | WeightArgument


class ParityRan(_Part, frozen=True, tag="ran", tag_field="status"):
    """The executable ran its fixture on the build host against plain JAX.

    `max_abs` and `max_rel` are the largest absolute and relative error over all outputs, `ulp_max`
    the largest distance in units in the last place. `elements` counts the numbers compared. `worst`
    is the path of the output with the largest error against its tolerance.
    """

    max_abs: Decimal
    max_rel: Decimal
    ulp_max: Count
    elements: Count
    worst: str


class ParityNotRun(_Part, frozen=True, tag="not-run-here", tag_field="status"):
    """The build host could not run the executable; says why. Never counts as passed."""

    reason: str


type Parity = ParityRan | ParityNotRun


class Memory(_Part, frozen=True):
    """XLA's memory analysis of one executable, in bytes.

    `alias_bytes` are outputs that take an argument's place. `code_bytes` are the object files,
    since XLA's own count of code is 0 on CPUs.
    """

    argument_bytes: Size
    output_bytes: Size
    temp_bytes: Size
    alias_bytes: Size
    code_bytes: Size


class Cost(_Part, frozen=True):
    """XLA's cost analysis of one executable: operation and byte counts."""

    flops: Count
    transcendentals: Count
    bytes_accessed: Count


class MeasuredCandidate(_Part, frozen=True, tag="measured", tag_field="status"):
    """The measurement of a compilation variant.

    Attributes:
        p50_us: median of a call, microseconds.
        relative: ratio to the default's, median over rounds in which all took turns.
        wins: rounds in which it was faster than the default.
    """

    name: str
    p50_us: Decimal
    relative: Decimal
    wins: Count


class LeftOutCandidate(_Part, frozen=True, tag="left-out", tag_field="status"):
    """A candidate that did not compile, crashed, or differed from plain JAX."""

    name: str
    reason: str


type TuningCandidate = MeasuredCandidate | LeftOutCandidate


class Tuned(_Part, frozen=True):
    """The choice of `aotc build --tune` for an executable, and its reasons.

    `choice` is the candidate's name, "default" for the untuned executable, and `options` are the
    compiler's beside the target's. `captured` weights are constants in the executable instead of
    arguments; the weights sets hold them as well. `candidates` were tried, the default first, for
    `rounds` turns each. `margin` is the part of the default's time that another choice had to save.
    `processor`, `threads` and `jaxlib` describe the measuring host.
    """

    choice: str
    options: dict[str, str]
    captured: tuple[WeightArgument, ...]
    candidates: tuple[TuningCandidate, ...]
    rounds: Count
    margin: Decimal
    processor: str
    threads: Positive
    jaxlib: str


class Precision(_Part, frozen=True):
    """The precision in which the build stored weights.

    `name` is the build manifest's; `weights` is the element type of those that were quantized. In
    calls, `activations` are rounded to 8 bits, by row or calibrated; or all factors to bfloat16.
    """

    name: Name
    weights: Literal["int8", "int4", "bfloat16"]
    activations: Literal["dynamic", "static", "bfloat16"] | UnsetType = UNSET


class ProfileRecord(_Part, frozen=True):
    """One executable: an entry point compiled for one shape profile.

    `sizes` is by dimension name; `input_shapes` and `output_shapes` are concrete, in leaf order.
    `arguments` are the executable's, in its order (arguments XLA never reads are left out).
    `custom_call_targets` must be registered before the executable is deserialized. `thunks` counts
    the steps of each kind XLA emitted ("kernel" is generated code; the others are library calls and
    control flow). `tuned` exists in a build with `--tune` or `--tuning`. `platform` is one of
    `requires.engines`, for another engine than the target's. `precision` is of weights that the
    build quantized.
    """

    sizes: dict[str, Positive]
    input_shapes: tuple[tuple[Size, ...], ...]
    output_shapes: tuple[tuple[Size, ...], ...]
    arguments: tuple[Argument, ...]
    module: BlobRef
    executable: BlobRef
    fixture: BlobRef
    parity: Parity
    memory: Memory
    cost: Cost
    custom_call_targets: tuple[str, ...]
    thunks: dict[str, Count]
    tuned: Tuned | UnsetType = UNSET
    platform: str | UnsetType = UNSET
    precision: Precision | UnsetType = UNSET


class Tolerance(_Part, frozen=True):
    """|actual - expected| <= atol + rtol * |expected|; integers and booleans must be equal."""

    rtol: Decimal
    atol: Decimal


class LiftedConstant(_Part, frozen=True):
    """An array the function closed over, moved to the weights set "closure" by the capture."""

    tensor: str
    dtype: DType
    shape: tuple[Size, ...]


class TrialRan(StrEnum):
    """The code that a trial ran.

    This is the target's executable or, if the build host cannot run it, the function in plain JAX.
    """

    EXECUTABLE = "executable"
    PLAIN_JAX = "plain-jax"


class Trial(_Part, frozen=True):
    """One comparison of a call that was padded or split with one of exactly its sizes.

    `sizes` are the call's; `profile` those it was padded to, or split into. `fill` is the padding:
    "declared", or a value that shows whatever leaks, such as "nan" or "largest"; "" for a split.
    `max_abs`, `max_rel` and `ulp_max` are over all results, after cutting or joining. `ran` tells
    what was padded or split. `inputs` are the numbers of the call, as the bundle format's page
    lists them.
    """

    sizes: dict[str, Positive]
    profile: dict[str, Positive]
    fill: str
    max_abs: Decimal
    max_rel: Decimal
    ulp_max: Count
    ran: TrialRan = TrialRan.EXECUTABLE
    inputs: str = "fixture"


class Pad(_Part, frozen=True, tag="pad", tag_field="policy"):
    """Fill the inputs up to the next profile, and cut every output axis that carries the dimension.

    `fill` has the number that an input's padding is filled with, by path, as Python writes it; 0
    (false) for the others. `mask` is a boolean array that the loader passes, not the caller: true
    where the dimension is real; where several dimensions name the same one, true where all of them
    are. `length` is likewise the real size as an integer scalar. `proof` shows that padding changes
    nothing.
    """

    fill: dict[str, str]
    mask: str
    length: str
    proof: tuple[Trial, ...]


class Split(_Part, frozen=True, tag="split", tag_field="policy"):
    """Call several times and join the outputs.

    Every input and output has the dimension on at most one axis, and by itself.
    """

    proof: tuple[Trial, ...]


class CompileHere(_Part, frozen=True, tag="compile", tag_field="policy"):
    """Compile the symbolic module in the background, if the deployment's policy allows it.

    Attributes:
        meanwhile: policy of calls until the executable is compiled; without it they are rejected.
        most: executables kept; beyond it, the least recently used is released.
        seconds: timeout of a compilation.
    """

    most: Positive
    seconds: Positive
    meanwhile: Pad | Split | UnsetType = UNSET


class Range(_Part, frozen=True, tag="range", tag_field="policy"):
    """Call the executable of the profiles: it is one for all that differ in nothing else."""


type DimensionPolicy = Pad | Split | CompileHere | Range


class Symbolic(_Part, frozen=True):
    """The entry point for all accepted sizes at once.

    `module` is StableHLO whose @main has symbolic dimensions, each determined by the shapes of its
    `arguments`, which are in its order. `stablehlo` is the version of the artifact, "1.18.0".
    """

    module: BlobRef
    arguments: tuple[Argument, ...]
    stablehlo: str | UnsetType = UNSET


class EvaluationRan(_Part, frozen=True, tag="ran", tag_field="status"):
    """A metric of the executables on the build host.

    Attributes:
        value: The metric.
        low: Lower end of its 95 % confidence interval.
        high: Upper end of that interval.
        method: How the interval was computed.
        drop: By how much the value is worse than the reference; negative if it is better.
    """

    value: SignedDecimal
    low: SignedDecimal
    high: SignedDecimal
    method: Literal["wilson", "bootstrap"]
    drop: SignedDecimal


class Evaluation(_Part, frozen=True):
    """A task metric of an entry point, computed with labeled data.

    Attributes:
        metric: Its name, by which a trust policy requires it.
        better: Whether larger or smaller values are better.
        samples: Number of samples.
        data: Digest of the data.
        reference: The metric of plain JAX on the same data.
        result: The metric of this target, or why it was not computed.
        code: Digest of the file with a metric that is not built in.
    """

    metric: MetricName
    better: Literal["higher", "lower"]
    samples: Positive
    data: Digest
    reference: SignedDecimal
    result: EvaluationRan | ParityNotRun
    code: Digest | UnsetType = UNSET


class EntryPoint(_Part, frozen=True):
    """A named pure function.

    `dimensions` are those its inputs use, sorted, and `relations` must hold between them, such as
    "batch*seq <= 16384". `out_of_profile` is by dimension; an out-of-profile call in a dimension
    that is not listed is rejected. `specialized` has dimensions by whose size the program decides,
    with the place, so that every profile may be another function. `symbolic` can be compiled for
    other sizes, only for a policy that compiles. `parameters` are those of a call, in the
    function's order. `bound` maps a parameter to its weights set, `static` to the Python literal it
    was fixed to. `lifted` are closed-over arrays that became weights. `numerics` is "finite" if NaN
    and infinities are no arguments and no results of it, so that the build did not compare them
    with plain JAX. `evaluations` are by task metrics.
    """

    function: str
    parameters: tuple[Parameter, ...]
    inputs: tuple[TensorSpec, ...]
    result: Tree
    outputs: tuple[TensorSpec, ...]
    dimensions: tuple[str, ...]
    relations: tuple[str, ...]
    out_of_profile: dict[str, DimensionPolicy]
    bound: dict[str, str]
    static: dict[str, str]
    tolerance: Tolerance
    lifted: tuple[LiftedConstant, ...]
    profiles: tuple[ProfileRecord, ...]
    specialized: dict[str, str] = {}
    symbolic: Symbolic | UnsetType = UNSET
    numerics: Literal["finite"] | UnsetType = UNSET
    evaluations: tuple[Evaluation, ...] | UnsetType = UNSET


class Dimension(_Part, frozen=True):
    """The accepted sizes of a named dimension: both ends included, and multiples of one number."""

    minimum: Positive
    maximum: Positive
    multiple_of: Positive

    def __contains__(self, size: int) -> bool:
        return self.minimum <= size <= self.maximum and size % self.multiple_of == 0

    @property
    def smallest(self) -> int:
        """The smallest accepted size."""
        return -(-self.minimum // self.multiple_of) * self.multiple_of

    @property
    def largest(self) -> int:
        """The largest accepted size."""
        return self.maximum // self.multiple_of * self.multiple_of

    @property
    def is_empty(self) -> bool:
        """Return whether no size is accepted."""
        return self.smallest > self.largest


class WeightTensor(_Part, frozen=True, omit_defaults=True):
    """One tensor of a weights set, sharded like a TensorSpec; the blobs hold it whole.

    `packed` is the element type of numbers of which a byte holds two.
    """

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    sharding: Sharding = ()
    packed: Literal["int4"] | UnsetType = UNSET


class WeightSet(_Part, frozen=True):
    """Tensors that lie in one or more safetensors blobs, so that all cores can hash them.

    `origin` is "source", "init" or "closure". `tensors` are of all blobs, in the data's order.
    """

    blobs: tuple[BlobRef, ...]
    origin: str
    tensors: tuple[WeightTensor, ...]


class Target(_Part, frozen=True, omit_defaults=True):
    """The machine that was compiled for, as the target file describes it.

    `platform` determines the engine (`engine_name`). `features` are LLVM feature names the code may
    use; `tuning` has attributes that shape code generation but require nothing of the host.
    `threads` is the number of threads loops are split for. For an accelerator, and for another
    engine than XLA, these describe its host: cpu is "", features and tuning are empty, threads 1.
    `device` is the accelerator; UNSET for a CPU and for other engines. `devices` is the number of
    devices that executables may be sharded over.
    """

    name: Name
    platform: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    tuning: tuple[str, ...]
    threads: Positive
    options: dict[str, str]
    device: TargetDevice | UnsetType = UNSET
    devices: Positive = 1


XLA = "xla"
XLA_PLATFORMS = ("cpu", "cuda", "tpu")


def engine_of(platform: str) -> str:
    """Return the engine of a platform, as an entry point of `aotc_runtime.engines` names it.

    A platform that is not XLA's is named after its engine: `NAME` or `NAME-DEVICES`, such as
    "iree-vulkan" for the devices that the engine "iree" calls vulkan.
    """
    return XLA if platform in XLA_PLATFORMS else platform.partition("-")[0]


def engine_name(target: Target) -> str:
    """Return the engine that runs a target's executables, but for those of another one."""
    return engine_of(target.platform)


class Requirements(_Part, frozen=True):
    """Requirements on a host, compared with `HostFacts` before anything is deserialized.

    `isa` are processor features in LLVM's spelling. `memory_bytes` covers weights and the inputs,
    outputs and temporaries of a call of the largest executable. `device` is for accelerators, whose
    memory counts separately. `engines` is by platform, for engines that run some of the executables
    beside the target's own.
    """

    platform: str
    architecture: str
    isa: tuple[str, ...]
    devices: Positive
    custom_call_targets: tuple[str, ...]
    memory_bytes: Size
    device: DeviceRequirements | UnsetType = UNSET
    engines: dict[str, DeviceRequirements] | UnsetType = UNSET


class BuiltWith(_Part, frozen=True, omit_defaults=True):
    """The toolchain.

    `xla` and `ifrt` are jaxlib's interface versions. `tools` has the versions of other
    distributions that took part in compiling for an accelerator, such as its plugin.
    """

    aotc: str
    jax: str
    jaxlib: str
    jaxlib_commit: str
    xla: Count
    ifrt: Count
    stablehlo: str
    tools: dict[str, str] = {}


_COMPONENT = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
AssetName = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
AssetPath = Annotated[str, Meta(pattern=rf"\A{_COMPONENT}(/{_COMPONENT}){{0,15}}\Z")]


class Asset(_Part, frozen=True):
    """A file, or the files below a folder, by path; no loader parses them."""

    kind: Literal["file", "folder"]
    files: dict[AssetPath, BlobRef]


class BundleManifest(_Part, frozen=True):
    """One target of a bundle.

    Attributes:
        accepts_jaxlib: the jaxlib versions that the evidence covers.
        assets: files that travel with the program, by name.
        compilation: how executables for an accelerator were compiled.
        evidence: for reviewers; no loader reads it.
        mesh: the devices that every executable runs on, else a single one.
    """

    format_version: str
    name: Name
    version: str
    target: Target
    requires: Requirements
    built_with: BuiltWith
    accepts_jaxlib: tuple[str, ...]
    dimensions: dict[str, Dimension]
    weights: dict[str, WeightSet]
    entry_points: dict[str, EntryPoint]
    compilation: Compilation | UnsetType = UNSET
    evidence: BlobRef | UnsetType = UNSET
    mesh: Mesh | UnsetType = UNSET
    assets: dict[AssetName, Asset] | UnsetType = UNSET

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that its executables are for, the target's first."""
        return (self.target.platform, *(self.requires.engines or ()))

    def platform_of(self, record: ProfileRecord) -> str:
        """Return the platform of an executable."""
        return self.target.platform if record.platform is UNSET else record.platform
