"""The custom calls that a module from a file may make, judged before anything of it runs.

A custom call is a function of the process that runs the module: XLA passes it buffers, and compares
neither their number nor their sizes with what the function reads and writes. So each call of a file
has to be one that is known here, with the operands, results and attributes that its kernel takes.
Sources: jaxlib/cpu/lapack_kernels.cc, jax/_src/lax/linalg.py and xla/service/cpu (jaxlib 0.12.0.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from jaxlib.mlir import ir

from aotc.base.errors import finding, raise_if
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.served_kernels import CUDA_BUILT_IN, TPU_BUILT_IN, cuda_module

DIALECTS = frozenset({"builtin", "func", "stablehlo", "chlo", "sdy", "vhlo"})
"""Dialects of a file's operations. A custom call of any other would not be judged here."""

SPELLED = frozenset(
    {
        "ApproxTopK",
        "AssumeGatherIndicesInBound",
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "PartialReduce",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "annotate_device_placement",
        "dynamic_conv",
        "mhlo.acos",
        "mhlo.acosh",
        "mhlo.asin",
        "mhlo.asinh",
        "mhlo.atanh",
        "mhlo.cosh",
        "mhlo.erf",
        "mhlo.ragged_dot",
        "mhlo.scan",
        "mhlo.sinh",
        "mhlo.topk",
        "shape_assertion",
        "stablehlo.dynamic_approx_top_k",
        "stablehlo.dynamic_reduce_window",
        "stablehlo.dynamic_rng_bit_generator",
        "stablehlo.dynamic_top_k",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.ShardingGroup",
    }
)
"""Operations that are written as custom calls and verified as operations: nothing is called."""

type Tensor = tuple[str, tuple[int, ...]]
"""Element type, and sizes."""

type Setting = int | bool | None
"""The value of an attribute; None for one that is neither a number nor a truth value."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with static sizes."""

    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    settings: Mapping[str, Setting]

    def __str__(self) -> str:
        texts = (
            ", ".join(f"{element}[{','.join(map(str, sizes))}]" for element, sizes in tensors)
            for tensors in (self.operands, self.results)
        )
        return " with results ".join(text or "nothing" for text in texts)


