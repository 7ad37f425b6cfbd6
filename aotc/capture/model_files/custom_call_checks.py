"""The custom calls that a module from a file may make, judged before anything of it runs.

A custom call is a function of the process that runs the module: XLA passes it buffers, and compares
neither their number nor their sizes with what the function reads and writes. So each call of a file
has to be one that is known here, with the operands, results and attributes that its kernel takes.
Sources: jaxlib/cpu/lapack_kernels.cc, jax/_src/lax/linalg.py and xla/service/cpu (jaxlib 0.12.0.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from aotc.base.errors import raise_if, refusal
from aotc_runtime.base.errors import AotcError, Finding
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

_LAPACK = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")
_TYPES = {
    "s": ("f32", "f32", "complex<f32>"),
    "d": ("f64", "f64", "complex<f64>"),
    "c": ("complex<f32>", "f32", "complex<f32>"),
    "z": ("complex<f64>", "f64", "complex<f64>"),
}
"""By the letter of a kernel: its numbers, its real ones, and its complex ones."""

type Tensor = tuple[str, tuple[int, ...]]
"""Element type, and sizes."""


class _Misfit(Exception):
    """A call does not match its kernel; the text describes a valid one."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with static sizes. kind: the numbers of the kernel: its own, real, complex."""

    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    settings: Mapping[str, int | bool | None]
    kind: tuple[str, str, str]

    def operand(self, number: int, count: int, rank: int) -> tuple[tuple[int, ...], list[int]]:
        """The sizes of a batch, and those that are left, of one of so many operands."""
        if len(self.operands) != count:
            raise _Misfit(f"{count} operands")
        sizes = self.operands[number][1]
        if len(sizes) < rank:
            raise _Misfit(f"an operand {number} of at least {rank} dimensions")
        cut = len(sizes) - rank
        return sizes[:cut], list(sizes[cut:])

    def letter(self, name: str, allowed: str) -> str:
        """The value of a setting, which is a character."""
        value = self.settings.get(name)
        if isinstance(value, bool) or value is None or chr(value & 0xFF) not in allowed:
            raise _Misfit(f"{name} as one of the characters {', '.join(allowed)}")
        return chr(value & 0xFF)

    def number(self, name: str) -> int:
        value = self.settings.get(name)
        if value is None or isinstance(value, bool):
            raise _Misfit(f"a number {name}")
        return value


type _Shapes = tuple[list[Tensor], list[Tensor]]
"""Operands and results that a kernel takes."""


def _square(call: _Call) -> tuple[tuple[int, ...], int]:
    batch, (rows, columns) = call.operand(0, 1, 2)
    if rows != columns:
        raise _Misfit("a square matrix")
    return batch, rows


def _potrf(call: _Call) -> _Shapes:
    batch, n = _square(call)
    call.letter("uplo", "LU")
    a = call.kind[0], (*batch, n, n)
    return [a], [a, ("i32", batch)]


