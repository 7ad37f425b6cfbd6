"""Features of XLA's devices beside loading and calling.

Private names of jaxlib beside those of `xla_client`:

    LoadedExecutable.get_compiled_memory_stats
    _jax: buffer_to_dlpack_managed_tensor, mlir.refine_polymorphic_shapes
    Client.compile_and_load, CompileOptions
    jaxlib.lapack: _lapack.initialize, registrations
    jaxlib.mlir: _mlir_libs._jax_mlir_ext.register_dialects, dialects.stablehlo, dialects.func
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.device_features import DeviceFeatures, ExecutableTiles, SymbolicModule
from aotc_runtime.engines.engine_arrays import Buffer
from aotc_runtime.engines.xla.xla_client import LoadedExecutable, XlaDevice
from aotc_runtime.engines.xla.xla_sharding import MeshPlacement, Placements, executable_tiles

if TYPE_CHECKING:
    from aotc_runtime.schema.bundle_manifest import Mesh, Sharding

YNN_OPTION = "xla_cpu_experimental_ynn_fusion_type"
_ALONE = "LIBRARY_FUSION_TYPE_INDIVIDUAL_"
PRODUCTS_ALONE = {YNN_OPTION: f"{_ALONE}DOT,{_ALONE}CONVOLUTION"}
"""Options for YNNPACK to compute products and convolutions, and XLA what comes behind: of jaxlib
0.12.0.1, some of YNNPACK's reductions are wrong, and its maxima and minima lose NaN."""


class XlaFeatures(DeviceFeatures):
    """Donation, DLPack and meshes, on every platform."""

    def __init__(self, device: XlaDevice) -> None:
        super().__init__(device.engine, device.platform)
        self._xla = device

    @cached_property
    def _placements(self) -> Placements:
        device = self._xla
        return Placements(device._names, device._all_devices, device._put)

    def is_deleted(self, buffer: Buffer) -> bool:
        """Return whether a call that donated the buffer used it up."""
        return bool(buffer.is_deleted())

    def delete(self, buffer: Buffer) -> None:
        """Free a donated buffer that XLA could not reuse."""
        buffer.delete()

    def to_dlpack(self, buffer: Buffer) -> Any:
        """Return a DLPack capsule that keeps the buffer alive. Raises BufferError without one."""
        from jaxlib import _jax

        self.dlpack_device()
        return _jax.buffer_to_dlpack_managed_tensor(buffer)

    def dlpack_device(self) -> tuple[int, int]:
        """Return the memory of the first device. Raises BufferError where DLPack knows none."""
        kind = self._xla.dlpack_kind
        return super().dlpack_device() if kind is None else (kind, 0)

    def placement(self, mesh: Mesh, sharding: Sharding, shape: tuple[int, ...]) -> MeshPlacement:
        """Return how arrays of a shape lie on a mesh whose devices there are."""
        return self._placements.placement(mesh, sharding, shape)

    def tiles(self, executable: LoadedExecutable) -> ExecutableTiles:
        """Return how an executable's parameters and results lie on its devices, as XLA says."""
        return executable_tiles(self._xla._names, executable.loaded)


class ProcessorFeatures(XlaFeatures):
    """The processor also compiles for the sizes of a call, and calls LAPACK."""

    _is_lapack_ready = False

    def register_lapack(self) -> None:
        """Register the custom calls of LAPACK, once."""
        from jaxlib import lapack

        with self._xla._lock:
            if not self._is_lapack_ready:
                # Without initialize() the registered kernels call null pointers.
                lapack._lapack.initialize()
                for name, function, version in lapack.registrations()["cpu"]:
                    self._xla._register(name, function, "cpu", api_version=version)
                self._is_lapack_ready = True

    def compile_symbolic(self, module: SymbolicModule) -> LoadedExecutable:
        """Compile a module for the shapes of one call, which takes tens of milliseconds.

        Raises:
            BackendError: AOTC-E756.
        """
        device, shapes = self._xla, [aval.shape for aval in module.inputs]
        try:
            from jaxlib import _jax, xla_client

            refined = _jax.mlir.refine_polymorphic_shapes(
                _with_static_main(bytes(module.blob.data), shapes),
                enable_shape_assertions=True,
                validate_static_shapes=True,
                enable_shardy=False,
            )
            compile_options = xla_client.CompileOptions()
            options = {**PRODUCTS_ALONE, **module.options}
            compile_options.env_option_overrides = sorted(options.items())
            loaded = device._client.compile_and_load(refined, device._devices, compile_options)
        except (device.error, ImportError, AttributeError, TypeError, ValueError) as error:
            raise refusal("AOTC-E756", module.where, first_line(error)) from error
        handlers = [device.result_handler(aval) for aval in module.outputs]
        # Should another thread load a bundle just now, `compilations` looks again.
        with device._lock:
            return device.remember(loaded, handlers)

    def memory_of(self, executable: LoadedExecutable) -> int:
        """Return the bytes that a call allocates beside its inputs, by XLA's analysis.

        These are temporaries, and results that take no input's place.
        """
        stats = executable.loaded.get_compiled_memory_stats()
        results = stats.output_size_in_bytes - stats.alias_size_in_bytes
        return int(stats.temp_size_in_bytes + results)


def _with_static_main(artifact: bytes, shapes: Sequence[tuple[int, ...]]) -> bytes:
    """Return the module, as bytecode, with a static @main that calls the symbolic one.

    XLA refines the callees of a function with static shapes.
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
