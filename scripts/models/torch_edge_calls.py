"""Calls of operators with arguments that torch's own samples leave out.

Each yields an operator and its arguments: special values, integers at
the ends of their ranges, truth values, tensors without elements and without axes, short floats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers operators
import torchao.quantization.quant_primitives  # noqa: F401  registers operators

type Given = tuple[Any, tuple[Any, ...], dict[str, Any]]

NAN, INF = math.nan, math.inf
A = torch.ops.aten

ODD = torch.tensor([NAN, -INF, INF, -0.0, 0.0, 1.5, -2.5, 2.5, 0.5, -7.0, 1.0, -1.0, 1e30, 1e-30])
WHOLE = torch.tensor([-7, -1, 0, 1, 3, 7, 12, 127])
NUMBERS = (
    ODD,
    ODD.bfloat16(),
    ODD.half(),
    torch.linspace(-4, 9.1, 40),
    torch.tensor([0.25, 0.5, 0.999, 1e-7, 30.0, 90.0, 200.0, -30.0, -90.0]),
    WHOLE,
    WHOLE.int(),
    WHOLE.to(torch.int8),
    WHOLE.clamp(0).to(torch.uint8),
    torch.tensor([True, False]),
    torch.zeros(0),
    torch.zeros(0, 3, dtype=torch.int64),
    torch.tensor(2.5),
    torch.tensor(-3),
)


def made(op: Any, *args: Any, **kwargs: Any) -> Given:
    return op, args, kwargs


def edge_calls() -> Iterator[Given]:
    yield from _functions()
    yield from _functions_of_two()
    yield from _bits()
    yield from _shapes()
    yield from _stacks()
    yield from _reductions()
    yield from _products()
    yield from _places()
    yield from _scattered()
    yield from _affine()


def _functions() -> Iterator[Given]:
    for name in (
        *("i0", "isreal", "special_entr", "special_i0e", "special_i1", "special_i1e"),
        *("special_log_ndtr", "special_ndtr", "special_ndtri", "trace", "diagflat"),
        *("atleast_1d", "atleast_2d", "atleast_3d", "lgamma", "digamma", "erfinv", "sinc"),
        *("asinh", "acosh", "atanh", "exp2", "log2", "signbit", "logit", "deg2rad", "positive"),
    ):
        op = getattr(getattr(A, name, None), "default", None)
        for x in NUMBERS if op is not None else ():
            yield made(op, x)
    complex_ = torch.tensor([1 + 2j, 3 + 0j, complex(NAN, 0), complex(0, NAN), -0.0j])
    yield made(A.isreal.default, complex_)


def _functions_of_two() -> Iterator[Given]:
    pairs = [(x[:, None], x) for x in (ODD, ODD.bfloat16(), WHOLE, WHOLE.to(torch.int8))]
    pairs += [
        (torch.rand(20) * 8, torch.rand(20) * 8),
        (torch.rand(20).bfloat16() * 8, torch.rand(20) * 8),
        (torch.tensor([1e-3, 0.5, 60.0, 300.0]), torch.tensor([[1e-3], [0.5], [60.0], [300.0]])),
        (WHOLE, torch.tensor(2.5)),
        (WHOLE.to(torch.uint8), WHOLE.to(torch.int8)),
        (torch.tensor([True, False]), torch.tensor([1.5, 0.0])),
        (torch.tensor([True, False]), torch.tensor([[True], [False]])),
        (torch.tensor([True, False]), ODD[:, None]),
        (ODD[:, None].bfloat16(), torch.tensor([True, False])),
        (torch.tensor([2**31 - 1, -(2**31), 6], dtype=torch.int32), WHOLE[:3].int()),
        (torch.zeros(0), torch.zeros(3, 1)),
        (torch.tensor(2.5), torch.tensor(-3)),
    ]
    for name in (
        *("logaddexp2", "special_xlog1py", "heaviside", "nextafter", "gcd", "lcm", "isclose"),
        "dist",
        *("logaddexp", "atan2", "hypot", "copysign", "fmax", "fmin", "maximum", "minimum"),
    ):
        for a, b in pairs:
            yield made(getattr(A, name).default, a, b)
    for a, b in pairs:
        for packet in (A.add, A.sub, A.mul, A.div):
            yield made(packet.Tensor, a, b)
        yield made(A.pow.Tensor_Tensor, a, b)
        if a.dtype != torch.int32:  # torch ends with a signal for -(2**31) / -1
            yield made(A.remainder.Tensor, a, b)
            yield made(A.fmod.Tensor, a, b)
            yield made(A.floor_divide.default, a, b)
            for mode in ("floor", "trunc"):
                yield made(A.div.Tensor_mode, a, b, rounding_mode=mode)
        yield made(A.xlogy.Tensor, a, b)
        yield made(A.isclose.default, a, b, 0.1, 0.2, True)
        yield made(A.isclose.default, a, a + 0, equal_nan=True)
        for p in (0, 1, 3.0, INF, -INF):
            yield made(A.dist.default, a, b, p)
    for x, number in itertools.product(NUMBERS, (2, -1, 0.5, 0, 3.0, NAN, INF, True)):
        yield made(A.special_xlog1py.other_scalar, x, number)
        yield made(A.special_xlog1py.self_scalar, number, x)
        for packet in (A.divide, A.mul, A.remainder, A.fmod):
            yield made(packet.Scalar, x, number)
        yield made(A.subtract.Scalar, x, number)
        yield made(A.subtract.Scalar, x, number, 2)
        for mode in ("floor", "trunc", None):
            yield made(A.divide.Scalar_mode, x, number, rounding_mode=mode)


def _bits() -> Iterator[Given]:
    for name, number in itertools.product(("and", "or", "xor"), (5, -2, True)):
        for x in (*NUMBERS[5:10], NUMBERS[11], NUMBERS[13]):
            yield made(getattr(A, f"bitwise_{name}").Scalar_Tensor, number, x)
            yield made(getattr(A, f"bitwise_{name}").Scalar, x, number)
    for side, number in itertools.product(("left", "right"), (0, 1, 7, 8, 31, 32, 63, 64, -1)):
        packet = getattr(A, f"bitwise_{side}_shift")
        for x in NUMBERS[5:9]:
            yield made(packet.Tensor_Scalar, x, number)
            yield made(packet.Tensor, x, torch.full_like(x, number))
            yield made(packet.Scalar_Tensor, number, x)
            yield made(packet.Scalar_Tensor, number, x.clamp(0, 6))


def _shapes() -> Iterator[Given]:
    x, whole = torch.randn(4, 6, 5), torch.arange(24).reshape(1, 4, 6, 1)
    for cuts, dim in itertools.product(([1, 3], [3, 1], [-1], [], [0, 100], [-100, 2]), (0, -1)):
        yield made(A.tensor_split.indices, x, cuts, dim)
    for chunks in (1, 2, 3, 4, 7):
        yield made(A.unsafe_chunk.default, x, chunks, 1)
        yield made(A.unsafe_split.Tensor, x, chunks, -1)
    yield made(A.unsafe_chunk.default, torch.zeros(0, 3), 2, 0)
    for dims in ([0, 2, 1], [-1, 0, 1]):
        yield made(A.permute_copy.default, x, dims)
    yield made(A.transpose_copy.int, x, 0, -1)
    yield made(A.transpose_copy.int, torch.tensor(2.0), 0, -1)
    for t in (x[0], x[0, 0], torch.tensor(1)):
        yield made(A.t_copy.default, t)
    for dim in (0, 1, -1):
        yield made(A.squeeze_copy.dim, whole, dim)
        yield made(A.unsqueeze_copy.default, whole, dim)
    yield made(A.squeeze_copy.default, whole)
    yield made(A.squeeze_copy.dims, whole, [0, 1, -1])
    yield made(A.squeeze_copy.dims, whole, [])
    yield made(A.squeeze_copy.dim, torch.tensor(1.0), 0)
    for start, length in ((0, 2), (-3, 2), (4, 0), (1, 3)):
        yield made(A.narrow_copy.default, x, 0, start if length else 4, length)
    for offset in (-1, 0, 2, 7):
        yield made(A.linalg_diagonal.default, x, offset=offset)
        yield made(A.linalg_diagonal.default, x, offset=offset, dim1=0, dim2=1)
        yield made(A.diagflat.default, x[0], offset)
        yield made(A.diagflat.default, torch.tensor(3), offset)
    for repeats in (torch.tensor([2, 0, 1, 3]), torch.tensor([0, 0, 0, 0]), torch.tensor([2])):
        size = int(repeats.expand(4).sum())
        yield made(A.repeat_interleave.self_Tensor, x, repeats, 0, output_size=size)
        yield made(A.repeat_interleave.self_Tensor, x[:, 0, 0], repeats, output_size=size)
        size = int(repeats.sum())
        yield made(A.repeat_interleave.Tensor, repeats, output_size=size)
        yield made(A.repeat_interleave.Tensor, repeats.int(), output_size=size)


def _stacks() -> Iterator[Given]:
    flat, table, cube = torch.arange(3), torch.randn(3, 2), torch.randn(3, 2, 4)
    zero, empty = torch.tensor(1.5), torch.zeros(0)
    groups = ([flat, flat], [table, table.double().float()], [cube, cube], [zero, zero], [table])
    for tensors in (*groups, [flat, flat.float()], [flat > 1, flat.to(torch.int8)], [flat, empty]):
        for name in ("dstack", "column_stack"):
            yield made(getattr(A, name).default, tensors)
    yield made(A.column_stack.default, [flat, table])
    yield made(A.column_stack.default, [zero, zero[None]])
    for n in (1, 2, 3):
        yield made(getattr(A, f"atleast_{n}d").Sequence, [zero, flat, table, cube, empty])


def _reductions() -> Iterator[Given]:
    ties = torch.tensor([[1.0, 3.0, 3.0, NAN, 2.0], [2.0, 2.0, -1.0, 2.0, -INF], [NAN] * 5])
    noise, whole = torch.randn(4, 6), torch.randint(-9, 9, (4, 6))
    ends = torch.tensor([2**63 - 1, -(2**63), 0, 5])
    some = (ties, ties.bfloat16(), ties.half(), noise, whole, whole.to(torch.uint8), whole.int())
    for x in (*some, torch.tensor([2**31 - 1, -(2**31), 7, 7], dtype=torch.int32), ends // 2**33):
        for name in ("median", "nanmedian"):
            yield made(getattr(A, name).default, x)
            for dim, keep in itertools.product((0, -1), (False, True)):
                yield made(getattr(A, name).dim, x, dim, keep)
    for x in (torch.zeros(0), torch.zeros(3, 0), torch.zeros(0, dtype=torch.int32)):
        yield made(A.median.default, x)
        yield made(A.nanmedian.default, x)
    yield made(A.median.dim, torch.zeros(0, 3), 1)
    yield made(A.nanmedian.dim, torch.tensor(NAN), 0)
    inf = torch.tensor([[INF, 1, 2, -INF], [INF, INF, INF, INF], [-INF, -INF, 5, 6]])
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        for x, q in itertools.product((ties, inf, noise, torch.tensor(2.0)), (0.0, 0.5, 0.3, 1.0)):
            for dim in (None, 0, -1):
                for name in ("quantile", "nanquantile"):
                    options = {"interpolation": how}
                    yield made(getattr(A, name).scalar, x, q, dim, dim == 0, **options)
                    many = torch.tensor([q, 0.9])
                    yield made(getattr(A, name).default, x, many, dim, dim == 0, **options)
    for x in (noise, whole, whole.to(torch.uint8), ties, noise.bfloat16(), noise[0], noise > 0):
        yield made(A.trace.default, x if x.ndim == 2 else x[None])


def _products() -> Iterator[Given]:
    x, y = torch.randn(3), torch.randn(3)
    z = torch.complex(x, y)
    for a, b in ((x, y), (z, z.flip(0)), (WHOLE[:3], WHOLE[3:6]), (x[:0], y[:0])):
        yield made(A.vdot.default, a, b)
        yield made(A.linalg_vecdot.default, a, b)
    yield made(A.vdot.default, x.bfloat16(), y.bfloat16())
    yield made(A.linalg_vecdot.default, torch.randn(4, 3, 2), torch.randn(3, 2), dim=-2)
    yield made(A.linalg_vecdot.default, torch.randn(40, 30).bfloat16(), torch.randn(30).bfloat16())
    m = torch.randn(3, 3)
    for self, a, b in (
        (m, x, y),
        (m.bfloat16(), x.bfloat16(), y.bfloat16()),
        (WHOLE[:3], WHOLE[:3], WHOLE[3:6]),
        (m > 0, x > 0, y > 0),
        (torch.full((3, 3), NAN), x, y),
    ):
        yield made(A.addr.default, self, a, b)
        if self.dtype.is_floating_point:
            yield made(A.addr.default, self, a, b, beta=0, alpha=2)
            yield made(A.addr.default, self, a, b, beta=0.5, alpha=-1.5)
    yield made(A.addr.default, m[:1], x, y)
    for a, b in ((m, torch.randn(2, 4)), (x, m), (torch.randn(2, 1, 3), m), (WHOLE, x), (x[:0], y)):
        yield made(A.kron.default, a, b)
    yield made(A.kron.default, torch.tensor(2.0), m)
    yield made(A.kron.default, m > 0, m < 0)
    for low in (torch.bfloat16, torch.float16):
        a, b = torch.randn(9, 40).to(low), torch.randn(40, 5).to(low)
        for out in (torch.float32, low):
            yield made(A.mm.dtype, a, b, out)
            yield made(A.bmm.dtype, a[None], b[None], out)
    packed, scales = torch.randint(-128, 128, (16, 32)).to(torch.int8), torch.rand(16)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        given = torch.randn(4, 32).to(dtype)
        yield made(A._weight_int8pack_mm.default, given, packed, scales.to(dtype))
    for rows, inner, columns in ((17, 8, 16), (1, 8, 8), (32, 64, 8)):
        a = torch.randint(-128, 128, (rows, inner)).to(torch.int8)
        b = torch.randint(-128, 128, (inner, columns)).to(torch.int8)
        yield made(A._int_mm.default, a, b)
    yield made(A._int_mm.default, *[torch.full((32, 32), -128, dtype=torch.int8)] * 2)


def _places() -> Iterator[Given]:
    edges = torch.tensor([-2.0, 0.0, 0.0, 1.5, INF])
    rows = torch.stack([edges, edges - 1])
    for right, narrow in itertools.product((False, True), (False, True)):
        options = {"right": right, "out_int32": narrow}
        for number in (0, 0.0, NAN, INF, -INF, 5, 1.5):
            yield made(A.searchsorted.Scalar, edges, number, **options)
            yield made(A.searchsorted.Scalar, WHOLE, number, **options)
            yield made(A.bucketize.Scalar, number, edges, **options)
        yield made(A.searchsorted.Tensor, edges, ODD, **options)
        yield made(A.searchsorted.Tensor, edges, ODD.bfloat16().float(), **options)
        yield made(A.searchsorted.Tensor, rows, torch.stack([ODD, ODD.flip(0)]), **options)
        yield made(A.searchsorted.Tensor, torch.tensor([0.0, 1.0, NAN]), ODD, **options)
        yield made(A.searchsorted.Tensor, edges[:0], ODD, **options)
        yield made(A.searchsorted.Tensor, edges, ODD[:0], **options)
        yield made(A.bucketize.Tensor, ODD, edges, **options)
        yield made(A.bucketize.Tensor, WHOLE, WHOLE, **options)
        yield made(A.bucketize.Tensor, WHOLE.to(torch.int8), WHOLE.to(torch.int8), **options)
    mixed = torch.tensor([3.0, -1.0, 7.0])
    order = mixed.argsort()
    yield made(A.searchsorted.Tensor, mixed, ODD, sorter=order)
    for x in (*NUMBERS[:11], NUMBERS[12]):
        for number in (1, 2.5, 0, True, NAN, -7):
            yield made(A.isin.Scalar_Tensor, number, x)
            yield made(A.isin.Scalar_Tensor, number, x, invert=True)
            yield made(A.isin.Tensor_Scalar, x, number)
        yield made(A.isin.Tensor_Tensor, x, x[:3] if x.ndim else x)
    yield made(A.isin.Tensor_Tensor, WHOLE, torch.tensor([1.0, 2.5]))
    x = torch.randn(4, 5)
    mask = torch.rand(3) > 0.5
    for fill in (0, 2.5, NAN):
        at = [torch.tensor([0, 9, -9]), torch.tensor([1, 2, 3])]
        inside = torch.tensor([True, False, False])
        yield made(A._unsafe_masked_index.default, x, inside, at, fill)
        yield made(A._unsafe_masked_index.default, x, mask, [None, torch.tensor([0, 4, 2])], fill)
        yield made(A._unsafe_masked_index.default, x.int(), inside, at, fill)


def _scattered() -> Iterator[Given]:
    index = torch.tensor([[0, 1, 1, 0, 1], [0, 1, 0, 0, 3], [1, 1, 0, 0, 0]])
    for reduce, include in itertools.product(
        ("sum", "prod", "mean", "amax", "amin"), (True, False)
    ):
        options = {"include_self": include}
        for x in (
            torch.tensor([NAN, -INF, INF, -0.0, 2]).repeat(4, 1),
            torch.tensor([[2.0, 0.0, -0.0, INF, 1.0]] * 2 + [[NAN] * 5, [-INF] * 5]),
            torch.randint(-9, 9, (4, 5)),
            torch.randint(-9, 9, (4, 5)).to(torch.int8),
            torch.randint(0, 255, (4, 5)).to(torch.uint8),
            torch.tensor([[2**31 - 1, -(2**31), 3, -7, -1]] * 4, dtype=torch.int32),
            torch.randn(4, 5).bfloat16() * 100,
            torch.randn(4, 5).half(),
        ):
            for source in (x[:3].flip(1), x[1:].flip(0)):
                yield made(A.scatter_reduce.two, x, 0, index, source, reduce, **options)
        for x in (torch.tensor(3.0), torch.tensor(-7)):
            at = torch.tensor(0)
            yield made(A.scatter_reduce.two, x, 0, at, x + 4, reduce, **options)
        x = torch.randn(3, 4)
        yield made(A.scatter_reduce.two, x, 1, index[:0], x[:0], reduce, **options)
    x = torch.randn(2, 3, 4, 6)
    spotted = torch.where(torch.rand(2, 3, 4, 6) < 0.3, NAN, x.round())
    for given, around in itertools.product((spotted, torch.full((1, 1, 4, 4), -INF), x), (0, 1)):
        yield made(A.max_pool2d_with_indices.default, given, [2, 3], [2, 2], [around, around])
        yield made(A.max_pool3d_with_indices.default, given, [1, 2, 2], [1, 2, 2], [0, 1, around])
        yield made(A.max_pool2d.default, given, [2, 3], [2, 2], [around, around])
    few = torch.zeros(0, 3, 4, 4)
    yield made(A.adaptive_max_pool2d.default, few, [2, 2])
    for dtype in (torch.bfloat16, torch.float16):
        yield made(A.adaptive_max_pool2d.default, x.to(dtype), [2, 5])
        yield made(A.adaptive_max_pool1d.default, x[0].to(dtype), [3])
    strange = torch.where(torch.rand(2, 3, 4, 6) < 0.2, NAN, x.round())
    low = torch.where(torch.rand(2, 3, 4, 6) < 0.5, -INF, x.round())
    for given, sizes in itertools.product((strange, low), ([3, 4], [1, 1], [2, 2], [4, 6], [7, 7])):
        yield made(A.adaptive_max_pool2d.default, given, sizes)
        yield made(A.adaptive_max_pool3d.default, given, [2, *sizes])
        yield made(A.adaptive_max_pool1d.default, given[0], sizes[1:])
    table = torch.randn(6, 3)
    table[1, 0], table[2, 1], table[3] = NAN, INF, -INF
    ids, weights = torch.tensor([1, 0, 4, 2, 2, 0, 5, 3]), torch.randn(8)
    for mode, bags in itertools.product((0, 1, 2), ([0, 3, 3, 5], [0, 0, 8, 8])):
        for rows in (table, table.bfloat16()):
            for padding, last in itertools.product((None, 2, -1, -6), (False, True)):
                ends = torch.tensor([*bags, 8] if last else bags)
                more = weights.to(rows.dtype) if mode == 0 and padding != 2 else None
                given = (rows, ids, ends, False, mode, False, more, last)
                yield made(A.embedding_bag.padding_idx, *given, padding)
                plain = -1 if padding is None or padding < -1 else padding
                for name in ("_embedding_bag", "_embedding_bag_forward_only"):
                    yield made(getattr(A, name).default, *given, plain)
        yield made(A.embedding_bag.default, table, ids.int(), torch.tensor(bags).int(), mode=mode)
        yield made(A.embedding_bag.default, table, ids[:0], torch.tensor([0, 0]), mode=mode)


def _affine() -> Iterator[Given]:
    ao = torch.ops.torchao
    noise = torch.randn(4, 16) * 3
    spotted = noise.clone()
    spotted[0, 0], spotted[1, 3], spotted[2, 5], spotted[3] = NAN, INF, -INF, 0
    ranges: tuple[tuple[torch.dtype, Any, Any], ...] = (
        (torch.int8, None, None),
        (torch.int8, -127, 127),
        (torch.uint8, 0, 15),
        (torch.uint8, None, None),
        (torch.int32, -(2**15), 2**15),
    )
    floats = [
        x.to(dtype)
        for x in (noise, spotted, noise.abs())
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
    ]
    blocks = ([1, 16], [4, 1], [2, 4])
    for x, block, (dtype, low, high) in itertools.product(floats, blocks, ranges):
        for mapping in ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"):
            given = (x, mapping, block, dtype, low, high)
            yield made(ao.choose_qparams_affine.default, *given)
            more = {"eps": 1e-5, "scale_dtype": torch.float32, "zero_point_dtype": torch.int32}
            yield made(ao.choose_qparams_affine.default, *given, keepdim=True, **more)
            scale, zero = ao.choose_qparams_affine(*given, None, x.dtype, torch.int32)
            yield made(ao.quantize_affine.default, x, block, scale, zero, dtype, low, high)
            fine = scale.float()
            yield made(ao.quantize_affine.default, x, block, fine, zero, dtype, low, high)
            if mapping == "ASYMMETRIC":
                continue
            whole = ao.quantize_affine(x, block, scale, zero, dtype, low, high)
            for out in (torch.float32, x.dtype):
                for points in (zero, None):
                    given = (whole, block, scale, points, dtype, low, high)
                    yield made(ao.dequantize_affine.default, *given, output_dtype=out)


# Calls that are also traced, so that what they decompose into is recorded, too


def traced_calls() -> Iterator[Given]:
    """Edges that torch's samples leave out: NaN, infinities, ties, negative axes, no elements."""
    yield from _common_functions()
    yield from _ordered()
    yield from _images()
    yield from _attended_and_convolved()
    yield from _indexed()
    yield from _transforms()
    yield from _factorized()
    yield from _recurrent()


