"""The TPU backend: modules to executables for described slices, each in a process of its own."""

from pathlib import Path

from aotc.base.stages import CompileJob, Executable
from aotc.base.workers import worker_environment
from aotc.compile.compile_workers import WorkerBackend
from aotc.compile.xla import plugin_jobs
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.tpu import tpu_topologies, tpu_wheels
from aotc.engines.tpu.tpu_worker import Job
from aotc_runtime.schema.bundle_manifest import BuiltWith, Compilation, TpuDevice
from aotc_runtime.schema.served_kernels import TPU_BUILT_IN, is_tpu_call

PLATFORM = plugin_jobs.Platform(
    is_allowed=is_tpu_call,
    served=f"those that libtpu makes code of: {', '.join(TPU_BUILT_IN)}",
    correct="correct `topology`, `kinds` or `devices` in the target file",
)
"""Other custom calls have no code for a TPU, above all those into LAPACK, which are for CPUs."""


class TpuBackend(WorkerBackend):
    """XLA:TPU of the installed libtpu."""

    WORKER = "aotc.engines.tpu.tpu_worker"
    platform = "tpu"

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib, XLA and libtpu. Raises CompileError (AOTC-E907)."""
        return built_with({tpu_wheels.PLUGIN: tpu_wheels.find()[1]})

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module.

        Raises:
            CompileError: AOTC-E901 the compiler rejects it, E902 it crashed, E903 it took too long,
                E904 a custom call the runtime cannot serve, E906 an unknown jaxlib, E907 libtpu is
                missing or does not fit, E908 a topology that it does not know.
        """
        device = job.target.device
        assert isinstance(device, TpuDevice), "a target of the platform tpu has a TPU device"
        library, _ = tpu_wheels.find()
        request = Job(
            artifact=job.module.artifact,
            plugin=str(library),
            topology=device.topology,
            description=tpu_topologies.parse(device.topology).options,
            kinds=device.kinds,
            devices=job.target.devices,
            options={**job.target.options, **job.options},
        )
        result, said = self._run(job, request, _environment)
        return plugin_jobs.executable(
            job, result, said, PLATFORM, Compilation(without_device=True, left_out=(), claims={})
        )


def _environment(folder: Path) -> dict[str, str]:
    """Variables that keep libtpu, which takes this for a machine with TPUs, from looking for them.

    Without them it asks the cloud's metadata server for minutes, and lets only one process at a
    time use it, by a lock file in /tmp.
    """
    return worker_environment.bare(
        TPU_SKIP_MDS_QUERY="1",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        # The slice that this machine claims to be part of; what is compiled for is described apart.
        TPU_ACCELERATOR_TYPE="v5litepod-1",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_WORKER_ID="0",
        TPU_LOG_DIR=str(folder),
        TMPDIR=str(folder),
    )
