"""Running one executable on the input leaves of a call, and using up what the call donates."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from aotc_runtime.base.errors import AotcError, ShapeError, refusal
from aotc_runtime.engines.engine_arrays import Buffer
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.serving.call_metrics import Path
from aotc_runtime.serving.device_arrays import DeviceArray
from aotc_runtime.serving.resident_bundle import ResidentExecutable
from aotc_runtime.serving.served_call import CallCounter, Served
from aotc_runtime.serving.serving_refusals import call_failure

Array = np.ndarray[Any, Any]
_MODULES = sys.modules


class Execution:
    """Runs the executables of one entry point.

    `donated` are the leaves that its calls use up. `converted` is called for each array of another
    engine that is copied through the host, with both engines.
    """

    def __init__(
        self, name: str, donated: Sequence[int], converted: Callable[[Device, Device], None]
    ) -> None:
        self._name, self._converted = name, converted
        self.donated = frozenset(donated)

    def execute(self, served: Served, leaves: list[Any]) -> list[Buffer]:
        """Run it on the calling thread with numpy arrays and DeviceArrays of its shapes.

        Raises BackendError (AOTC-E754, E755), ShapeError (AOTC-E631, E632).
        """
        device = served.device
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        if (
            served.direct is None
            or (device.minds_jax and "jax" in _MODULES)
            or device.was_forked
            or any(type(leaf) is DeviceArray and leaf.device is not device for leaf in leaves)
        ):
            arguments, claimed = self.arguments(served.executable, leaves)
            return self.run(served.executable, arguments, claimed)
        buffers = [leaf.buffer() if type(leaf) is DeviceArray else leaf for leaf in leaves]
        try:
            return served.direct(*buffers)
        except device.error as error:
            raise call_failure(device, served.label, error) from error

    def arguments(
        self, executable: ResidentExecutable, leaves: list[Any]
    ) -> tuple[list[Buffer], list[DeviceArray]]:
        """Return the executable's arguments on the device, and the arrays this call donates."""
        device = executable.device
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
                            if leaf.device is not device:
                                self._converted(leaf.device, device)
                            buffer = put(_on_host(leaf, is_claimed), aval)
                        else:
                            buffer = leaf.take_buffer() if is_claimed else leaf.buffer()
                    else:
                        buffer = put(
                            np.asarray(leaf, order="C"), aval
                        )  # which keeps scalars without axes
                    buffers[argument] = buffer
                arguments.append(buffer)
            else:
                arguments.append(argument)
        return arguments, claimed

    def run(
        self, executable: ResidentExecutable, arguments: list[Buffer], claimed: list[DeviceArray]
    ) -> list[Buffer]:
        """Run it on arguments that are on the device. Raises BackendError (AOTC-E755)."""
        device = executable.device
        try:
            results = device.execute(executable.executable, arguments)
        except device.error as error:
            for array in claimed:
                array.give_back()
            raise call_failure(device, executable.label, error) from error
        for array in claimed:
            array.delete()
        return results

    def on_host(
        self, leaves: list[Any], label: str, indices: Collection[int]
    ) -> AbstractContextManager[list[Any]]:
        """Yield the leaves, as numpy arrays at these indices, during a block.

        Donated arrays among them are used up if the block succeeds. Raises ShapeError (AOTC-E631,
        E632), and ResourceError (AOTC-E553) if the block runs out of memory.
        """
        donated = self.donated.intersection(indices)
        claimed = self.claim(leaves, label, donated) if donated else []
        return _using_up(leaves, claimed, indices, label)

    def claim(self, leaves: list[Any], label: str, donated: Collection[int]) -> list[DeviceArray]:
        """Take the device arrays at these indices, so that no other call can.

        Raises ShapeError (AOTC-E631, E632).
        """
        wanted = [leaves[index] for index in donated if type(leaves[index]) is DeviceArray]
        everywhere = [id(leaf) for leaf in leaves if type(leaf) is DeviceArray]
        for leaf in wanted:
            if everywhere.count(id(leaf)) > 1:
                raise refusal("AOTC-E632", self._name, repr(leaf))
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


class ExactCall:
    """Calls of an executable's own sizes.

    The attributes `path`, `executable`, `parts` and `padding` are those of a `RoutedCall`.
    `counter` counts the calls; None if the caller counts them by path and executable.
    """

    padding, parts = None, 0

    def __init__(
        self,
        execution: Execution,
        served: Served,
        path: Path,
        executable: str,
        counter: CallCounter | None = None,
    ) -> None:
        self._execution, self.served = execution, served
        self.path, self.executable, self.counter = path, executable, counter
        self.outputs, self.device = served.outputs, served.device

    def run(self, leaves: list[Any]) -> list[Buffer]:
        """Run it on the leaves of a call; masks and lengths that are missing are added to them."""
        for leaf, array in self.served.masks:
            if leaves[leaf] is None:
                leaves[leaf] = array
        return self._execution.execute(self.served, leaves)


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
            raise refusal("AOTC-E553", label, "") from error
        raise
    for array in claimed:
        array.delete()


def _on_host(leaf: Any, claimed: bool) -> Any:
    if type(leaf) is not DeviceArray:
        return leaf
    # Whoever claimed it is the only reader left, until it is deleted.
    return leaf.read_claimed() if claimed else np.asarray(leaf)
