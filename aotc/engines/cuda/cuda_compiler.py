"""The CUDA backend: modules to executables for described GPUs, each in a process of its own."""

from importlib.metadata import version

from msgspec.structs import replace

from aotc.base.errors import refusal
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compile_workers import WorkerBackend
from aotc.compile.xla import plugin_jobs
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.cuda import cuda_wheels, gpu_descriptions
from aotc.engines.cuda.cuda_wheels import Wheels
from aotc.engines.cuda.cuda_worker import Job
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import BuiltWith, Compilation, CudaDevice, Target
from aotc_runtime.schema.served_kernels import CUDA_BUILT_IN, cuda_module

SERVED = "cuBLAS, cuDNN, cuSOLVER, TopK, and jax's kernels for random numbers and linear algebra"


def is_allowed(target: str) -> bool:
    """Return whether the runtime can serve this target on a CUDA device."""
    return target.startswith(CUDA_BUILT_IN) or cuda_module(target) is not None


LEFT_OUT = ("autotuning", "cudnn")
"""What a compiler with a device would do as well: XLA times kernels against each other on it, and
asks cuDNN for the convolutions that it has for the device."""

OPTIONS = {"xla_gpu_enable_triton_gemm": "False", "xla_disable_hlo_passes": "conv-rewriter"}
"""Options that work without autotuning, as an H100 showed (targets.md): products by cuBLAS, since
Triton's default tilings are slow and give wrong results for int8; convolutions by XLA's own
kernels, since cuDNN refuses the call for which no algorithm was chosen. Target files may differ.
"""

PLATFORM = plugin_jobs.Platform(
    is_allowed=is_allowed, served=SERVED, correct="correct `changes` or `text` in the target file"
)


class CudaBackend(WorkerBackend):
    """XLA:GPU of the installed CUDA plugin."""

    WORKER = "aotc.engines.cuda.cuda_worker"
    platform = "cuda"

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib, XLA, and the wheels that take part.

        Raises CompileError (AOTC-E907) for wheels that are missing or do not fit.
        """
        return built_with(_wheels().versions)

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module.

        Raises:
            CompileError: AOTC-E901 the compiler rejects it, E902 it crashed, E903 it took too long,
                E904 a custom call the runtime cannot serve, E906 an unknown jaxlib, E907 wheels
                that are missing, E908 a device that cannot be compiled for.
        """
        installed = _wheels()
        device, described = _describe_device(f"{job.label} for {job.target.name}", job.target)
        text = gpu_descriptions.complete(described, device)
        request = Job(
            artifact=job.module.artifact,
            plugin=str(installed.plugin),
            text=text,
            devices=job.target.devices,
            triple=job.target.triple,
            options={**OPTIONS, **job.target.options, **job.options},
        )
        result, said = self._run(job, request)
        claims = gpu_descriptions.claims(text)
        return plugin_jobs.executable(
            job,
            result,
            said,
            PLATFORM,
            Compilation(without_device=True, left_out=LEFT_OUT, claims=claims),
        )


def self_contained(target: Target) -> Target:
    """Return the target with the installed plugin's description, which any plugin can use.

    Raises CompileError (AOTC-E907, E908).
    """
    device, text = _describe_device(f"target {target.name}", target)
    return replace(target, device=replace(device, text=text))


def _describe_device(where: str, target: Target) -> tuple[CudaDevice, str]:
    """Return a target's device and its description, the target's own or the plugin's.

    Raises:
        CompileError: AOTC-E907 without wheels, E908 for a device that the plugin does not know.
    """
    device = target.device
    assert isinstance(device, CudaDevice), "a target of the platform cuda has a CUDA device"
    known = {} if device.text else gpu_descriptions.texts_once(_wheels().plugin)
    text = device.text or known.get(device.description)
    if text is not None:
        return device, text
    hint = did_you_mean(device.description, known, "correct `device` in the target file")
    if not known:
        hint = (
            "plugins have descriptions since 0.12.0: there, `aotc targets show "
            f"{target.name} --toml` prints a target file that brings its own"
        )
    expected = f"one of: {', '.join(known)}" if known else ""
    raise refusal("AOTC-E908", where, device.description, expected=expected, hint=hint)


def _wheels() -> Wheels:
    return cuda_wheels.find(version("jaxlib"))
