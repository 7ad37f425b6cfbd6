"""Descriptions of GPUs: protobuf texts that the CUDA plugin carries, and what is changed in them.

To compile for a device that is not there, XLA needs its `stream_executor.GpuTargetConfigProto`.
The plugin of jaxlib 0.12 has such a text for each of some twenty products in its data (0.11.2 has
none), each ending with a zero byte.
"""

import mmap
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from aotc_runtime.schema.bundle_manifest import CudaDevice

_START = re.compile(rb"gpu_device_info \{\n")
_NAME = re.compile(r'^device_description_str: "([^"]*)"', re.MULTILINE)
_CUDA = re.compile(r'^platform_name: "CUDA"', re.MULTILINE)
_NUMBER = re.compile(r"\A(-?\d+(\.\d+)?|true|false)\Z")
_FIELD = re.compile(r"^ *(\w+): ")
_BLOCK = re.compile(r"^ *(\w+) \{$")

ROOT = "gpu_device_info"

ASSUMED: Mapping[str, str] = {
    "driver_version": "13.0.0",
    "runtime_version": "13.0.0",
    "compile_time_toolkit_version": "13.0.0",
    "dnn_version": "9.12.0",
}
"""Versions that every description gets: the least that the CUDA 13 plugins of jaxlib 0.11.2 to
0.12.0.1 accept (the requirements of jax-cuda13-plugin). XLA writes them into executables and
refuses to load those where older versions are installed. The descriptions themselves state what
was installed where they were written.
"""

DROPPED = ("cub_version",)
"""For a version of CUB that it has measurements for, XLA asks a device how to sort, and fails where
there is none: "cudaErrorInvalidDevice". Without a version it sorts in its own, slower way."""


def texts(library: Path) -> dict[str, str]:
    """Return the descriptions of CUDA devices in a plugin's library, by name. Raises OSError."""
    found: dict[str, str] = {}
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in _START.finditer(data):
            end = data.find(b"\0", match.start())
            text = data[match.start() : end].decode("utf-8", errors="replace").strip() + "\n"
            name = _NAME.search(text)
            if name and _CUDA.search(text):
                found[name[1]] = text
    return dict(sorted(found.items()))


@cache
def texts_once(library: Path) -> Mapping[str, str]:
    """Return the descriptions of CUDA devices in an unchanging library by name, read once (0.5 s).

    Raises:
        OSError: The library cannot be read.
    """
    return texts(library)


def complete(text: str, device: CudaDevice) -> str:
    """Return a description with the assumed versions and the changes of a target."""
    return set_fields(text, {**ASSUMED, **device.changes}, DROPPED)


def set_fields(text: str, changes: Mapping[str, str], dropped: tuple[str, ...] = ()) -> str:
    """Return a text with fields set to other values, or added at the end of their block.

    Args:
        text: The description.
        changes: Value by the field's path below `gpu_device_info`, such as "core_count" or
            "cuda_compute_capability.minor", or by the name of a field beside it.
        dropped: Fields to leave out unless they are set.
    """
    stated = {key for _, _, key in _walk(text)}
    added = {key: value for key, value in changes.items() if key not in stated}
    lines: list[str] = []
    for line, blocks, key in _walk(text):
        if key in changes:
            line = f"{line.partition(': ')[0]}: {_value(changes[key])}"
        elif key in dropped:
            continue
        elif line.strip() == "}" and blocks[:1] == [ROOT]:
            lines += _additions(added, blocks)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _walk(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield each line with the blocks that it lies in, and the path of its field, if it is one."""
    blocks: list[str] = []
    for line in text.splitlines():
        field, block = _FIELD.match(line), _BLOCK.match(line)
        yield line, blocks, _path(blocks, field[1]) if field else ""
        if block:
            blocks.append(block[1])
        elif line.strip() == "}":
            blocks.pop()


def _additions(added: Mapping[str, str], blocks: list[str]) -> Iterator[str]:
    """Yield lines for the end of a block."""
    for key, value in added.items():
        parent, _, name = key.rpartition(".")
        if parent == ".".join(blocks[1:]):
            yield f"{'  ' * len(blocks)}{name}: {_value(value)}"


def claims(text: str) -> dict[str, str]:
    """Return the versions of libraries that a description states, by library."""
    stated = {
        "CUDA driver": "driver_version",
        "CUDA runtime": "runtime_version",
        "cuDNN": "dnn_version",
        "CUB": "cub_version",
    }
    found = {
        what: re.search(rf'^  {field}: "([^"]*)"', text, re.MULTILINE)
        for what, field in stated.items()
    }
    return {what: match[1] for what, match in sorted(found.items()) if match}


def _path(blocks: list[str], name: str) -> str:
    """Return a field's dotted path, without a leading `gpu_device_info`."""
    return ".".join([*(blocks[1:] if blocks[:1] == [ROOT] else blocks), name])


def _value(value: str) -> str:
    return value if _NUMBER.match(value) else f'"{value}"'
