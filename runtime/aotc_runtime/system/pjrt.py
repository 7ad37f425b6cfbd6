"""The only file of the runtime that knows jaxlib, except for the guard in `processor`. Names below
are private; each was seen in jaxlib 0.11.2, 0.12.0 and 0.12.0.1.

    jaxlib.xla_client: make_cpu_client, batched_device_put, array_result_handler, _xla,
        SingleDeviceSharding, HostBufferSemantics, register_custom_call_target, XlaRuntimeError
    Client: deserialize_executable, live_executables, local_devices
    LoadedExecutable.execute_sharded, get_compiled_memory_stats
    ArrayImpl._to_np_array_did_copy: of what lies on an accelerator
    ExecuteResults.consume_with_handlers
    LoadedExecutable.get_parameter_shardings and
        get_output_shardings, and those in `spread`: only for bundles with a mesh
    _jax: buffer_to_dlpack_managed_tensor, collect_garbage, pjit, pytree.default_registry
    _jax.jax_jit: _Config, set_enable_x64_state, set_disable_jit_state, set_post_hook_state
    jaxlib.lapack: _lapack.initialize, registrations

    jaxlib.mlir: _mlir_libs._jax_mlir_ext.register_dialects, dialects.stablehlo, dialects.func
    _jax.mlir.refine_polymorphic_shapes, Client.compile_and_load, CompileOptions

There is one client per process, made on first use. Executables come from `VerifiedBlob`s only: from
machine code, or from a symbolic module that is compiled for sizes where a policy allows it. None of
these calls imports jax.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct

from aotc_runtime.errors import BackendError, Finding, ResourceError
from aotc_runtime.schema.mesh import Mesh, Sharding
from aotc_runtime.schema.proof import VerifiedBlob
from aotc_runtime.system import processor
from aotc_runtime.system.parallel import map_on_threads

if TYPE_CHECKING:
    from aotc_runtime.system.spread import Placement, Spread, Tiles

# 1 hides jaxlib's INFO lines; errors, such as a missing processor feature, stay visible. Read when
# jaxlib is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

_READING_FLAGS = "from jaxlib import _jax; _jax.CompileOptions()"
"""What makes XLA read `XLA_FLAGS`, and starts nothing."""

Buffer = Any
"""An array on the device (jaxlib's ArrayImpl)."""


class Aval(Struct, frozen=True):
    """Shape and dtype in the form in which jaxlib asks for them. placement: over several devices,
    None for the first one.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False
    placement: Placement | None = None


class Executable(Struct, frozen=True, weakref=True):
    """A deserialized executable and the handlers for its results, in order.

    XLA gives its memory back when nothing refers to it any more.
    """

    loaded: Any
    handlers: list[Any]


def _backend_error(code: str, where: str, expected: str, found: str, hint: str) -> BackendError:
    return BackendError(Finding(code=code, where=where, expected=expected, found=found, hint=hint))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class Stored(Struct, frozen=True):
    """A verified executable that is not loaded yet. outputs: of its results, in order.  where: what
    errors call it.
    """

    blob: VerifiedBlob
    outputs: Sequence[Aval]
    where: str


class _FastPath(NamedTuple):
    """What jaxlib's dispatcher asks of a cache miss, by attribute (jaxlib/pjit.cc)."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Aval]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[Buffer]


class Device:
    """The host's CPU as XLA sees it, or what a subclass makes a client of. Use `device()`."""

    platform = "cpu"

    def __init__(self, threads: int | None = None, devices: int = 1) -> None:
        processor.require()
        self.threads = threads or _default_threads()
        try:
            import jaxlib
            import ml_dtypes  # noqa: F401 - jaxlib does at its first array, where it takes longer
            from jaxlib import xla_client

            self.jaxlib: str = jaxlib.__version__
            # As XLA reads them: once in a process, now or when somebody used it before.
            self.xla_flags = os.environ.get("XLA_FLAGS", "")
            if self.xla_flags:
                from aotc_runtime.system import xla_flags

                xla_flags.require(_READING_FLAGS, self.jaxlib)
            self._xla = xla_client._xla
            with _thread_count(threads):
                self._client = self.make_client(xla_client, devices)
            self._all_devices = self._client.local_devices()
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
            self._topology = xla_client.get_topology_for_devices
            self._collect_garbage = xla_client._xla.collect_garbage
            self._dispatcher, self._pytrees = self._prepare_dispatcher()
        except (ImportError, AttributeError, TypeError) as error:
            raise _backend_error(
                "AOTC-E751",
                "jaxlib",
                "the private names of jaxlib 0.11.2 to 0.12.0 (aotc_runtime/system/pjrt.py)",
                f"{type(error).__name__}: {_first_line(error)}",
                "install a jaxlib that this aotc-runtime supports",
            ) from error
        self.pid = os.getpid()
        self.was_forked = False
        os.register_at_fork(after_in_child=self._mark_forked)
        self._devices = [self._device]
        self._spread: Spread | None = None
        # Weak, so that what nobody closes, or what failed to load, is given back as well.
        self._known: WeakValueDictionary[int, Executable] = WeakValueDictionary()
        self._lapack_ready = False
        self._lock = threading.Lock()

    def make_client(self, xla_client: Any, devices: int) -> Any:
        """jaxlib's client. xla_client: the module.  devices: how many a processor is to be."""
        return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)

    def _mark_forked(self) -> None:
        self.was_forked = True

    @staticmethod
    def _prepare_dispatcher() -> tuple[Any, Any]:
        """The constructor of jaxlib's compiled call path, and its registry of pytrees.

        It reads three settings that jax makes when it is imported; without jax they are made here:
        64-bit types as they are, jit enabled, no hook. A jax imported later replaces them.
        """
        from jaxlib import _jax

        registry = _jax.pytree.default_registry()
        if "jax" not in sys.modules:
            settings = _jax.jax_jit
            settings.set_enable_x64_state(
                settings._Config("aotc_enable_x64", True, include_in_jit_key=True)
            )
            settings.set_disable_jit_state(settings._Config("aotc_disable_jit", False))
            settings.set_post_hook_state(settings._Config("aotc_post_hook", None))
        return _jax.pjit, registry

    def compiled_call(
        self,
        executable: Executable,
        weights: Sequence[Buffer],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]]:
        """A function of the input leaves that runs in jaxlib's own compiled call path.

        For an executable that takes the weights first, then every input, and donates none. Each
        leaf has to be a numpy array or a buffer of exactly its aval: the dispatcher neither sees
        another byte order nor, under jax's 32-bit setting, a 64-bit type. Inputs are used in place
        while the call lasts, which is until the results are there.
        """
        handlers, loaded = executable.handlers, executable.loaded
        count = len(weights) + len(inputs)
        fast_path = _FastPath(
            xla_executable=loaded,
            out_pytree_def=self._pytrees.flatten([0] * len(outputs))[1],
            in_shardings=[self._sharding] * count,
            out_shardings=[self._sharding] * len(outputs),
            out_avals=list(outputs),
            out_committed=[True] * len(outputs),
            kept_var_bitvec=[True] * count,
            in_device_local_layouts=[None] * count,
            const_args=list(weights),
        )

        def miss(*leaves: Any) -> tuple[list[Buffer], _FastPath, bool]:
            buffers = [
                self.put(leaf, aval) if isinstance(leaf, np.ndarray) else leaf
                for leaf, aval in zip(leaves, inputs, strict=True)
            ]
            results = execute(executable, [*weights, *buffers])
            return results, fast_path, False

        def unknown_leaf(*_: Any) -> Any:
            raise TypeError("a leaf that is neither a numpy array nor a buffer")

        assert len(handlers) == len(outputs)
        call: Callable[..., list[Buffer]] = self._dispatcher(
            "aotc", None, miss, [], [], object(), self._pytrees, unknown_leaf
        )
        return call

    @property
    def device_count(self) -> int:
        return len(self._all_devices)

    @property
    def kind(self) -> str:
        """jaxlib's name for the device, "cpu" or a product name."""
        return str(self._device.device_kind)

    def machine(self) -> tuple[str, str, frozenset[str]]:
        """Triple, processor name and features of this host, in LLVM's spelling."""
        topology = bytes(self._topology(self._client.devices()).serialize())
        # The target machine is a protobuf message {1: triple, 2: cpu, 3: features}.
        match = re.search(rb"\n.((?:x86_64|aarch64)-[a-z0-9_-]+)\x12", topology, re.DOTALL)
        features = re.search(
            rb"\x12.([a-z0-9._-]*)\x1a[\x00-\xff]{1,3}?(\+[-+a-z0-9.,]+)", topology
        )
        if match is None or features is None:
            raise _backend_error(
                "AOTC-E752",
                "this host's processor",
                "a description in jaxlib's topology",
                "none",
                "install a jaxlib that this aotc-runtime supports",
            )
        names = features[2].decode().split(",")
        present = frozenset(name[1:] for name in names if name.startswith("+"))
        return match[1].decode(), features[1].decode(), present

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Register the libraries behind these custom-call targets; only those that are needed."""
        if self._lapack_ready or not any(target.startswith("lapack_") for target in targets):
            return
        from jaxlib import lapack

        with self._lock:
            # Without initialize() the registered kernels call null pointers.
            lapack._lapack.initialize()
            for name, function, version in lapack.registrations()["cpu"]:
                self._register(name, function, "cpu", api_version=version)
            self._lapack_ready = True

    def placement(self, mesh: Mesh, sharding: Sharding, shape: tuple[int, ...]) -> Placement:
        """How arrays of a shape lie on a mesh whose devices there are."""
        if self._spread is None:
            # Only bundles with a mesh need it.
            from aotc_runtime.system.spread import Spread

            self._spread = Spread(self._names, self._all_devices, self._put)
        return self._spread.placement(mesh, sharding, shape)

    def tiles(
        self, executable: Executable
    ) -> tuple[Sequence[Tiles | None], Sequence[Tiles | None]]:
        """How the parameters and the results of an executable lie on its devices, as XLA says."""
        from aotc_runtime.system.spread import tiles

        loaded = executable.loaded
        count = len(loaded.local_devices())
        read = self._names.HloSharding.from_proto
        shardings = (loaded.get_parameter_shardings(), loaded.get_output_shardings())
        parameters, results = ([tiles(read(p), count) for p in some or ()] for some in shardings)
        return parameters, results

    def _result(self, aval: Aval) -> Any:
        """The handler of a result."""
        place = aval.placement
        return self._handler(aval, self._sharding if place is None else place.sharding, True)

    def deserialize(
        self, every: Sequence[Stored], numbers: Sequence[int] = (0,)
    ) -> list[Executable]:
        """Load verified machine code, as many executables at once as XLA has threads.

        numbers: of the devices they run on, as they were compiled for them.
        Raises BackendError (AOTC-E753).
        """
        devices = [self._all_devices[number] for number in numbers]
        # Before they are known, another thread's load would take them for compiled ones.
        with self._lock:
            try:
                return map_on_threads(partial(self._deserialized, devices), every, self.threads)
            finally:
                # XLA's threads leave the bytes that they read to be released by others: at its next
                # call, which never comes where the bundle is refused.
                self.forget_released()

    def _deserialized(self, devices: list[Any], stored: Stored) -> Executable:
        handlers = [self._result(aval) for aval in stored.outputs]
        try:
            loaded = self._client.deserialize_executable(bytes(stored.blob.data), devices)
        except self.error as error:
            raise _backend_error(
                "AOTC-E753",
                stored.where,
                "an executable that XLA loads",
                _first_line(error),
                "rebuild the bundle with the jaxlib that is installed here",
            ) from error
        # Known at once: if another one fails, whoever keeps the error keeps this one alive.
        executable = Executable(loaded, handlers)
        self._known[id(loaded)] = executable
        return executable

    def compile_symbolic(
        self,
        module: VerifiedBlob,
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
        options: Mapping[str, str],
        where: str,
    ) -> Executable:
        """Compile a verified module with symbolic dimensions for the shapes of these inputs.

        Takes tens of milliseconds and more, on the calling thread, other Python threads going on
        meanwhile. Raises BackendError (AOTC-E756).
        """
        handlers = [self._handler(aval, self._sharding, True) for aval in outputs]
        try:
            from jaxlib import _jax, xla_client

            refined = _jax.mlir.refine_polymorphic_shapes(
                _with_static_main(bytes(module.data), [aval.shape for aval in inputs]),
                enable_shape_assertions=True,
                validate_static_shapes=True,
                enable_shardy=False,
            )
            compile_options = xla_client.CompileOptions()
            compile_options.env_option_overrides = sorted(options.items())
            loaded = self._client.compile_and_load(refined, self._devices, compile_options)
        except (self.error, ImportError, AttributeError, TypeError, ValueError) as error:
            raise _backend_error(
                "AOTC-E756",
                where,
                "XLA to compile the bundled module for these sizes",
                _first_line(error),
                "call with sizes of a profile, or add these to `profiles` and build again",
            ) from error
        executable = Executable(loaded, handlers)
        # Should another thread load a bundle just now, `compilations` looks again.
        with self._lock:
            self._known[id(loaded)] = executable
        return executable

    @staticmethod
    def memory_of(executable: Executable) -> int:
        """Bytes that a call allocates beside its inputs, as XLA says: temporaries, and results that
        take no input's place.
        """
        stats = executable.loaded.get_compiled_memory_stats()
        results = stats.output_size_in_bytes - stats.alias_size_in_bytes
        return int(stats.temp_size_in_bytes + results)

    def compilations(self) -> int:
        """Executables alive in XLA's client that were neither deserialized nor compiled for calls
        under a policy that allows it: 0, or a bug.

        An executable that another thread has just released may still be alive in XLA, so the count
        is taken twice and believed only if it stays.
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

    def put(self, array: np.ndarray[Any, Any], aval: Aval) -> Buffer:
        """Copy a user's array to the device; the array may change as soon as this returns."""
        if aval.placement is not None:
            return aval.placement.put(array, aval, self._copy)
        return self._put(
            aval, self._sharding, [array], self._devices, True, False, self._copy, True
        )

    def share(self, array: np.ndarray[Any, Any], aval: Aval) -> Buffer:
        """Use an array in place if it is aligned to 64 bytes (a copy otherwise); for weights,
        which never change."""
        if aval.placement is not None:
            return aval.placement.share(array, aval, self._share)
        return self._put(
            aval, self._sharding, [array], self._devices, True, False, self._share, True
        )

    def forget_released(self) -> None:
        """Release arrays that freed buffers used in place, and bytes that executables were made of.
        XLA would do so at its next call, and until then keep the files mapped that hold arrays.
        """
        self._collect_garbage()

    def pointer(self, buffer: Buffer) -> int:
        """The address of a device buffer."""
        return int(buffer.unsafe_buffer_pointer())


