"""jaxlib's compiled call path, without jax. Private names of jaxlib beside those of `client`:

_jax: pjit, pytree.default_registry
_jax.jax_jit: _Config, set_enable_x64_state, set_disable_jit_state, set_post_hook_state
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aotc_runtime.engines.protocol import Aval, Buffer
from aotc_runtime.engines.xla.client import LoadedExecutable


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


class Dispatcher:
    """Makes compiled calls. sharding: of everything, which lies on one device."""

    def __init__(self, sharding: Any) -> None:
        from jaxlib import _jax

        self._sharding = sharding
        self._pytrees = _jax.pytree.default_registry()
        self._make = _jax.pjit
        # It reads three settings that jax makes when it is imported; without jax they are made
        # here: 64-bit types as they are, jit enabled, no hook. A jax imported later replaces them.
        if "jax" not in sys.modules:
            settings = _jax.jax_jit
            settings.set_enable_x64_state(
                settings._Config("aotc_enable_x64", True, include_in_jit_key=True)
            )
            settings.set_disable_jit_state(settings._Config("aotc_disable_jit", False))
            settings.set_post_hook_state(settings._Config("aotc_post_hook", None))

    def call(
        self,
        executable: LoadedExecutable,
        weights: Sequence[Buffer],
        inputs: int,
        outputs: Sequence[Aval],
        missed: Callable[[Sequence[Any]], list[Buffer]],
    ) -> Callable[..., list[Buffer]]:
        """A function of so many input leaves.

        missed: runs the executable in another way, for leaves that the path has not seen yet. Each
        leaf has to be a numpy array or a buffer of exactly its aval: the dispatcher neither sees
        another byte order nor, under jax's 32-bit setting, a 64-bit type. Inputs are used in place
        while the call lasts, which is until the results are there.
        """
        count = len(weights) + inputs
        fast_path = _FastPath(
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
            return missed(leaves), fast_path, False

        def unknown_leaf(*_: Any) -> Any:
            raise TypeError("a leaf that is neither a numpy array nor a buffer")

        assert len(executable.handlers) == len(outputs)
        call: Callable[..., list[Buffer]] = self._make(
            "aotc", None, miss, [], [], object(), self._pytrees, unknown_leaf
        )
        return call
