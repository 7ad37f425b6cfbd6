"""The host's processor as XLA sees it.

Arrays are used in place, and calls run in jaxlib's own compiled path. Private names of jaxlib
beside those of `xla_client`:

    jaxlib.xla_client.get_topology_for_devices
    _jax: pjit, pytree.default_registry
    _jax.jax_jit: _Config, set_enable_x64_state, set_disable_jit_state, set_post_hook_state
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer
from aotc_runtime.engines.xla.xla_client import (
    LoadedExecutable,
    XlaDevice,
    is_packed_in_xla,
    is_plain,
)
from aotc_runtime.schema.host_facts import Machine

if TYPE_CHECKING:
    from aotc_runtime.engines.xla.xla_features import ProcessorFeatures

PLATFORM = "cpu"


class _FastPath(tuple[()]):
    """Handler of a cache miss of jaxlib's dispatcher (jaxlib/pjit.cc): a tuple with attributes."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Aval]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[Buffer]


def target_machine(topology: bytes) -> tuple[str, str, str] | None:
    """Return the triple, the processor and its features that a serialized topology has.

    They are a protobuf message, {1: triple, 2: cpu, 3: features}. The length before each text may
    be any byte, that of a newline too: `rocketlake` has ten letters.
    """
    found = re.search(
        rb"\n.((?:x86_64|aarch64)-[a-z0-9_-]+)\x12.([a-z0-9._-]*)\x1a.{1,3}?(\+[-+a-z0-9.,]+)",
        topology,
        re.DOTALL,
    )
    return None if found is None else (found[1].decode(), found[2].decode(), found[3].decode())


class Processor(XlaDevice):
    """This process' processor, as one device or several."""

    platform = PLATFORM
    dlpack_kind = 1
    as_array = staticmethod(np.asarray)

    def make_client(self, xla_client: Any, devices: int) -> Any:
        """Return a new client of jaxlib for the processor."""
        return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)

    def prepare(self, xla_client: Any) -> None:
        """Take what the compiled call path needs."""
        from jaxlib import _jax

        self._topology = xla_client.get_topology_for_devices
        self._pytrees = _jax.pytree.default_registry()
        self._make_call = _jax.pjit
        # It reads three settings that jax makes when it is imported; without jax they are made
        # here: 64-bit types as they are, jit enabled, no hook. A jax imported later replaces them.
        if "jax" not in sys.modules:
            settings = _jax.jax_jit
            settings.set_enable_x64_state(
                settings._Config("aotc_enable_x64", True, include_in_jit_key=True)
            )
            settings.set_disable_jit_state(settings._Config("aotc_disable_jit", False))
            settings.set_post_hook_state(settings._Config("aotc_post_hook", None))

    def direct(
        self,
        executable: LoadedExecutable,
        weights: Sequence[Buffer],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """Return a function of jaxlib's compiled call path, or None for packed numbers.

        It uses inputs in place until the results are complete. Each leaf must be a numpy array or a
        buffer of exactly its aval: the dispatcher detects neither another byte order nor, under
        jax's 32-bit setting, a 64-bit type.
        """
        if any(is_packed_in_xla(aval.dtype) for aval in inputs):
            return None
        assert len(executable.handlers) == len(outputs)
        count = len(weights) + len(inputs)
        fast_path = _FastPath()
        vars(fast_path).update(
            xla_executable=executable.loaded,
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
            return self.execute(executable, [*weights, *buffers]), fast_path, False

        def unknown_leaf(*_: Any) -> Any:
            raise TypeError("a leaf that is neither a numpy array nor a buffer")

        call: Callable[..., list[Buffer]] = self._make_call(
            "aotc", None, miss, [], [], object(), self._pytrees, unknown_leaf
        )
        return call

    @cached_property
    def features(self) -> ProcessorFeatures:
        """Return the optional features, imported for the first call that needs them."""
        from aotc_runtime.engines.xla.xla_features import ProcessorFeatures

        return ProcessorFeatures(self)

    def machine(self) -> Machine:
        """Return this host's processor as XLA's compiler sees it."""
        topology = bytes(self._topology(self._client.devices()).serialize())
        found = target_machine(topology)
        if found is None:
            raise refusal("AOTC-E752", "this host's processor", "")
        triple, cpu, features = found
        names = features.split(",")
        present = frozenset(name[1:] for name in names if name.startswith("+"))
        architecture, count = triple.partition("-")[0], self.device_count
        return Machine(architecture, cpu, present, self.kind, self.jaxlib, count)

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Register LAPACK if any of these custom-call targets is in it."""
        if any(target.startswith("lapack_") for target in targets):
            self.features.register_lapack()

    def share(self, array: Array, aval: Aval) -> Buffer:
        """Use an array in place if it is aligned to 64 bytes, else copy it.

        The array must never change.
        """
        place: Any = aval.placement
        if place is not None:
            return place.share(array, aval, self._share)
        return self._put_whole(array, aval, self._share)

    def to_numpy(self, buffer: Buffer, aval: Aval) -> Array:
        """Return a result as a read-only numpy array without a copy.

        It keeps the device buffer alive. Results on several devices, and of types that Python's
        buffer protocol lacks, are copied.
        """
        if is_plain(aval):
            return np.asarray(buffer)
        from aotc_runtime.engines.xla.xla_reader import convert_buffer, join_shards

        return convert_buffer(buffer, aval) if aval.placement is None else join_shards(buffer)