def _with_static_main(artifact: bytes, shapes: Sequence[tuple[int, ...]]) -> bytes:
    """The module, as bytecode, with a @main of these shapes that calls the symbolic one: XLA
    refines what a function of static shapes calls.
    """
    from io import BytesIO

    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import func, stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    with context, ir.Location.unknown():
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        symbolic = ir.SymbolTable(module.operation)["main"]
        ir.SymbolTable.set_symbol_name(symbolic, "symbolic")
        ir.SymbolTable.set_visibility(symbolic, "private")
        type_ = ir.FunctionType(ir.TypeAttr(symbolic.attributes["function_type"]).value)
        elements = [ir.RankedTensorType(each).element_type for each in type_.inputs]
        static = [
            ir.RankedTensorType.get(list(shape), element)
            for shape, element in zip(shapes, elements, strict=True)
        ]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(static, type_.results))
            with ir.InsertionPoint(main.add_entry_block()):
                converted = [
                    stablehlo.ConvertOp(wanted, argument).result
                    for wanted, argument in zip(type_.inputs, main.arguments, strict=True)
                ]
                call = func.CallOp(type_.results, "symbolic", converted)
                func.ReturnOp(call.results)
        bytecode = BytesIO()
        module.operation.write_bytecode(bytecode)
    return bytecode.getvalue()


