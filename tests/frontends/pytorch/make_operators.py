"""Records what torch's operators return: for arguments that torch's own tests use, and for our own.

`python make_operators.py FOLDER NAMES` reads names of operators ("aten.add.Tensor"), one in a line,
from the file NAMES and writes FOLDER/operators.json (arguments and results of each call) and
FOLDER/operators.npz (their tensors).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers operators
from edge_calls import edge_calls
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

CALLS_MAX = 14
"""Calls of one operator; ELEMENTS_MAX: elements of the largest tensor in one."""
ELEMENTS_MAX = 4096
SAMPLES_MAX = {torch.float32: 12}
"""Of torch's samples for an operator; of other dtypes 3."""
LEFT_OUT = (
    "masked",
    "sparse",
    "signal",
    "jiterator",
    "torch",
    "geqrf",
    "ormqr",
    "pca",
    "multinomial",
    "to_sparse",
    "nn.functional.ctc_loss",
    "nn.functional.multi",
)
"""Beginnings of names of what no model of the frontend has."""
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.uint8)
NAMESPACES = ("aten", "quantized_decomposed", "torchao")
NUMBERS = {
    dtype: number
    for number, dtype in {
        1: torch.uint8,
        2: torch.int8,
        3: torch.int16,
        4: torch.int32,
        5: torch.int64,
        6: torch.float16,
        7: torch.float32,
        8: torch.float64,
        9: torch.complex32,
        10: torch.complex64,
        11: torch.complex128,
        12: torch.bool,
        13: torch.bfloat16,
    }.items()
}


class TooLarge(Exception):
    pass