SHORT = torch.tensor([NAN, -INF, INF, -0.0, 0.0, 1.5, -2.5, 2.5, 0.5, -7.0])
INTS = torch.tensor([-7, -1, 0, 1, 3, 7])


def _common_functions() -> Iterator[Given]:
    for name in (
        *("abs", "neg", "ceil", "floor", "round", "trunc", "relu", "relu6", "sigmoid", "silu"),
        *("softplus", "hardswish", "hardsigmoid", "hardtanh", "elu", "selu", "celu", "mish"),
        *("leaky_relu", "log1p", "expm1", "sign", "isnan", "isinf", "isfinite", "nan_to_num"),
        *("frac", "reciprocal", "rsqrt", "tanh", "erf", "log_sigmoid", "softshrink", "hardshrink"),
        *("logical_not", "exp", "log", "sqrt", "sgn", "square"),
    ):
        yield made(getattr(A, name).default, SHORT)
    names = ("add", "sub", "mul", "div", "remainder", "fmod", "eq", "ne", "lt", "ge")
    for name in (*names, "floor_divide"):
        packet = getattr(A, name)
        tensor = packet.default if name == "floor_divide" else packet.Tensor
        yield made(tensor, SHORT[:, None], SHORT)
        yield made(tensor, INTS[:, None], torch.tensor([2, -3, 5]))
        yield made(tensor, INTS, torch.tensor(2.5))
        yield made(tensor, torch.tensor([True, False]), torch.tensor([1.5, 2.5]))
        yield made(tensor, INTS.to(torch.uint8), torch.full((6,), 3, dtype=torch.int8))
        if hasattr(packet, "Scalar"):
            yield made(packet.Scalar, INTS, 2.5)
            yield made(packet.Scalar, INTS, -2)
            yield made(packet.Scalar, SHORT.bfloat16(), 3)
    for mode in ("floor", "trunc"):
        yield made(A.div.Tensor_mode, SHORT[:, None], SHORT, rounding_mode=mode)
        yield made(A.div.Tensor_mode, INTS[:, None], torch.tensor([2, -3]), rounding_mode=mode)
        yield made(A.div.Scalar_mode, INTS, 2, rounding_mode=mode)
    for exponent in (2, 3, -1, 0.5, -0.5, 2.5, 0, -2, 5, 1.0):
        yield made(A.pow.Tensor_Scalar, SHORT, exponent)
    yield made(A.pow.Scalar, 2, INTS.float())
    yield made(A.pow.Tensor_Tensor, SHORT[:, None], SHORT)
    yield made(A.clamp.default, SHORT, 1.0, -1.0)
    yield made(A.clamp.default, INTS, 0.5)
    yield made(A.clamp.Tensor, SHORT, torch.tensor(-1.0), torch.tensor(NAN))
    for given in (torch.tensor([0.1, NAN, INF]), torch.tensor([1, 2, 3])):
        yield made(A.isclose.default, given, given + 0)
        yield made(A.isclose.default, given, given * 2, equal_nan=True)