def aval_of(buffer: Buffer) -> Aval:
    """Of a buffer that was made from an aval."""
    aval: Aval = buffer.aval
    return aval


def execute(executable: Executable, arguments: list[Buffer]) -> list[Buffer]:
    """Run on the calling thread until the results are there; other Python threads go on meanwhile.
    Raises XLA's error.
    """
    results: list[Buffer] = executable.loaded.execute_sharded(arguments).consume_with_handlers(
        executable.handlers
    )
    if _is_accelerated():
        for buffer in results:
            buffer.block_until_ready()
    return results


_BUILT_IN = 1
"""numpy's `isbuiltin` of its own types; those of ml_dtypes, whatever their kind, have another."""


def to_numpy(buffer: Buffer, aval: Aval) -> np.ndarray[Any, Any]:
    """A result as numpy: read-only and without a copy, keeping the device buffer alive.

    Element types that Python's buffer protocol does not know (bfloat16, float8) are copied, and
    pieces that several devices hold are put together.
    """
    if aval.placement is not None:
        array: np.ndarray[Any, Any] = buffer._to_np_array_did_copy()[0]
        array.flags.writeable = False
        return array
    if _is_accelerated():
        return _copied(buffer)
    if aval.dtype.isbuiltin == _BUILT_IN:
        return np.asarray(buffer)
    buffer.block_until_ready()
    count = int(np.prod(aval.shape, dtype=np.int64))
    if count == 0:
        return np.empty(aval.shape, aval.dtype)
    is_packed = is_packed_in_xla(aval.dtype)
    size = (count + 1) // 2 if is_packed else count * aval.dtype.itemsize
    memory = bytes((ctypes.c_char * size).from_address(buffer.unsafe_buffer_pointer()))
    del buffer
    if is_packed:
        memory = _unpacked(memory, count, is_signed=aval.dtype.name == "int4")
    return np.frombuffer(memory, aval.dtype).reshape(aval.shape)


