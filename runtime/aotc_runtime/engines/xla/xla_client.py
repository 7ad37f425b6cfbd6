"""A client of XLA, and the common parts of its platforms.

Names of jaxlib below are private; each was seen in jaxlib 0.11.2, 0.12.0 and 0.12.0.1.

    jaxlib.xla_client: make_cpu_client, batched_device_put, array_result_handler, _xla,
        SingleDeviceSharding, HostBufferSemantics, register_custom_call_target, XlaRuntimeError
    Client: deserialize_executable, live_executables, local_devices
    LoadedExecutable.execute_sharded
    ExecuteResults.consume_with_handlers
    LoadedExecutable.get_parameter_shardings and
        get_output_shardings, and those in `sharding`: only for bundles with a mesh
    _jax: collect_garbage

There is one client per process and platform, made on first use. Executables come from
`VerifiedBlob`s only: from machine code, or from a symbolic module that is compiled for sizes where
a policy allows it. None of these calls imports jax.
"""

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import refusal
from aotc_runtime.base.parallel_calls import map_on_threads
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.system import processor_check

_READING_FLAGS = "from jaxlib import _jax; _jax.CompileOptions()"
"""Code that makes XLA read `XLA_FLAGS`, and starts nothing."""


class LoadedExecutable(Struct, frozen=True, weakref=True):
    """A deserialized executable and the handlers for its results, in order.

    XLA gives its memory back when nothing refers to it any more.
    """

    loaded: Any
    handlers: list[Any]