def _ordered() -> Iterator[Given]:
    ties = torch.tensor([[1.0, 3.0, 3.0, NAN, 2.0], [2.0, 2.0, -1.0, 2.0, -1.0]])
    for name in ("max", "min"):
        yield made(getattr(A, name).dim, ties, -1)
        yield made(getattr(A, name).dim, ties, 0, True)
    for name in ("argmax", "argmin"):
        yield made(getattr(A, name).default, ties)
        yield made(getattr(A, name).default, ties, -2, True)
    for descending in (False, True):
        yield made(A.sort.stable, ties, stable=True, dim=-1, descending=descending)
        yield made(A.argsort.stable, ties, stable=True, dim=0, descending=descending)
        yield made(A.topk.default, torch.tensor([5.0, 1.0, NAN, 4.0, -INF]), 4, -1, descending)
        yield made(A.topk.default, torch.tensor([5, 1, -(2**31), 4]), 3, -1, descending)
    for name in ("sum", "mean", "prod"):
        yield made(getattr(A, name).default, torch.zeros(0, 3))
    yield made(A.sum.dim_IntList, torch.zeros(0, 3), [0])
    yield made(A.sum.dim_IntList, ties, [], True)
    yield made(A.var.correction, ties, [-1], correction=2)
    for name in ("softmax.int", "_safe_softmax.default"):
        packet, _, overload = name.partition(".")
        rows = torch.tensor([[-INF, -INF], [0.0, -INF]])
        yield made(getattr(getattr(A, packet), overload), rows, -1)
    numbers = torch.tensor([[5, 5, -1, 2**30, 0, 7], [1, -7, 3, 3, 2, -(2**30)]])
    for given in (numbers, torch.tensor(3.0), torch.randn(4, 7, 6)):
        for packet in (A.median, A.nanmedian):
            yield made(packet.default, given)
            yield made(packet.dim, given, -1, True)
    for how in ("linear", "nearest"):
        for packet in (A.quantile, A.nanquantile):
            yield made(packet.default, ties, torch.tensor([0.0, 0.3, 1.0]), 1, interpolation=how)