def _copied(buffer: Buffer) -> np.ndarray[Any, Any]:
    """A copy of what lies on an accelerator."""
    array: np.ndarray[Any, Any] = buffer._to_np_array_did_copy()[0]
    return array


def is_packed_in_xla(dtype: np.dtype[Any]) -> bool:
    """Whether XLA keeps two numbers in a byte, where ml_dtypes has a byte for each."""
    return dtype.name in ("int4", "uint4")


def _unpacked(memory: bytes, count: int, *, is_signed: bool) -> bytes:
    """Numbers of 4 bits, the lower half of a byte first, in a byte each."""
    packed = np.frombuffer(memory, np.uint8)
    numbers = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count]
    return (((numbers ^ 8) - 8) if is_signed else numbers).astype(np.uint8).tobytes()


def reader(avals: Sequence[Aval]) -> Callable[[Sequence[Buffer]], list[Any]]:
    """A function that reads all results of a call as `to_numpy` does; made once, called often."""
    asarray = _copied if _is_accelerated() else np.asarray
    if all(aval.dtype.isbuiltin == _BUILT_IN and aval.placement is None for aval in avals):
        return lambda buffers: [asarray(buffer) for buffer in buffers]
    return lambda buffers: [to_numpy(b, a) for b, a in zip(buffers, avals, strict=True)]


