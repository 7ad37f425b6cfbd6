"""Running one executable on the input leaves of a call, and using up what the call donates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from aotc_runtime.engines.protocol import Aval, Buffer, Device
from aotc_runtime.errors import AotcError, BackendError, Finding, ResourceError, ShapeError
from aotc_runtime.schema.tree import Leaf, Tree
from aotc_runtime.serving import trees
from aotc_runtime.serving.arrays import DeviceArray
from aotc_runtime.serving.resident import ResidentExecutable
from aotc_runtime.serving.telemetry import CallCounter

Array = np.ndarray[Any, Any]
_MODULES = sys.modules


class Served:
    """An executable as calls use it, with its counter.

    device: that it runs on.  supplied: inputs that the loader passes, by leaf, for a call of
    exactly its sizes.
    """

    __slots__ = ("counter", "direct", "executable", "finish", "label", "outputs", "supplied")

    def __init__(
        self,
        device: Device,
        executable: ResidentExecutable,
        result: Tree,
        supplied: Sequence[tuple[int, DeviceArray]] = (),
    ) -> None:
        self.executable = executable
        self.label = executable.label
        self.outputs = executable.outputs
        self.direct = executable.direct
        self.supplied = supplied
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


class Execution:
    """Runs the executables of one entry point. donated: the leaves that its calls use up."""

    def __init__(self, device: Device, name: str, donated: Sequence[int]) -> None:
        self.device = device
        self._name = name
        self.donated = frozenset(donated)

    def execute(self, served: Served, leaves: list[Any]) -> list[Buffer]:
        """Run it on the calling thread. leaves: numpy arrays and DeviceArrays of its shapes.

        Raises BackendError (AOTC-E754, E755), ShapeError (AOTC-E631, E632).
        """
        device = self.device
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        if (
            served.direct is None
            or "jax" in _MODULES
            or device.was_forked
            or any(type(leaf) is DeviceArray and leaf.device is not device for leaf in leaves)
        ):
            arguments, claimed = self.arguments(served.executable, leaves)
            return self.run(served.executable, arguments, claimed)
        buffers = [leaf.buffer() if type(leaf) is DeviceArray else leaf for leaf in leaves]
        try:
            return served.direct(*buffers)
        except device.error as error:
            raise failed(device, served.label, error) from error

    def arguments(
        self, executable: ResidentExecutable, leaves: list[Any]
    ) -> tuple[list[Buffer], list[DeviceArray]]:
        """Every argument of the executable on the device, and the arrays this call uses up."""
        device = self.device
        device.require_unforked()
        put = device.put
        claimed = self.claim(leaves, executable.label, self.donated) if self.donated else []
        claimed_ids = {id(array) for array in claimed}
        buffers: list[Any] = [None] * len(leaves)
        arguments = []
        for argument in executable.arguments:
            if type(argument) is int:
                buffer = buffers[argument]
                if buffer is None:
                    leaf, aval = leaves[argument], executable.inputs[argument]
                    if type(leaf) is DeviceArray:
                        is_claimed = id(leaf) in claimed_ids
                        if leaf.device is not device or leaf.placement is not aval.placement:
                            # Every device has one placement of a kind, so these differ.
                            buffer = put(_on_host(leaf, is_claimed), aval)
                        else:
                            buffer = leaf.claimed() if is_claimed else leaf.buffer()
                    else:
                        buffer = put(np.ascontiguousarray(leaf), aval)
                    buffers[argument] = buffer
                arguments.append(buffer)
            else:
                arguments.append(argument)
        return arguments, claimed

    def run(
        self, executable: ResidentExecutable, arguments: list[Buffer], claimed: list[DeviceArray]
    ) -> list[Buffer]:
        """Run it on arguments that are on the device. Raises BackendError (AOTC-E755)."""
        try:
            results = self.device.execute(executable.executable, arguments)
        except self.device.error as error:
            for array in claimed:
                array.give_back()
            raise failed(self.device, executable.label, error) from error
        for array in claimed:
            array.delete()
        return results

    def on_host(
        self, leaves: list[Any], label: str, indices: Collection[int]
    ) -> AbstractContextManager[list[Any]]:
        """The leaves, as numpy arrays at these indices, during a block. Donated arrays among them
        are used up if the block succeeds.

        Raises ShapeError (AOTC-E631, E632), and ResourceError (AOTC-E553) where the block runs out
        of memory.
        """
        donated = self.donated.intersection(indices)
        claimed = self.claim(leaves, label, donated) if donated else []
        return _using_up(leaves, claimed, indices, label)

    def copied(self, leaves: list[Any], label: str) -> AbstractContextManager[list[Any]]:
        """As `on_host`, for a call that runs later: with copies of arrays that the caller may
        change, and without donated ones.
        """
        claimed = self.claim(leaves, label, self.donated) if self.donated else []
        copies = [np.array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        return _using_up(copies, claimed, self.donated, label)

    def claim(self, leaves: list[Any], label: str, donated: Collection[int]) -> list[DeviceArray]:
        """Take the device arrays at these indices, so that no other call can.

        Raises ShapeError (AOTC-E631, E632).
        """
        wanted = [leaves[index] for index in donated if type(leaves[index]) is DeviceArray]
        everywhere = [id(leaf) for leaf in leaves if type(leaf) is DeviceArray]
        for leaf in wanted:
            if everywhere.count(id(leaf)) > 1:
                raise ShapeError(
                    Finding(
                        code="AOTC-E632",
                        where=self._name,
                        expected="a donated array passed once",
                        found=f"{leaf!r} passed twice in one call",
                        hint="pass a copy for the other argument: np.asarray(x)",
                    )
                )
        claimed: list[DeviceArray] = []
        try:
            for leaf in leaves:
                if type(leaf) is DeviceArray:
                    leaf.buffer()
            for leaf in wanted:
                leaf.claim(label)
                claimed.append(leaf)
        except ShapeError:
            for leaf in claimed:
                leaf.give_back()
            raise
        return claimed


@contextmanager
def _using_up(
    leaves: list[Any], claimed: list[DeviceArray], indices: Collection[int], label: str
) -> Iterator[list[Any]]:
    taken = {id(array) for array in claimed}
    try:
        yield [
            _on_host(leaf, id(leaf) in taken) if index in indices else leaf
            for index, leaf in enumerate(leaves)
        ]
    except (AotcError, MemoryError) as error:
        for array in claimed:
            array.give_back()
        if isinstance(error, MemoryError):
            raise _no_memory(label) from error
        raise
    for array in claimed:
        array.delete()


def _on_host(leaf: Any, claimed: bool) -> Any:
    if type(leaf) is not DeviceArray:
        return leaf
    # Whoever claimed it is the only reader left, until it is deleted.
    return leaf.read_claimed() if claimed else np.asarray(leaf)


def failed(device: Device, label: str, error: Exception) -> BackendError:
    """The engine's error as ours (AOTC-E755)."""
    return BackendError(
        Finding(
            code="AOTC-E755",
            where=label,
            expected=f"{device.engine} to run the executable",
            found=str(error).strip().splitlines()[0],
            hint="the bundle stays usable; if memory ran out, free some or call with less",
        )
    )


def _no_memory(label: str) -> ResourceError:
    return ResourceError(
        Finding(
            code="AOTC-E553",
            where=label,
            expected="memory for padded inputs, and for results that are cut or joined",
            found="none left",
            hint="the bundle stays usable; free some, or call with sizes of a profile",
        )
    )
