"""An executable as calls use it, and an engine's error as one of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.protocol import Aval, Buffer, Device
from aotc_runtime.errors import AotcError, refusal
from aotc_runtime.schema.tree import Leaf, Tree
from aotc_runtime.serving import trees
from aotc_runtime.serving.resident import ResidentExecutable
from aotc_runtime.serving.telemetry import CallCounter

if TYPE_CHECKING:
    from aotc_runtime.serving.arrays import DeviceArray


class Served:
    """An executable as calls use it, with its counter.

    device: that it runs on.  masks: masks and lengths, which the loader passes, by leaf, for a call
    of exactly its sizes.
    """

    __slots__ = ("counter", "direct", "executable", "finish", "label", "masks", "outputs")

    def __init__(
        self,
        device: Device,
        executable: ResidentExecutable,
        result: Tree,
        masks: Sequence[tuple[int, DeviceArray]] = (),
    ) -> None:
        self.executable = executable
        self.label = executable.label
        self.outputs = executable.outputs
        self.direct = executable.direct
        self.masks = masks
        self.counter = CallCounter()
        self.finish = _finisher(device, result, executable.outputs)


def _finisher(
    device: Device, result: Tree, outputs: tuple[Aval, ...]
) -> Callable[[list[Buffer]], Any]:
    """From device buffers to the result of a call with numpy arrays."""
    if isinstance(result, Leaf):
        return device.reader_of_one(outputs[0])
    read, build = device.reader(outputs), trees.builder(result)
    return lambda buffers: build(read(buffers))


def failed(device: Device, label: str, error: Exception) -> AotcError:
    """The engine's error as ours (AOTC-E755)."""
    return refusal(
        "AOTC-E755",
        label,
        str(error).strip().splitlines()[0],
        expected=f"{device.engine} to run the executable",
        hint="the bundle stays usable; if memory ran out, free some or call with less",
    )