def reader_of_one(aval: Aval) -> Callable[[Sequence[Buffer]], Any]:
    """As `reader`, for a call with one result, which is returned by itself."""
    asarray = _copied if _is_accelerated() else np.asarray
    if aval.dtype.isbuiltin == _BUILT_IN and aval.placement is None:
        return lambda buffers: asarray(buffers[0])
    return lambda buffers: to_numpy(buffers[0], aval)


DLPACK_CPU, DLPACK_CUDA = 1, 2
"""kDLCPU and kDLCUDA in dlpack.h."""


def dlpack_device() -> tuple[int, int]:
    """Where buffers lie: kind and number. Raises BufferError on a TPU, unknown to DLPack."""
    if _serving is not None and _serving.platform == "tpu":
        raise BufferError("arrays on a TPU cannot be handed on by DLPack")
    return (DLPACK_CUDA if _is_accelerated() else DLPACK_CPU), 0


def to_dlpack(buffer: Buffer) -> Any:
    """A DLPack capsule that keeps the buffer alive."""
    from jaxlib import _jax

    return _jax.buffer_to_dlpack_managed_tensor(buffer)


PROCESSOR_DEVICES_MAX = 4096
"""XLA takes seconds to make so many of a processor, and for more the square of their number."""

_device: Device | None = None
_serving: Device | None = None
_device_lock = threading.Lock()
_serving_lock = threading.Lock()