def _getrf(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(0, 1, 2)
    a = call.kind[0], (*batch, m, n)
    return [a], [a, ("i32", (*batch, min(m, n))), ("i32", batch)]


def _geqrf(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(0, 1, 2)
    a = call.kind[0], (*batch, m, n)
    return [a], [a, (call.kind[0], (*batch, min(m, n)))]


def _geqp3(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(0, 2, 2)
    a, pivots = (call.kind[0], (*batch, m, n)), ("i32", (*batch, n))
    return [a, pivots], [a, pivots, (call.kind[0], (*batch, min(m, n)))]


def _gqr(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(0, 2, 2)
    _, (k,) = call.operand(1, 2, 1)
    if not m >= n >= k:
        raise _Misfit("rows, columns and reflectors of which none is fewer than the next")
    a = call.kind[0], (*batch, m, n)
    return [a, (call.kind[0], (*batch, k))], [a]


def _mqr(call: _Call) -> _Shapes:
    batch, (rows, columns) = call.operand(0, 3, 2)
    _, (k,) = call.operand(1, 3, 1)
    _, (m, n) = call.operand(2, 3, 2)
    left = call.settings.get("left")
    if not isinstance(left, bool) or not isinstance(call.settings.get("transpose"), bool):
        raise _Misfit("left and transpose as truth values")
    if rows != (m if left else n) or k != columns or k > rows:
        raise _Misfit("reflectors of the rows or columns of what they are applied to")
    c = call.kind[0], (*batch, m, n)
    return [(call.kind[0], (*batch, rows, columns)), (call.kind[0], (*batch, k)), c], [c]


def _trsm(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(1, 2, 2)
    size = m if call.letter("side", "LR") == "L" else n
    call.letter("uplo", "LU")
    call.letter("trans_x", "NTC")
    call.letter("diag", "NU")
    b = call.kind[0], (*batch, m, n)
    return [(call.kind[0], (*batch, size, size)), b], [b]


def _gesdd(call: _Call) -> _Shapes:
    batch, (m, n) = call.operand(0, 1, 2)
    if len(call.results) != 5:
        raise _Misfit("5 results")
    mode, k = call.letter("mode", "ASN"), min(m, n)
    # Results that are not computed may have either size: nothing is written there.
    whole = mode == "A" or (mode == "N" and call.results[2][1] == (*batch, m, m))
    a, own = (call.kind[0], (*batch, m, n)), call.kind[0]
    u, vt = ((*batch, m, m), (*batch, n, n)) if whole else ((*batch, m, k), (*batch, k, n))
    return [a], [a, (call.kind[1], (*batch, k)), (own, u), (own, vt), ("i32", batch)]


def _evd(call: _Call) -> _Shapes:
    batch, n = _square(call)
    call.letter("mode", "VN")
    call.letter("uplo", "LU")
    a = call.kind[0], (*batch, n, n)
    return [a], [a, (call.kind[1], (*batch, n)), ("i32", batch)]


def _geev(call: _Call) -> _Shapes:
    batch, n = _square(call)
    call.letter("compute_left", "VN")
    call.letter("compute_right", "VN")
    own, real, wide = call.kind
    values = [(own, (*batch, n))] * (2 if own == real else 1)
    vectors = [(wide, (*batch, n, n))] * 2
    return [(own, (*batch, n, n))], [*values, *vectors, ("i32", batch)]


def _trd(call: _Call) -> _Shapes:
    batch, n = _square(call)
    call.letter("uplo", "LU")
    own, real, _ = call.kind
    less = (*batch, max(n - 1, 0))
    a = own, (*batch, n, n)
    return [a], [a, (real, (*batch, n)), (real, less), (own, less), ("i32", batch)]


def _gees(call: _Call) -> _Shapes:
    batch, n = _square(call)
    call.letter("mode", "VN")
    call.letter("sort", "N")  # with another, it calls a function that was not passed
    own, real, _ = call.kind
    a, info = (own, (*batch, n, n)), ("i32", batch)
    values = [(own, (*batch, n))] * (2 if own == real else 1)
    return [a], [a, a, *values, info, info]


def _gehrd(call: _Call) -> _Shapes:
    batch, n = _square(call)
    if not 1 <= call.number("low") <= max(call.number("high"), 1) <= max(n, 1):
        raise _Misfit("low and high within the matrix")
    own = call.kind[0]
    a = own, (*batch, n, n)
    return [a], [a, (own, (*batch, max(n - 1, 0))), ("i32", batch)]


def _gtsv(call: _Call) -> _Shapes:
    batch, (n, k) = call.operand(3, 4, 2)
    band, b = (call.kind[0], (*batch, n)), (call.kind[0], (*batch, n, k))
    every = [band, band, band, b]
    return every, [*every, ("i32", batch)]


_KERNELS: Mapping[str, tuple[str, Callable[[_Call], _Shapes]]] = {
    "potrf": ("sdcz", _potrf),
    "getrf": ("sdcz", _getrf),
    "geqrf": ("sdcz", _geqrf),
    "geqp3": ("sdcz", _geqp3),
    "orgqr": ("sd", _gqr),
    "ungqr": ("cz", _gqr),
    "ormqr": ("sd", _mqr),
    "unmqr": ("cz", _mqr),
    "trsm": ("sdcz", _trsm),
    "gesdd": ("sdcz", _gesdd),
    "gesvd": ("sdcz", _gesdd),
    "syevd": ("sd", _evd),
    "heevd": ("cz", _evd),
    "geev": ("sdcz", _geev),
    "sytrd": ("sd", _trd),
    "hetrd": ("cz", _trd),
    "gees": ("sdcz", _gees),
    "gehrd": ("sdcz", _gehrd),
    "gtsv": ("sdcz", _gtsv),
}
"""By name without its letter: the allowed letters, and the shapes of arguments."""


def _top_k(call: _Call) -> _Shapes:
    batch, (n,) = call.operand(0, 1, 1)
    if not call.results or not call.results[0][1]:
        raise _Misfit("2 results")
    k = call.results[0][1][-1]
    if k > n:
        raise _Misfit("at most as many results as there are elements")
    kind = call.operands[0][0]
    return [(kind, (*batch, n))], [(kind, (*batch, k)), ("i32", (*batch, k))]


def require_known_calls(module: Any, where: str, *, static: bool) -> None:
    """Reject a verified MLIR module with an unknown custom call, or one unlike its kernel's.

    `where` is the file or entry point, for messages. With `static`, sizes have to be numbers: of a
    module with symbolic sizes only the names of calls are checked, and it is checked again with the
    sizes filled in before it runs. Raises CaptureError (AOTC-E844) with a finding per kind of call.
    """
    found: dict[Finding, None] = {}

    def visit(operation: Any) -> Any:
        name = str(operation.name)
        if name.partition(".")[0] not in DIALECTS:
            found.update(_refused(where, name, "operations of StableHLO"))
        elif name in ("stablehlo.custom_call", "vhlo.custom_call_v1"):
            found.update(_judged(operation, where, static=static))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    raise_if(found)


def _refused(where: str, found: str, expected: str) -> dict[Finding, None]:
    error: AotcError = refusal(
        "AOTC-E844",
        where,
        found,
        expected=expected,
        hint="export the model without it, or write the entry point as a `function`",
    )
    return dict.fromkeys(error.findings)


def _judged(operation: Any, where: str, *, static: bool) -> dict[Finding, None]:
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    name = target if target.isprintable() and len(target) <= 100 else ascii(target)[:100]
    match = _LAPACK.fullmatch(target)
    letters, shapes = _KERNELS.get(match[2], ("", _top_k)) if match else ("", _top_k)
    kernel = match is not None and match[1] in letters
    if not kernel and target != "TopK":
        is_other = (
            target in SPELLED
            or target in TPU_BUILT_IN
            or target.startswith(CUDA_BUILT_IN)
            or cuda_module(target) is not None
        )
        # Calls of other devices are not registered on a processor.
        return {} if is_other else _refused(where, f"a custom call to {name}", "calls it may make")
    try:
        operands, results = (
            tuple(map(_tensor, (each.type for each in values)))
            for values in (operation.operands, operation.results)
        )
        if None in operands + results:
            if static:
                raise _Misfit("tensors with sizes that do not vary")
            return {}
        kind = _TYPES[match[1]] if match else ("", "", "")
        call = _Call(operands, results, dict(_settings(operation)), kind)  # type: ignore[arg-type]
        wanted = shapes(call)
    except _Misfit as misfit:
        return _refused(where, f"a custom call to {name}", f"{misfit}, as {name} takes it")
    if ([*call.operands], [*call.results]) != wanted:
        found = f"{name} of {_shown(call.operands)} with results {_shown(call.results)}"
        expected = f"{name} of {_shown(wanted[0])} with results {_shown(wanted[1])}"
        return _refused(where, found, expected)
    return {}


def _tensor(kind: Any) -> Tensor | None:
    """None for what is no tensor of static sizes."""
    try:
        tensor = ir.RankedTensorType(kind)
    except (ValueError, TypeError):
        return None
    if not tensor.has_static_shape:
        return None
    return str(tensor.element_type), tuple(tensor.shape)


def _settings(operation: Any) -> Iterator[tuple[str, int | bool | None]]:
    """The attributes of a call by name; None for what is neither number nor truth value."""
    found = [
        attribute
        for name in ("backend_config", "mhlo.backend_config")
        if name in operation.attributes
        and not _is_empty_text(attribute := operation.attributes[name])
    ]
    if len(found) > 1 or not all(isinstance(each, ir.DictAttr) for each in found):
        raise _Misfit("one backend_config that names its settings")
    for attribute in found:
        for each in attribute:
            yield each.name, _value(each.attr)


def _is_empty_text(attribute: Any) -> bool:
    return isinstance(attribute, ir.StringAttr) and not attribute.value


def _value(attribute: Any) -> int | bool | None:
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def _shown(tensors: Any) -> str:
    return ", ".join(f"{kind}[{','.join(map(str, sizes))}]" for kind, sizes in tensors) or "nothing"