class XlaDevice(Device):
    """The devices of one platform as XLA sees them."""

    engine = "XLA"
    minds_jax = True
    dlpack_kind: int | None = None
    """The kind of its memory as in dlpack.h, where arrays can be handed on."""
    as_array: Callable[[Buffer], Array]
    """Reads a result in one piece, of one of numpy's types."""

    def __init__(self, threads: int | None = None, devices: int = 1) -> None:
        processor_check.require()
        stated = os.environ.get(_THREADS_VARIABLE, "")
        usable = int(stated) if stated.isdigit() else len(os.sched_getaffinity(0))
        self.threads = threads or usable
        try:
            import jaxlib
            import ml_dtypes  # noqa: F401 - jaxlib does at its first array, where it takes longer
            from jaxlib import xla_client

            self.jaxlib: str = jaxlib.__version__
            # As XLA reads them: once in a process, now or when somebody used it before.
            self.flags = os.environ.get("XLA_FLAGS", "")
            if self.flags:
                from aotc_runtime.engines.xla import xla_flags

                xla_flags.require(_READING_FLAGS, self.jaxlib)
            if threads is None:
                self._client = self.make_client(xla_client, devices)
            else:
                from aotc_runtime.engines.engine_options import variable

                # XLA reads it only while a client is made.
                with variable(_THREADS_VARIABLE, str(threads)):
                    self._client = self.make_client(xla_client, devices)
            self._all_devices = self._client.local_devices()
            self.device_count = len(self._all_devices)
            self._device = self._all_devices[0]
            self._names = xla_client
            self._sharding = xla_client.SingleDeviceSharding(self._device)
            self._put = xla_client.batched_device_put
            self._handler = xla_client.array_result_handler
            self._register = xla_client.register_custom_call_target
            semantics = xla_client.HostBufferSemantics
            self._copy = semantics.IMMUTABLE_ONLY_DURING_CALL
            self._share = semantics.ZERO_COPY
            self.error: type[Exception] = xla_client.XlaRuntimeError
            self._collect_garbage = xla_client._xla.collect_garbage
            self.prepare(xla_client)
        except (ImportError, AttributeError, TypeError) as error:
            raise refusal(
                "AOTC-E751", "jaxlib", f"{type(error).__name__}: {first_line(error)}"
            ) from error
        self.watch_forks()
        self._devices = [self._device]
        # Weak, so that what nobody closes, or what failed to load, is given back as well.
        self._known: WeakValueDictionary[int, LoadedExecutable] = WeakValueDictionary()
        self._lock = threading.Lock()

    @abstractmethod
    def make_client(self, xla_client: Any, devices: int) -> Any:
        """Return a new client of jaxlib, for this number of processor devices."""

    def prepare(self, xla_client: Any) -> None:
        """Take more names of jaxlib, whose absence is told as that of the others."""

    @abstractmethod
    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Register the libraries behind these custom-call targets; only those that are needed."""

    @property
    def kind(self) -> str:
        """The device's name in jaxlib: "cpu", or a product name."""
        return str(self._device.device_kind)

    def result_handler(self, aval: Aval) -> Any:
        """Return the handler of a result."""
        place: Any = aval.placement
        return self._handler(aval, self._sharding if place is None else place.sharding, True)

    def deserialize(
        self,
        every: Sequence[Stored],
        numbers: Sequence[int] = (0,),
        custom_calls: Sequence[str] = (),
    ) -> list[LoadedExecutable]:
        """Load executables for the devices of these numbers, several at a time.

        Raises BackendError (AOTC-E753) where XLA refuses one.
        """
        self.register_custom_calls(custom_calls)
        devices = [self._all_devices[number] for number in numbers]
        # Before they are known, another thread's load would take them for compiled ones.
        with self._lock:
            try:
                return map_on_threads(partial(self._deserialize, devices), every, self.threads)
            finally:
                # XLA's threads leave the bytes that they read to be released by others: at its next
                # call, which never comes where the bundle is refused.
                self.forget_released()

    def _deserialize(self, devices: list[Any], stored: Stored) -> LoadedExecutable:
        handlers = [self.result_handler(aval) for aval in stored.outputs]
        try:
            loaded = self._client.deserialize_executable(bytes(stored.blob.data), devices)
        except self.error as error:
            raise refusal("AOTC-E753", stored.where, first_line(error)) from error
        # Known at once: if another one fails, whoever keeps the error keeps this one alive.
        return self.remember(loaded, handlers)

    def remember(self, loaded: Any, handlers: list[Any]) -> LoadedExecutable:
        """Return an executable that `compilations` does not count."""
        executable = LoadedExecutable(loaded, handlers)
        self._known[id(loaded)] = executable
        return executable

    def compilations(self) -> int:
        """Return the number of live executables that were compiled without permission.

        These were neither deserialized nor compiled for calls under a policy that allows it. XLA
        may still list an executable that another thread has just released, so the count is taken
        twice and must stay.
        """
        for seconds in (0.001, 0.01, 0.1, 1.0):
            count = self._unknown_executables()
            if not count:
                return 0
            time.sleep(seconds)
        return self._unknown_executables()

    def _unknown_executables(self) -> int:
        with self._lock:
            known = dict(self._known.items())  # held, so that none of them goes away meanwhile
            return sum(id(loaded) not in known for loaded in self._client.live_executables())

    def put(self, array: Array, aval: Aval) -> Buffer:
        """Copy a user's array to the device; the array may change as soon as this returns."""
        place: Any = aval.placement
        if place is not None:
            return place.put(array, aval, self._copy)
        return self._put_whole(array, aval, self._copy)

    def _put_whole(self, array: Array, aval: Aval, semantics: Any) -> Buffer:
        return self._put(aval, self._sharding, [array], self._devices, True, False, semantics, True)

    def execute(self, executable: LoadedExecutable, arguments: list[Buffer]) -> list[Buffer]:
        """Run on the calling thread until the results are complete.

        Other Python threads run meanwhile. Raises XLA's error.
        """
        results: list[Buffer] = executable.loaded.execute_sharded(arguments).consume_with_handlers(
            executable.handlers
        )
        return results

    def viewer(self, aval: Aval) -> Callable[[Buffer], Array]:
        """Return a function that reads results of an aval as numpy; made once, called often."""
        return self.as_array if is_plain(aval) else super().viewer(aval)

    def forget_released(self) -> None:
        """Release arrays that freed buffers used in place, and bytes of executables.

        XLA does so only at its next call, and keeps files mapped until then.
        """
        self._collect_garbage()


_THREADS_VARIABLE = "PJRT_NPROC"
"""XLA's thread count, in place of the processors that this process may use."""

BUILT_IN = 1
"""numpy's `isbuiltin` of its own types; those of ml_dtypes, whatever their kind, have another."""


def is_plain(aval: Aval) -> bool:
    """Return whether results can be read in place: one shard, of one of numpy's types."""
    return aval.dtype.isbuiltin == BUILT_IN and aval.placement is None


def is_packed_in_xla(dtype: np.dtype[Any]) -> bool:
    """Return whether XLA packs two numbers into a byte, where ml_dtypes uses one each."""
    return dtype.name in ("int4", "uint4")