_TENSOR = re.compile(r"([\w<>]+)\[([a-z,]*)\]")


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Calls that a kernel takes.

    A tensor is written as the type of its numbers and a letter for each axis behind those of the
    batch, "f32[m,n]". Equal letters are equal sizes; k is the smaller of m and n, l is n - 1 or 0.

    Attributes:
        settings: Allowed values by name: truth values, or characters.
        falling: Letters of sizes of which none is smaller than the next.
        fits: Whether sizes and settings suit each other beyond that.
    """

    operands: str
    results: str
    settings: Mapping[str, str | tuple[bool, ...]] = MappingProxyType({})
    falling: str = ""
    fits: Callable[[Mapping[str, int], Mapping[str, Setting]], bool] = lambda sizes, settings: True

    def __str__(self) -> str:
        stated = "".join(f", {n} of {[*allowed]}" for n, allowed in self.settings.items())
        sizes = f", {' >= '.join(self.falling)}" if self.falling else ""
        return f"{self.operands} with results {self.results}{sizes}{stated}"

    def for_letter(self, letter: str) -> _Kernel:
        """Return the kernel of this letter of LAPACK.

        Of its types a stands for the kernel's own, r for real, c for complex numbers, and i for
        32-bit integers.
        """
        bits = 32 if letter in "sc" else 64
        types = {"r": f"f{bits}", "c": f"complex<f{bits}>", "i": "i32"}
        types["a"] = types["r" if letter in "sd" else "c"]
        operands, results = (
            _TENSOR.sub(lambda match: f"{types[match[1]]}[{match[2]}]", text)
            for text in (self.operands, self.results)
        )
        return replace(self, operands=operands, results=results)

    def takes(self, call: _Call) -> bool:
        """Return whether it reads and writes exactly what a call passes."""
        operands, results = _TENSOR.findall(self.operands), _TENSOR.findall(self.results)
        counts = len(operands), len(results)
        if counts != (len(call.operands), len(call.results)):
            return False
        sizes: dict[str, int] = {}
        batches: set[tuple[int, ...]] = set()
        pairs = zip([*operands, *results], [*call.operands, *call.results], strict=True)
        for (wanted, letters), (element, shape) in pairs:
            names = letters.split(",") if letters else []
            cut = len(shape) - len(names)
            if cut < 0 or wanted != element:
                return False
            batches.add(shape[:cut])
            for name, size in zip(names, shape[cut:], strict=True):
                if sizes.setdefault(name, size) != size:
                    return False
            if "n" in sizes:
                sizes |= {"k": min(sizes.get("m", 0), sizes["n"]), "l": max(sizes["n"] - 1, 0)}
        return (
            len(batches) == 1
            and all(sizes[one] >= sizes[two] for one, two in pairwise(self.falling))
            and all(_is_one_of(call.settings.get(n), each) for n, each in self.settings.items())
            and self.fits(sizes, call.settings)
        )


def _is_one_of(value: Setting, allowed: str | tuple[bool, ...]) -> bool:
    if isinstance(allowed, str):
        return value is not None and not isinstance(value, bool) and chr(value & 0xFF) in allowed
    return isinstance(value, bool) and value in allowed


def _has_rows(sizes: Mapping[str, int], settings: Mapping[str, Setting]) -> bool:
    """Return whether the rows that `gehrd` reduces are within the matrix."""
    low, high = settings.get("low"), settings.get("high")
    if low is None or high is None or isinstance(low, bool) or isinstance(high, bool):
        return False
    return 1 <= low <= max(high, 1) <= max(sizes["n"], 1)


_UPLO = {"uplo": "LU"}
_TRSM = {**_UPLO, "trans_x": "NTC", "diag": "NU"}
_EITHER = (False, True)
_QR = (_Kernel("a[m,n], a[p]", "a[m,n]", falling="mnp"),)
_APPLIED = (
    _Kernel("a[m,p], a[p], a[m,n]", "a[m,n]", {"left": (True,), "transpose": _EITHER}, "mp"),
    _Kernel("a[n,p], a[p], a[m,n]", "a[m,n]", {"left": (False,), "transpose": _EITHER}, "np"),
)
_SVD = (
    _Kernel("a[m,n]", "a[m,n], r[k], a[m,m], a[n,n], i[]", {"mode": "AN"}),
    # Results that are not computed may have either size: nothing is written there.
    _Kernel("a[m,n]", "a[m,n], r[k], a[m,k], a[k,n], i[]", {"mode": "SN"}),
)
_EIGEN = (_Kernel("a[n,n]", "a[n,n], r[n], i[]", {"mode": "VN", **_UPLO}),)
_TRIDIAGONAL = (_Kernel("a[n,n]", "a[n,n], r[n], r[l], a[l], i[]", _UPLO),)
_SIDES = {"compute_left": "VN", "compute_right": "VN"}
_SCHUR = {"mode": "VN", "sort": "N"}  # with another, it calls a function that was not passed
_LAPACK: tuple[tuple[str, str, tuple[_Kernel, ...]], ...] = (
    ("sdcz", "potrf", (_Kernel("a[n,n]", "a[n,n], i[]", _UPLO),)),
    ("sdcz", "getrf", (_Kernel("a[m,n]", "a[m,n], i[k], i[]"),)),
    ("sdcz", "geqrf", (_Kernel("a[m,n]", "a[m,n], a[k]"),)),
    ("sdcz", "geqp3", (_Kernel("a[m,n], i[n]", "a[m,n], i[n], a[k]"),)),
    ("sd", "orgqr", _QR),
    ("cz", "ungqr", _QR),
    ("sd", "ormqr", _APPLIED),
    ("cz", "unmqr", _APPLIED),
    ("sdcz", "trsm", (_Kernel("a[m,m], a[m,n]", "a[m,n]", {"side": "L", **_TRSM}),)),
    ("sdcz", "trsm", (_Kernel("a[n,n], a[m,n]", "a[m,n]", {"side": "R", **_TRSM}),)),
    ("sdcz", "gesdd", _SVD),
    ("sdcz", "gesvd", _SVD),
    ("sd", "syevd", _EIGEN),
    ("cz", "heevd", _EIGEN),
    ("sd", "geev", (_Kernel("a[n,n]", "a[n], a[n], c[n,n], c[n,n], i[]", _SIDES),)),
    ("cz", "geev", (_Kernel("a[n,n]", "a[n], c[n,n], c[n,n], i[]", _SIDES),)),
    ("sd", "sytrd", _TRIDIAGONAL),
    ("cz", "hetrd", _TRIDIAGONAL),
    ("sd", "gees", (_Kernel("a[n,n]", "a[n,n], a[n,n], a[n], a[n], i[], i[]", _SCHUR),)),
    ("cz", "gees", (_Kernel("a[n,n]", "a[n,n], a[n,n], a[n], i[], i[]", _SCHUR),)),
    ("sdcz", "gehrd", (_Kernel("a[n,n]", "a[n,n], a[l], i[]", fits=_has_rows),)),
    ("sdcz", "gtsv", (_Kernel("a[n], a[n], a[n], a[n,p]", "a[n], a[n], a[n], a[n,p], i[]"),)),
)
"""Letters, name and kernels of calls into LAPACK."""


def _by_target() -> dict[str, list[_Kernel]]:
    found: dict[str, list[_Kernel]] = {}
    for letters, name, kernels in _LAPACK:
        for letter in letters:
            known = found.setdefault(f"lapack_{letter}{name}_ffi", [])
            known += (kernel.for_letter(letter) for kernel in kernels)
    return found


_KERNELS = _by_target()
"""By the target of a call, the kernels of which it may be one."""

TOP_K = "TopK"


def require_known_calls(module: Any, where: str, *, static: bool) -> None:
    """Reject a verified MLIR module with an unknown custom call, or one unlike its kernel's.

    `where` is the file or entry point, for messages. With `static`, sizes have to be numbers: of a
    module with symbolic sizes only the names of calls are checked, and it is checked again with the
    sizes filled in before it runs. Raises CaptureError (AOTC-E844) with a finding per kind of call.
    """
    found: dict[Finding | None, None] = {}

    def visit(operation: Any) -> Any:
        name = str(operation.name)
        if name.partition(".")[0] not in DIALECTS:
            found[_refuse(where, name, "operations of StableHLO")] = None
        elif name in ("stablehlo.custom_call", "vhlo.custom_call_v1"):
            found[_call_finding(operation, where, static=static)] = None
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    raise_if(filter(None, found))


def _refuse(where: str, found: str, expected: str) -> Finding:
    hint = "export the model without it, or write the entry point as a `function`"
    return finding("AOTC-E844", where, found, expected=expected, hint=hint)


def _call_finding(operation: Any, where: str, *, static: bool) -> Finding | None:
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    name = target if target.isprintable() and len(target) <= 100 else ascii(target)[:100]
    if target not in _KERNELS and target != TOP_K:
        is_other = (
            target in SPELLED
            or target in TPU_BUILT_IN
            or target.startswith(CUDA_BUILT_IN)
            or cuda_module(target) is not None
        )
        # Calls of other devices are not registered on a processor.
        return None if is_other else _refuse(where, f"a custom call to {name}", "calls it may make")
    operands, results = (
        tuple(map(_tensor, (each.type for each in values)))
        for values in (operation.operands, operation.results)
    )
    if None in operands + results:
        expected = f"tensors with sizes that do not vary, as {name} takes them"
        return _refuse(where, f"a custom call to {name}", expected) if static else None
    settings = _settings(operation)
    if settings is None:
        expected = f"one backend_config that names its settings, as {name} takes it"
        return _refuse(where, f"a custom call to {name}", expected)
    call = _Call(operands, results, settings)  # type: ignore[arg-type]
    kind = operands[0][0] if operands and operands[0] else "f32"
    top_k = _Kernel(f"{kind}[n]", f"{kind}[q], i32[q]", falling="nq")
    kernels = _KERNELS.get(target, (top_k,))
    if any(kernel.takes(call) for kernel in kernels):
        return None
    return _refuse(where, f"{name} of {call}", " or ".join(f"{name} of {k}" for k in kernels))


def _tensor(kind: Any) -> Tensor | None:
    """Return the tensor of a type; None unless all its sizes are static."""
    try:
        tensor = ir.RankedTensorType(kind)
    except (ValueError, TypeError):
        return None
    if not tensor.has_static_shape:
        return None
    return str(tensor.element_type), tuple(tensor.shape)


def _settings(operation: Any) -> dict[str, Setting] | None:
    """Return the attributes of a call by name; None if they are not in one place by name."""
    found = [
        attribute
        for name in ("backend_config", "mhlo.backend_config")
        if name in operation.attributes
        and getattr(attribute := operation.attributes[name], "value", None) != ""
    ]
    if len(found) > 1 or not all(isinstance(each, ir.DictAttr) for each in found):
        return None
    return {each.name: _value(each.attr) for attribute in found for each in attribute}


def _value(attribute: Any) -> Setting:
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None
