"""The machine code of an executable for CUDA as assembly, by NVIDIA's nvdisasm
(`aotc[explain-cuda13]`, or one on the PATH), in a process of its own.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aotc.base.child_processes import Processes, describe_status
from aotc.base.errors import quoted, refusal
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import worker_environment
from aotc.compile.binary import elf, protobuf
from aotc.compile.compile_refusals import LINES_SHOWN
from aotc.engines.cuda import cuda_wheels

PACKAGE, TOOL = "nvidia-cuda-nvdisasm", "nvdisasm"

MACHINE = 190
"""The ELF machine number EM_CUDA."""

DEPTH_MAX = 100
"""Messages around a kernel: a few, and some more for each loop that it is in."""

SECONDS_MAX = 600.0


def cubins(message: bytes, depth: int = 0) -> Iterator[bytes]:
    """The ELF files for CUDA devices in a protobuf message, as deep as XLA nests them: it has one
    for each kernel.
    """
    if depth > DEPTH_MAX:
        return
    try:
        fields = protobuf.parse(message)
    except ValueError:
        return
    for field in fields:
        if isinstance(field.value, bytes) and elf.MAGIC in field.value:
            if field.value.startswith(elf.MAGIC) and _machine(field.value) == MACHINE:
                yield field.value
            else:
                yield from cubins(field.value, depth + 1)


def _machine(data: bytes) -> int:
    return int(struct.unpack_from("<H", data.ljust(20, b"\0"), 0x12)[0])


def disassemble(kernels: list[bytes], where: str) -> Iterator[str]:
    """The assembly of every kernel, sorted by name.

    Raises UsageError (AOTC-E057) without nvdisasm, or for a kernel that it cannot read.
    """
    tool = _tool(where)
    named = sorted((", ".join(sorted(f.name for f in _functions(each))), each) for each in kernels)
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-sass-", "") as folder:
        path = folder / "kernel.cubin"
        for name, data in named:
            path.write_bytes(data)
            yield f"{name}:  {sum(len(f.code) for f in _functions(data))} bytes"
            yield from _run(tool, path, where)


def _functions(data: bytes) -> list[elf.Function]:
    try:
        return list(elf.functions(data))
    except ValueError:
        return []


def _tool(where: str) -> str:
    packaged = cuda_wheels.file_of(PACKAGE, TOOL)
    found = str(packaged) if packaged else shutil.which(TOOL)
    if found is None:
        raise refusal("AOTC-E057", where, "", cause="nvdisasm-is-not-installed")
    return found


def _run(tool: str, path: Path, where: str) -> Iterator[str]:
    command = [tool, "-c", path.name]
    try:
        status, lines = Processes().run(
            command, path.parent, worker_environment.bare(), SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        status, lines = 1, [f"not done after {SECONDS_MAX:g} s"]
    if status != 0:
        found = quoted(describe_status(status), lines[-LINES_SHOWN:])
        raise refusal("AOTC-E057", where, found, cause="nvdisasm-failed")
    # Lines without an instruction or a label are the same for all kernels.
    yield from (f"    {line.strip()}" for line in lines if line.lstrip().startswith(("/*", ".L_")))