_THREADS_VARIABLE = "PJRT_NPROC"


def _default_threads() -> int:
    """What XLA takes: the variable, or the processors this process may run on."""
    stated = os.environ.get(_THREADS_VARIABLE, "")
    return int(stated) if stated.isdigit() else len(os.sched_getaffinity(0))


@contextmanager
def _thread_count(threads: int | None) -> Iterator[None]:
    """Let XLA start this many threads; it asks the environment, and only while a client is made."""
    before = os.environ.get(_THREADS_VARIABLE)
    if threads is not None:
        os.environ[_THREADS_VARIABLE] = str(threads)
    try:
        yield
    finally:
        if threads is not None and before is None:
            del os.environ[_THREADS_VARIABLE]
        elif threads is not None and before is not None:
            os.environ[_THREADS_VARIABLE] = before


def _is_accelerated() -> bool:
    return _serving is not None and _serving.platform != "cpu"


def serve(platform: str) -> Device:
    """The device that bundles of this platform run on: from now on `device()` of this process.

    Raises BackendError (AOTC-E758) where there is no such device that XLA can use, or bundles of
    another platform run in the process; and what `device` raises.
    """
    global _serving
    with _serving_lock:
        if _serving is None:
            _serving = processor_device() if platform == "cpu" else _accelerated(platform)
    if _serving.platform != platform:
        raise _backend_error(
            "AOTC-E758",
            "load",
            f"a process whose bundles are for {_serving.platform}",
            f"one for {platform}",
            "load it in another process",
        )
    return device()


def _accelerated(platform: str) -> Device:
    if platform not in ("cuda", "tpu"):
        raise _no_device(platform, "a platform that this runtime cannot start")
    from aotc_runtime.system.cuda_device import CudaDevice
    from aotc_runtime.system.tpu_device import TpuDevice

    try:
        return CudaDevice() if platform == "cuda" else TpuDevice()
    except (OSError, processor_device().error) as error:
        raise _no_device(platform, _first_line(error)) from error


def _no_device(platform: str, found: str) -> BackendError:
    return _backend_error(
        "AOTC-E758",
        platform,
        "devices that XLA can use",
        found,
        "`aotc targets check` and the driver's own tools say more",
    )


def device(threads: int | None = None) -> Device:
    """What bundles run on in this process: the processor, unless `serve` said otherwise.

    threads: as for `processor_device`, whose errors it raises.
    """
    current = _serving
    if current is None or current.platform == "cpu":
        return processor_device(threads)
    if current.was_forked:
        raise _forked(current)
    return current


def processor_device(threads: int | None = None, devices: int | None = None) -> Device:
    """This process' processor.

    threads: of XLA's pool.  devices: how many to make of the processor, if nobody has asked before.
    The first who asks decides, since a process has one client.
    Raises BackendError: AOTC-E754 in a process forked after first use, E750 if XLA refuses the
    flags of the environment; ResourceError (AOTC-E552) for another number of threads than there
    are.
    """
    global _device
    current = _device
    if current is None:
        with _device_lock:
            if _device is None:
                _device = Device(threads, devices or 1)
            current = _device
    if threads is not None and threads != current.threads:
        raise ResourceError(
            Finding(
                code="AOTC-E552",
                where="load",
                expected=f"{threads} threads for XLA",
                found=f"{current.threads}, with which XLA was started in this process",
                hint="pass `threads` to the first load of the process",
            )
        )
    if current.was_forked:
        raise _forked(current)
    return current


def _forked(current: Device) -> BackendError:
    return _backend_error(
        "AOTC-E754",
        f"process {os.getpid()}",
        "bundles loaded in the process that uses them",
        f"a fork of process {current.pid}, where XLA was started; its threads are gone here",
        "load after forking (gunicorn: in post_fork), or start processes with spawn",
    )