def _images() -> Iterator[Given]:
    x = torch.randn(2, 3, 7, 9)
    for ceil, pad, stride, include in itertools.product(
        (False, True), (0, 1), (1, 2, 3), (False, True)
    ):
        yield made(A.avg_pool2d.default, x, [3, 2], [stride] * 2, [pad] * 2, ceil, include)
    for ceil, pad, stride in itertools.product((False, True), (0, 1), (2, 3)):
        for packet in (A.max_pool2d, A.max_pool2d_with_indices):
            yield made(packet.default, x, [3, 2], [stride] * 2, [pad] * 2, [1, 2], ceil)
    yield made(A.adaptive_avg_pool2d.default, x, [3, 4])
    smooth = (A.upsample_bilinear2d, A.upsample_bicubic2d)
    smooth = (*smooth, A._upsample_bilinear2d_aa, A._upsample_bicubic2d_aa)
    for size in ([5, 4], [14, 18], [1, 1], [9, 20]):
        for packet, align in itertools.product(smooth, (False, True)):
            yield made(packet.vec, x, size, align, None)
        yield made(A.upsample_nearest2d.vec, x, size, None)
        yield made(A._upsample_nearest_exact2d.vec, x, size, None)
    yield made(A.upsample_bilinear2d.vec, x, None, False, [1.7, 0.6])
    yield made(A.upsample_nearest2d.vec, x, None, [1.7, 0.6])
    yield made(A.upsample_linear1d.vec, x[0], [11], False, None)
    yield made(A.upsample_trilinear3d.vec, x[None], [4, 5, 6], True, None)
    for mode in ("reflect", "replicate", "circular", "constant"):
        yield made(A.pad.default, x, [1, 2, 3, 0], mode)
    yield made(A.pad.default, x, [-1, 2, 0, -3], "constant", 1.5)
    image = torch.randn(2, 3, 7, 5)
    spotted = torch.where(torch.rand(2, 3, 7, 5) < 0.1, NAN, image.round())
    for size in ([2, 3], [7, 5], [9, 4], [3, 1]):
        for given in (image, spotted, image[0], torch.full((1, 1, 4, 4), -INF)):
            yield made(A.adaptive_max_pool2d.default, given, size)
    for size in (1, 2, 5):
        yield made(A.adaptive_max_pool1d.default, image[0], [size])
        yield made(A.adaptive_max_pool3d.default, image[None], [1, size, 3])