class Records:
    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.calls: list[dict[str, Any]] = []
        self.tensors: dict[str, np.ndarray[Any, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.by_value = False
        """Whether calls with the same dtypes and ranks are kept if their values differ."""

    def encoded(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if (
                value.numel() > ELEMENTS_MAX
                or value.dtype not in NUMBERS
                or value.layout != torch.strided
            ):
                raise TooLarge
            low = value.dtype in (torch.bfloat16,)
            array = (
                (value.float() if low else value)
                .detach()
                .resolve_conj()
                .resolve_neg()
                .cpu()
                .contiguous()
                .numpy()
            )
            name = f"{len(self.tensors):05}"
            self.tensors[name] = array.copy()
            return {"tensor": name, "dtype": NUMBERS[value.dtype]}
        if isinstance(value, list | tuple):
            return [self.encoded(item) for item in value]
        if isinstance(value, torch.dtype):
            return {"scalar_type": NUMBERS[value]}
        if isinstance(value, bool | int | str) or value is None:
            return value
        if isinstance(value, float):
            return {"float": repr(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None
        raise TooLarge

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and write down what it was given and what it returned."""
        name = f"{op._schema.name.replace('::', '.')}.{op._overloadname}"
        if name not in self.names:
            return op(*args, **kwargs)
        parameters = op._schema.arguments
        given = {p.name: a for p, a in zip(parameters, args, strict=False)} | kwargs
        before = dict(self.tensors)
        try:
            encoded = {key: self.encoded(value) for key, value in given.items()}
            result = op(*args, **kwargs)
            made = {"op": name, "args": encoded, "out": self.encoded(result)}
        except TooLarge:
            self.tensors = before
            return op(*args, **kwargs)
        except Exception:
            self.tensors = before
            raise
        kind = json.dumps([name, [self._kind(value) for value in given.values()]])
        if self.counts[name] >= CALLS_MAX or kind in self.seen:
            self.tensors = before
            return result
        self.seen.add(kind)
        self.counts[name] += 1
        self.calls.append(made)
        return result

    def _kind(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            known = [str(value.dtype), value.ndim, 0 in value.shape]
            return [*known, repr(value.tolist())] if self.by_value else known
        if isinstance(value, list | tuple):
            return [self._kind(item) for item in value]
        return repr(value)


class Recorder(torch.fx.Interpreter):
    """Runs a traced graph, its operators through `Records`."""

    def __init__(self, module: Any, records: Records) -> None:
        super().__init__(module)
        self.records = records

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.OpOverload):
            return self.records.call(target, args, dict(kwargs))
        return super().call_function(target, args, kwargs)


def traced(call: Callable[[], Any], records: Records) -> None:
    """Run a call operator by operator: as programs have them that are not decomposed, and as core
    ATen.
    """
    for whole in (True, False):
        Recorder(make_fx(lambda: call(), pre_dispatch=whole)(), records).run()


def call(op: Any, *args: Any, **kwargs: Any) -> functools.partial[Any]:
    return functools.partial(op, *args, **kwargs)


def own_calls() -> Iterator[Callable[[], Any]]:
    """Edges that torch's samples leave out: NaN, infinities, ties, negative axes, no elements."""
    nan, inf = math.nan, math.inf
    odd = torch.tensor([nan, -inf, inf, -0.0, 0.0, 1.5, -2.5, 2.5, 0.5, -7.0])
    ints = torch.tensor([-7, -1, 0, 1, 3, 7])
    a = torch.ops.aten
    for name in (
        "abs",
        "neg",
        "ceil",
        "floor",
        "round",
        "trunc",
        "relu",
        "relu6",
        "sigmoid",
        "silu",
        "softplus",
        "hardswish",
        "hardsigmoid",
        "hardtanh",
        "elu",
        "selu",
        "celu",
        "mish",
        "leaky_relu",
        "log1p",
        "expm1",
        "sign",
        "isnan",
        "isinf",
        "isfinite",
        "nan_to_num",
        "frac",
        "reciprocal",
        "rsqrt",
        "tanh",
        "erf",
        "log_sigmoid",
        "softshrink",
        "hardshrink",
        "logical_not",
        "exp",
        "log",
        "sqrt",
        "sgn",
        "square",
    ):
        yield call(getattr(a, name).default, odd)
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "remainder",
        "fmod",
        "eq",
        "ne",
        "lt",
        "ge",
        "floor_divide",
    ):
        packet = getattr(a, name)
        tensor = packet.default if name == "floor_divide" else packet.Tensor
        yield lambda op=tensor: op(odd[:, None], odd)
        yield lambda op=tensor: op(ints[:, None], torch.tensor([2, -3, 5]))
        yield lambda op=tensor: op(ints, torch.tensor(2.5))
        yield lambda op=tensor: op(torch.tensor([True, False]), torch.tensor([1.5, 2.5]))
        yield lambda op=tensor: op(
            ints.to(torch.uint8), torch.tensor([3, 3, 3, 3, 3, 3], dtype=torch.int8)
        )
        if hasattr(packet, "Scalar"):
            yield lambda op=packet.Scalar: op(ints, 2.5)
            yield lambda op=packet.Scalar: op(ints, -2)
            yield lambda op=packet.Scalar: op(odd.bfloat16(), 3)
    for mode in ("floor", "trunc"):
        yield lambda mode=mode: a.div.Tensor_mode(odd[:, None], odd, rounding_mode=mode)
        yield lambda mode=mode: a.div.Tensor_mode(
            ints[:, None], torch.tensor([2, -3]), rounding_mode=mode
        )
        yield lambda mode=mode: a.div.Scalar_mode(ints, 2, rounding_mode=mode)
    for exponent in (2, 3, -1, 0.5, -0.5, 2.5, 0, -2, 5, 1.0):
        yield lambda e=exponent: a.pow.Tensor_Scalar(odd, e)
    yield lambda: a.pow.Scalar(2, ints.float())
    yield lambda: a.pow.Tensor_Tensor(odd[:, None], odd)
    yield lambda: a.clamp.default(odd, 1.0, -1.0)
    yield lambda: a.clamp.default(ints, 0.5)
    yield lambda: a.clamp.Tensor(odd, torch.tensor(-1.0), torch.tensor(nan))
    ties = torch.tensor([[1.0, 3.0, 3.0, nan, 2.0], [2.0, 2.0, -1.0, 2.0, -1.0]])
    for name in ("max", "min"):
        yield call(getattr(a, name).dim, ties, -1)
        yield call(getattr(a, name).dim, ties, 0, True)
    for name in ("argmax", "argmin"):
        yield call(getattr(a, name).default, ties)
        yield call(getattr(a, name).default, ties, -2, True)
    for descending in (False, True):
        yield lambda d=descending: a.sort.stable(ties, stable=True, dim=-1, descending=d)
        yield lambda d=descending: a.argsort.stable(ties, stable=True, dim=0, descending=d)
        yield lambda d=descending: a.topk.default(
            torch.tensor([5.0, 1.0, nan, 4.0, -inf]), 4, -1, d
        )
        yield lambda d=descending: a.topk.default(torch.tensor([5, 1, -(2**31), 4]), 3, -1, d)
    for name in ("cummax", "cummin"):
        yield call(getattr(a, name).default, ties, -1)
    for name in ("sum", "mean", "prod"):
        yield call(getattr(a, name).default, torch.zeros(0, 3))
    yield lambda: a.sum.dim_IntList(torch.zeros(0, 3), [0])
    yield lambda: a.sum.dim_IntList(ties, [], True)
    yield lambda: a.var.correction(ties, [-1], correction=2)
    yield lambda: a.softmax.int(torch.tensor([[-inf, -inf], [0.0, -inf]]), -1)
    yield lambda: a._safe_softmax.default(torch.tensor([[-inf, -inf], [0.0, -inf]]), -1)
    x = torch.randn(2, 3, 7, 9)
    for ceil, pad, stride, include in itertools.product(
        (False, True), (0, 1), (1, 2, 3), (False, True)
    ):
        yield lambda c=ceil, p=pad, s=stride, i=include: a.avg_pool2d.default(
            x, [3, 2], [s, s], [p, p], c, i
        )
    for ceil, pad, stride in itertools.product((False, True), (0, 1), (2, 3)):
        yield lambda c=ceil, p=pad, s=stride: a.max_pool2d.default(
            x, [3, 2], [s, s], [p, p], [1, 2], c
        )
        yield lambda c=ceil, p=pad, s=stride: a.max_pool2d_with_indices.default(
            x, [3, 2], [s, s], [p, p], [1, 2], c
        )
    yield lambda: a.adaptive_avg_pool2d.default(x, [3, 4])
    for size in ([5, 4], [14, 18], [1, 1], [9, 20]):
        for align in (False, True):
            yield lambda s=size, al=align: a.upsample_bilinear2d.vec(x, s, al, None)
            yield lambda s=size, al=align: a.upsample_bicubic2d.vec(x, s, al, None)
            yield lambda s=size, al=align: a._upsample_bilinear2d_aa.vec(x, s, al, None)
            yield lambda s=size, al=align: a._upsample_bicubic2d_aa.vec(x, s, al, None)
        yield lambda s=size: a.upsample_nearest2d.vec(x, s, None)
        yield lambda s=size: a._upsample_nearest_exact2d.vec(x, s, None)
    yield lambda: a.upsample_bilinear2d.vec(x, None, False, [1.7, 0.6])
    yield lambda: a.upsample_nearest2d.vec(x, None, [1.7, 0.6])
    yield lambda: a.upsample_linear1d.vec(x[0], [11], False, None)
    yield lambda: a.upsample_trilinear3d.vec(x[None], [4, 5, 6], True, None)
    for mode in ("reflect", "replicate", "circular", "constant"):
        yield lambda m=mode: a.pad.default(x, [1, 2, 3, 0], m)
    yield lambda: a.pad.default(x, [-1, 2, 0, -3], "constant", 1.5)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    mask = torch.rand(2, 1, 5, 7) > 0.5
    mask[0, 0, 2] = False
    sdpa = a.scaled_dot_product_attention.default
    yield lambda: sdpa(q, k, k)
    yield lambda: sdpa(q, k, k, mask)
    yield lambda: sdpa(q, k, k, torch.randn(5, 7), scale=0.3)
    yield lambda: sdpa(q, k, k, is_causal=True)
    yield lambda: sdpa(q, k[:, :2], k[:, :2], enable_gqa=True)
    for groups in (1, 2):
        w = torch.randn(4, 6 // groups, 3, 3)
        y = torch.randn(2, 4, 6, 5)
        yield lambda y=y, g=groups: a.conv_transpose2d.input(
            y, torch.randn(4, 3, 3, 2), None, [2, 3], [1, 0], [1, 2], g, [1, 2]
        )
        yield lambda w=w, g=groups: a.conv2d.default(
            torch.randn(2, 6, 8, 7), w, torch.randn(4), [2, 1], [1, 2], [2, 1], g
        )
        yield lambda w=w, g=groups: a.conv2d.padding(
            torch.randn(2, 6, 8, 7), w, None, [1, 1], "same", [2, 1], g
        )
    yield lambda: a.conv1d.default(torch.randn(4, 9), torch.randn(5, 4, 3))
    yield lambda: a.conv3d.default(
        torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2), None, [1, 2, 1]
    )
    for places in (
        [torch.tensor([0, -1])],
        [None, torch.tensor([[1], [0]])],
        [torch.tensor([0, 1]), None, torch.tensor([2, -2])],
    ):
        yield lambda p=places: a.index.Tensor(x[0], p)
    yield lambda: a.index_put.default(x[0], [None, torch.tensor([0, 2])], torch.randn(3, 2, 9))
    yield lambda: a.index_put.default(x[0], [torch.tensor([0, 0])], torch.ones(()), True)
    yield lambda: a.index_put.default(x[0], [x[0] > 0], torch.tensor(-1.0))
    for start, end, step in (
        (0, 5, 1),
        (-3, 9223372036854775807, 1),
        (1, -1, 2),
        (5, 2, 1),
        (-100, 100, 3),
    ):
        yield lambda s=start, e=end, p=step: a.slice.Tensor(x, -1, s, e, p)
    yield lambda: a.arange.start_step(1, 9, 3)
    yield lambda: a.arange.start_step(0.0, 1.0, 0.1)
    yield lambda: a.arange.start_step(5, -3, -2, dtype=torch.float32)
    yield lambda: a.split.Tensor(x, 4, -1)
    yield lambda: a.chunk.default(x, 4, 3)
    yield lambda: a.roll.default(x, [2, -1], [-1, 1])
    yield lambda: a.cat.default([torch.zeros(0), x[0], x[0].to(torch.float64)], 1)
    yield lambda: a.to.dtype(torch.tensor([1.9, -1.9, 300.0, -1.0]), torch.int64)
    yield lambda: a.to.dtype(odd, torch.bool)
    wave, window = torch.randn(2, 50), torch.hann_window(12)
    for options in (
        {},
        {"hop_length": 3, "window": window, "win_length": 12, "normalized": True},
        {"hop_length": 5, "center": False, "onesided": False},
        {"pad_mode": "constant", "win_length": 11},
        {"pad_mode": "replicate", "window": torch.ones(16) + 0.5j, "hop_length": 7},
    ):
        yield lambda o=options: a.stft.center(wave, 16, return_complex=True, **o)
        yield lambda o=options: a.stft.center(
            wave[0], 15, return_complex=False, **o | {"window": None}
        )
    yield lambda: a.stft.default(wave, 16, 3, 12, window, return_complex=True)
    for options in (
        {},
        {"length": 40},
        {"length": 60},
        {"center": False},
        {"center": False, "length": 33},
        {"normalized": True, "win_length": 12, "window": window + 0.1},
        {"onesided": True, "hop_length": 5},
    ):
        spectra = torch.randn(2, 9, 6, dtype=torch.complex64)
        spectra[:, 0], spectra[:, -1] = spectra[:, 0].real + 0j, spectra[:, -1].real + 0j
        yield lambda o=options, s=spectra: a.istft.default(s, 16, **o)
        yield lambda o=options, s=spectra: a.istft.default(s[0], 16, **o)
    whole = torch.randn(2, 16, 6, dtype=torch.complex64)
    yield lambda: a.istft.default(whole, 16, onesided=False, return_complex=True)
    yield lambda: a.diff.default(odd, 2)
    yield lambda: a.diff.default(ints[None], 1, 0, ints[None], ints[None])
    yield lambda: a.diff.default(torch.tensor([True, False, False, True]))
    square, sides = torch.randn(2, 4, 4), torch.randn(2, 4, 3)
    factors, pivots = torch.linalg.lu_factor(square)
    yield lambda: a.linalg_lu.default(torch.randn(3, 5))
    yield lambda: a._lu_with_info.default(torch.randn(2, 5, 3))
    yield lambda: a.lu_unpack.default(*torch.linalg.lu_factor(torch.randn(2, 5, 3)))
    yield lambda: a.lu_unpack.default(factors, pivots, True, False)
    yield lambda: a.lu_unpack.default(factors, pivots, False, True)
    yield lambda: a.lu_solve.default(sides, factors, pivots)
    yield lambda: a.lu_solve.default(sides[0], factors, pivots)
    for adjoint in (False, True):
        pairs = torch.linalg.lu_factor(torch.complex(square, square.mT))
        yield lambda f=pairs, d=adjoint: a.linalg_lu_solve.default(
            *f, sides.to(torch.complex64), adjoint=d
        )
        yield lambda f=pairs, d=adjoint: a.linalg_lu_solve.default(
            *f, sides.mT.to(torch.complex64), left=False, adjoint=d
        )
    yield lambda: a._linalg_eigvals.default(square)
    for p in ("fro", "nuc"):
        yield lambda p=p: a.linalg_cond.p_str(square, p)
    for p in (None, 1, -1, 2, -2, math.inf, -math.inf):
        yield lambda p=p: a.linalg_cond.default(square, p)
    yield lambda: a.linalg_cond.default(torch.diag(torch.tensor([1.0, 0.0])))
    yield lambda: a.linalg_cond.default(torch.randn(2, 4, 3))
    yield lambda: a.linalg_cond.default(torch.zeros(2, 2), 1)
    for cell in ("lstm", "gru", "rnn_tanh"):
        gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[cell]
        params = [
            torch.randn(gates * 5, 4),
            torch.randn(gates * 5, 5),
            torch.randn(gates * 5),
            torch.randn(gates * 5),
        ]
        h = torch.randn(2, 3, 5)
        state = [h, torch.randn(2, 3, 5)] if cell == "lstm" else h
        op = getattr(a, cell).input
        yield lambda op=op, s=state, p=params: op(
            torch.randn(6, 3, 4), s, p * 2, True, 1, 0.0, False, True, False
        )
        yield lambda op=op, s=state, p=params: op(
            torch.randn(3, 6, 4), s, [p[0], p[1]] * 2, False, 1, 0.0, False, True, True
        )


def quantized_calls() -> Iterator[functools.partial[Any]]:
    """Quantization as exports of PT2E have it: ordinary numbers, ends of ranges, NaN."""
    nan, inf = math.nan, math.inf
    q = torch.ops.quantized_decomposed
    x = torch.randn(3, 4, 8) * 3
    odd = torch.tensor(
        [[nan, -inf, inf, -0.0, 0.5, 1.5, 2.5, 1e9], [-0.5, -1.5, 3, 4, 5, 6, 7, -1e9]]
    )
    for dtype, low, high in (
        (torch.int8, -128, 127),
        (torch.uint8, 0, 255),
        (torch.int8, -127, 127),
        (torch.int16, -32768, 32767),
        (torch.int32, -(2**20), 2**20),
    ):
        one, zero = torch.tensor(0.037), torch.tensor(3)
        per, zeros = torch.rand(8) + 0.01, torch.randint(-3, 4, (8,)) - low // 2 * (low == 0)
        for given in (x, odd, odd.bfloat16(), torch.zeros(2, 8)):
            yield call(q.quantize_per_tensor.default, given, 0.037, 3, low, high, dtype)
            yield call(q.quantize_per_tensor.tensor, given, one, zero, low, high, dtype)
            ends = torch.tensor(low), torch.tensor(high)
            yield call(q.quantize_per_tensor.tensor2, given, one, zero, *ends, dtype)
            axis = given.ndim - 1
            yield call(q.quantize_per_channel.default, given, per, zeros, axis, low, high, dtype)
            if dtype in (torch.int8, torch.uint8):
                yield call(q.choose_qparams.tensor, given, low, high, 1e-7, dtype)
                yield call(q.choose_qparams_symmetric.tensor, given, low, high, 1e-7, dtype)
        whole = torch.randint(low, high + 1, (3, 4, 8)).to(dtype)
        for out in (None, torch.float16, torch.bfloat16):
            kind = {"out_dtype": out}
            yield call(q.dequantize_per_tensor.default, whole, 0.037, 3, low, high, dtype, **kind)
            yield call(q.dequantize_per_tensor.tensor, whole, one, zero, low, high, dtype, **kind)
            ends = torch.tensor(low), torch.tensor(high)
            yield call(q.dequantize_per_tensor.tensor2, whole, one, zero, *ends, dtype, **kind)
            for points in (zeros, zeros.int(), None):
                yield call(
                    q.dequantize_per_channel.default,
                    *(whole, per, points, 2, low, high, dtype),
                    **kind,
                )
        yield call(q.convert_element_type.no_fuse, whole, torch.float32)
        rows = x.reshape(12, 8)
        yield call(
            q.quantize_per_channel_group.default,
            *(rows, torch.rand(24) + 0.01, torch.zeros(24), low, high, dtype, 4),
        )
        yield call(
            q.dequantize_per_channel_group.default,
            *(whole.reshape(12, 8), torch.rand(24), torch.ones(24).int(), low, high, dtype, 4),
            torch.float32,
        )
    for given in (x, odd, torch.zeros(2, 8), x.half(), x.bfloat16()):
        scales, points = q.choose_qparams_per_token(given, torch.int8)
        yield call(q.choose_qparams_per_token.default, given, torch.int8)
        yield call(q.quantize_per_token.default, given, scales, points, -128, 127, torch.int8)
        if given.dtype != torch.bfloat16:
            asymmetric = q.choose_qparams_per_token_asymmetric
            yield call(asymmetric.default, given.float(), torch.int8)
            asymmetric = q._choose_qparams_per_token_asymmetric_impl
            yield call(asymmetric.default, given.float(), torch.int8)
        whole = torch.randint(-128, 128, given.shape).to(torch.int8)
        if given.dtype == torch.bfloat16:
            continue  # torch rounds between its two steps
        more = scales, points, -128, 127, torch.int8, torch.float32
        yield call(q.dequantize_per_token.default, whole, *more)
    yield call(q.fake_quant_per_channel.default, x, torch.rand(8), torch.ones(8), 2, -128, 127)


def daily_calls() -> Iterator[Callable[[], Any]]:
    """Edges of pooling, medians, reductions by index and bags: ties, NaN, integers, no elements."""
    nan, inf = math.nan, math.inf
    a = torch.ops.aten
    ties = torch.tensor([[1.0, 3.0, 3.0, nan, 2.0], [2.0, 2.0, -1.0, 2.0, -inf], [nan] * 5])
    numbers = torch.tensor([[5, 5, -1, 2**30, 0, 7], [1, -7, 3, 3, 2, -(2**30)]])
    image = torch.randn(2, 3, 7, 5)
    spotted = torch.where(torch.rand(2, 3, 7, 5) < 0.1, nan, image.round())
    for size in ([2, 3], [1, 1], [7, 5], [9, 4], [3, 1]):
        for given in (image, spotted, image.round(), image[0], torch.full((1, 1, 4, 4), -inf)):
            yield call(a.adaptive_max_pool2d.default, given, size)
    for size in (1, 2, 5):
        yield call(a.adaptive_max_pool1d.default, image[0], [size])
        yield call(a.adaptive_max_pool3d.default, image[None], [1, size, 3])
    for given in (ties, ties.bfloat16(), numbers, torch.tensor(3.0), torch.randn(4, 7, 6)):
        yield call(a.median.default, given)
        yield call(a.nanmedian.default, given)
        for dim in (0, -1):
            for keep in (False, True):
                yield call(a.median.dim, given, dim, keep)
                yield call(a.nanmedian.dim, given, dim, keep)
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        for q in (torch.tensor([0.0, 0.3, 1.0]), torch.tensor(0.77)):
            for dim in (None, 1, 0):
                options = {"interpolation": how}
                yield call(a.quantile.default, ties, q, dim, dim == 1, **options)
                yield call(a.nanquantile.default, ties, q, dim, dim == 1, **options)
        yield call(a.quantile.scalar, torch.tensor([inf, 1, 2, -inf]), 0.5, None, False)
    index = torch.tensor([[0, 1, 1, 0, 1], [0, 1, 0, 0, 3], [1, 1, 0, 0, 0]])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            for given in (
                torch.randn(4, 5),
                torch.tensor([nan, -inf, inf, -0.0, 2]).repeat(4, 1),
                torch.randint(-9, 9, (4, 5)),
                torch.randint(0, 255, (4, 5)).to(torch.uint8),
                torch.rand(4, 5) > 0.5,
                torch.randn(4, 5).bfloat16(),
            ):
                if given.dtype == torch.bool and reduce == "mean":
                    continue
                source = given[:3].flip(1)
                options = {"include_self": include}
                yield call(a.scatter_reduce.two, given, 0, index, source, reduce, **options)
                if reduce != "sum" and given.dtype != torch.bool:
                    places = torch.tensor([2, 0, 2])
                    yield call(a.index_reduce.default, given, 0, places, source, reduce, **options)
    table = torch.randn(6, 3)
    strange = table.clone()
    strange[1, 0], strange[2, 1] = nan, inf
    ids = torch.tensor([1, 0, 4, 2, 2, 0, 5, 3])
    weights = torch.randn(8)
    for mode in (0, 1, 2):
        for bags in ([0, 3, 3, 5], [0, 2], [0]):
            for rows in (table, strange, table.half()):
                for padding in (-1, 0, 2):
                    for last in (False, True):
                        ends = [*bags, 8] if last else bags
                        given = rows, ids, torch.tensor(ends), False, mode, False
                        more = weights.to(rows.dtype) if mode == 0 and padding == 0 else None
                        yield call(a._embedding_bag.default, *given, more, last, padding)
                        if padding != -1:
                            yield call(a.embedding_bag.padding_idx, *given, more, last, padding)
        yield call(a.embedding_bag.default, table, ids.int(), torch.tensor([0, 4]).int(), mode=mode)
    yield call(
        a._int_mm.default,
        torch.randint(-128, 128, (17, 8)).to(torch.int8),
        torch.randint(-128, 128, (8, 16)).to(torch.int8),
    )
    for given in (torch.tensor([0.1, nan, inf]), torch.tensor([1, 2, 3])):
        yield call(a.isclose.default, given, given + 0)
        yield call(a.isclose.default, given, given * 2, equal_nan=True)
    yield call(a.heaviside.default, torch.tensor([nan, -1.0, 0.0, 2.0]), torch.tensor(0.5))
    rows, asked = torch.randn(2, 3, 5).sort(-1)[0], torch.randn(2, 3, 4)
    yield call(a.searchsorted.Tensor, rows, asked, right=True)
    yield call(a.repeat_interleave.self_Tensor, image, torch.tensor([2, 0, 1]), 1, output_size=3)


def samples(records: Records) -> None:
    """Torch's own samples, each traced, so that the operators are those of exported programs."""
    for info in op_db:
        if info.name.startswith(LEFT_OUT):
            continue
        for dtype in DTYPES:
            if dtype not in info.dtypes:
                continue
            try:
                given = list(
                    itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES_MAX.get(dtype, 3))
                )
            except Exception:  # noqa: BLE001  needs a library or a processor that is not here
                continue
            for sample in given:
                run = call(info.op, sample.input, *sample.args, **sample.kwargs)
                try:
                    random.seed(0)
                    traced(run, records)
                except Exception:  # noqa: BLE001  cannot be traced
                    continue


def schemas(names: set[str]) -> dict[str, Any]:
    """Of each operator: names of its arguments, and whether its result may share memory."""
    found: dict[str, Any] = {}
    for name in sorted(names):
        namespace, _, rest = name.partition(".")
        packet, _, overload = rest.partition(".")
        if namespace not in NAMESPACES:
            continue
        op = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        if op is None:
            found[name] = None
            continue
        schema = op._schema
        found[name] = {
            "arguments": [argument.name for argument in schema.arguments],
            "view": any(result.alias_info is not None for result in schema.returns),
        }
    return found


def main(folder: Path, names: Path) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    records = Records(set(names.read_text(encoding="utf-8").split()))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schemas.json").write_text(json.dumps(schemas(records.names)), encoding="utf-8")
    with torch.no_grad():
        records.by_value = True
        for own in itertools.chain(own_calls(), daily_calls()):
            records.counts = Counter()
            try:
                traced(own, records)
            except RuntimeError as error:
                print("torch refuses:", str(error).splitlines()[0])
        for made in quantized_calls():  # not traced: they take numbers out of tensors
            records.counts = Counter()
            records.call(made.func, made.args, made.keywords)
        refused: Counter[str] = Counter()
        for op, args, kwargs in edge_calls():
            records.counts = Counter()
            try:
                records.call(op, args, kwargs)
            except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
                refused[str(op)] += 1
        print("torch refuses calls of edge_calls:", dict(refused))
        records.by_value, records.counts = False, Counter()
        samples(records)
    (folder / "operators.json").write_text(json.dumps(records.calls), encoding="utf-8")
    np.savez_compressed(folder / "operators.npz", **records.tensors)
    missing = sorted(records.names - {made["op"] for made in records.calls})
    print(f"{len(records.calls)} calls of {len({c['op'] for c in records.calls})} operators")
    print("not called:", *missing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