def _attended_and_convolved() -> Iterator[Given]:
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    mask = torch.rand(2, 1, 5, 7) > 0.5
    mask[0, 0, 2] = False
    attention = A.scaled_dot_product_attention.default
    yield made(attention, q, k, k)
    yield made(attention, q, k, k, mask)
    yield made(attention, q, k, k, torch.randn(5, 7), scale=0.3)
    yield made(attention, q, k, k, is_causal=True)
    yield made(attention, q, k[:, :2], k[:, :2], enable_gqa=True)
    for groups in (1, 2):
        w, y = torch.randn(4, 6 // groups, 3, 3), torch.randn(2, 4, 6, 5)
        x = torch.randn(2, 6, 8, 7)
        steps = [2, 3], [1, 0], [1, 2], groups, [1, 2]
        yield made(A.conv_transpose2d.input, y, torch.randn(4, 3, 3, 2), None, *steps)
        yield made(A.conv2d.default, x, w, torch.randn(4), [2, 1], [1, 2], [2, 1], groups)
        yield made(A.conv2d.padding, x, w, None, [1, 1], "same", [2, 1], groups)
    yield made(A.conv1d.default, torch.randn(4, 9), torch.randn(5, 4, 3))
    volume, kernel = torch.randn(1, 2, 5, 5, 5), torch.randn(3, 2, 2, 2, 2)
    yield made(A.conv3d.default, volume, kernel, None, [1, 2, 1])


def _indexed() -> Iterator[Given]:
    x = torch.randn(2, 3, 7, 9)
    first, other = torch.tensor([0, 1]), torch.tensor([2, -2])
    for places in ([torch.tensor([0, -1])], [None, torch.tensor([[1], [0]])], [first, None, other]):
        yield made(A.index.Tensor, x[0], places)
    yield made(A.index_put.default, x[0], [None, torch.tensor([0, 2])], torch.randn(3, 2, 9))
    yield made(A.index_put.default, x[0], [torch.tensor([0, 0])], torch.ones(()), True)
    yield made(A.index_put.default, x[0], [x[0] > 0], torch.tensor(-1.0))
    for cut in ((0, 5, 1), (-3, 2**63 - 1, 1), (1, -1, 2), (5, 2, 1), (-100, 100, 3)):
        yield made(A.slice.Tensor, x, -1, *cut)
    yield made(A.arange.start_step, 1, 9, 3)
    yield made(A.arange.start_step, 0.0, 1.0, 0.1)
    yield made(A.arange.start_step, 5, -3, -2, dtype=torch.float32)
    yield made(A.split.Tensor, x, 4, -1)
    yield made(A.chunk.default, x, 4, 3)
    yield made(A.roll.default, x, [2, -1], [-1, 1])
    yield made(A.cat.default, [torch.zeros(0), x[0], x[0].to(torch.float64)], 1)
    yield made(A.to.dtype, torch.tensor([1.9, -1.9, 300.0, -1.0]), torch.int64)
    yield made(A.to.dtype, SHORT, torch.bool)
    yield made(A.diff.default, SHORT, 2)
    yield made(A.diff.default, INTS[None], 1, 0, INTS[None], INTS[None])
    yield made(A.diff.default, torch.tensor([True, False, False, True]))
    index = torch.tensor([[0, 1, 1, 0, 1], [0, 1, 0, 0, 3], [1, 1, 0, 0, 0]])
    for reduce, include in itertools.product(("sum", "prod", "mean", "amax"), (True, False)):
        for given in (torch.randn(4, 5), torch.rand(4, 5) > 0.5):
            if given.dtype != torch.bool or reduce != "mean":
                more = given[:3].flip(1), reduce
                yield made(A.scatter_reduce.two, given, 0, index, *more, include_self=include)


def _transforms() -> Iterator[Given]:
    wave, window = torch.randn(2, 50), torch.hann_window(12)
    for options in (
        {},
        {"hop_length": 3, "window": window, "win_length": 12, "normalized": True},
        {"hop_length": 5, "center": False, "onesided": False},
        {"pad_mode": "constant", "win_length": 11},
        {"pad_mode": "replicate", "window": torch.ones(16) + 0.5j, "hop_length": 7},
    ):
        yield made(A.stft.center, wave, 16, return_complex=True, **options)
        real = {**options, "window": None, "return_complex": False}
        yield made(A.stft.center, wave[0], 15, **real)
    yield made(A.stft.default, wave, 16, 3, 12, window, return_complex=True)
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
        yield made(A.istft.default, spectra, 16, **options)
        yield made(A.istft.default, spectra[0], 16, **options)
    whole = torch.randn(2, 16, 6, dtype=torch.complex64)
    yield made(A.istft.default, whole, 16, onesided=False, return_complex=True)


def _factorized() -> Iterator[Given]:
    square, sides = torch.randn(2, 4, 4), torch.randn(2, 4, 3)
    pairs, wide = torch.linalg.lu_factor(torch.complex(square, square.mT)), sides.cfloat()
    for adjoint in (False, True):
        yield made(A.linalg_lu_solve.default, *pairs, wide, adjoint=adjoint)
        yield made(A.linalg_lu_solve.default, *pairs, wide.mT, left=False, adjoint=adjoint)


def _recurrent() -> Iterator[Given]:
    for cell, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
        size = gates * 5
        params = [torch.randn(size, each) for each in (4, 5)] + [torch.randn(size)] * 2
        h = torch.randn(2, 3, 5)
        state, op = [h, torch.randn(2, 3, 5)] if cell == "lstm" else h, getattr(A, cell).input
        both = (params * 2, True, 1, 0.0, False, True, False)
        yield made(op, torch.randn(6, 3, 4), state, *both)
        alone = (params[:2] * 2, False, 1, 0.0, False, True, True)
        yield made(op, torch.randn(3, 6, 4), state, *alone)


# Calls that take numbers out of tensors, and so cannot be traced


def quantized_calls() -> Iterator[Given]:
    """Quantization as exports of PT2E have it: ordinary numbers, ends of ranges, NaN."""
    q = torch.ops.quantized_decomposed
    x = torch.randn(3, 4, 8) * 3
    odd = torch.tensor(
        [[NAN, -INF, INF, -0.0, 0.5, 1.5, 2.5, 1e9], [-0.5, -1.5, 3, 4, 5, 6, 7, -1e9]]
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
            yield made(q.quantize_per_tensor.default, given, 0.037, 3, low, high, dtype)
            yield made(q.quantize_per_tensor.tensor, given, one, zero, low, high, dtype)
            ends = torch.tensor(low), torch.tensor(high)
            yield made(q.quantize_per_tensor.tensor2, given, one, zero, *ends, dtype)
            axis = given.ndim - 1
            yield made(q.quantize_per_channel.default, given, per, zeros, axis, low, high, dtype)
            if dtype in (torch.int8, torch.uint8):
                yield made(q.choose_qparams.tensor, given, low, high, 1e-7, dtype)
                yield made(q.choose_qparams_symmetric.tensor, given, low, high, 1e-7, dtype)
        whole = torch.randint(low, high + 1, (3, 4, 8)).to(dtype)
        for out in (None, torch.float16, torch.bfloat16):
            kind = {"out_dtype": out}
            yield made(q.dequantize_per_tensor.default, whole, 0.037, 3, low, high, dtype, **kind)
            yield made(q.dequantize_per_tensor.tensor, whole, one, zero, low, high, dtype, **kind)
            ends = torch.tensor(low), torch.tensor(high)
            yield made(q.dequantize_per_tensor.tensor2, whole, one, zero, *ends, dtype, **kind)
            for points in (zeros, zeros.int(), None):
                yield made(
                    q.dequantize_per_channel.default,
                    *(whole, per, points, 2, low, high, dtype),
                    **kind,
                )
        yield made(q.convert_element_type.no_fuse, whole, torch.float32)
        rows = x.reshape(12, 8)
        yield made(
            q.quantize_per_channel_group.default,
            *(rows, torch.rand(24) + 0.01, torch.zeros(24), low, high, dtype, 4),
        )
        yield made(
            q.dequantize_per_channel_group.default,
            *(whole.reshape(12, 8), torch.rand(24), torch.ones(24).int(), low, high, dtype, 4),
            torch.float32,
        )
    for given in (x, odd, torch.zeros(2, 8), x.half(), x.bfloat16()):
        scales, points = q.choose_qparams_per_token(given, torch.int8)
        yield made(q.choose_qparams_per_token.default, given, torch.int8)
        yield made(q.quantize_per_token.default, given, scales, points, -128, 127, torch.int8)
        if given.dtype != torch.bfloat16:
            asymmetric = q.choose_qparams_per_token_asymmetric
            yield made(asymmetric.default, given.float(), torch.int8)
            asymmetric = q._choose_qparams_per_token_asymmetric_impl
            yield made(asymmetric.default, given.float(), torch.int8)
        whole = torch.randint(-128, 128, given.shape).to(torch.int8)
        if given.dtype == torch.bfloat16:
            continue  # torch rounds between its two steps
        more = scales, points, -128, 127, torch.int8, torch.float32
        yield made(q.dequantize_per_token.default, whole, *more)
