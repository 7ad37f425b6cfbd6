"""The numbers of quantized weights, compared with qwix's formula written once more."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotc.check.quantized_weights import is_nearest
from aotc.compile.precision.quantized_numbers import (
    NO_ERROR_DB,
    Array,
    Bits,
    QuantizedNumbers,
    Scheme,
    dequantize,
    error_of,
    from_stored,
    quantize,
    to_stored,
)

SCHEMES = [
    Scheme("int8", (0,)),
    Scheme("int8", (1,)),
    Scheme("int8", (0, 1)),
    Scheme("int8", (0,), 8),
    Scheme("int4", (0,), 8),
    Scheme("int4", (1,), 3),
    Scheme("int4", (0, 1), 3),
]


def weight(shape: tuple[int, ...] = (16, 6, 4), dtype: Any = np.float32) -> Array:
    made = np.random.default_rng(0).standard_normal(shape)
    made[:, 1] *= 100
    made[0, 0] = 0
    return made.astype(dtype)


def by_hand(array: Array, scheme: Scheme) -> tuple[dict[tuple[int, ...], float], Array]:
    """Quantize number by number: the scale of each block, and the integers.

    qwix 0.1.8: `absmax / 127.5` or `/ 7.5`, then `round(x / scale)`, half to even, clipped.
    """
    bits: dict[Bits, tuple[float, int, int]] = {"int8": (127.5, -128, 127), "int4": (7.5, -8, 7)}
    bound, least, most = bits[scheme.dtype]

    def block(place: tuple[int, ...]) -> tuple[int, ...]:
        last = scheme.contracted[-1]
        if scheme.group:
            return tuple(i // scheme.group if axis == last else i for axis, i in enumerate(place))
        return tuple(i for axis, i in enumerate(place) if axis not in scheme.contracted)

    places = [*product(*map(range, array.shape))]
    largest: dict[tuple[int, ...], float] = {}
    for place in places:
        largest[block(place)] = max(largest.get(block(place), 0.0), abs(float(array[place])))
    scales = {
        at: float(np.float32(most_) / np.float32(bound)) or 1.0 for at, most_ in largest.items()
    }
    integers = np.zeros(array.shape, int)
    for place in places:
        ratio = float(np.float32(array[place]) / np.float32(scales[block(place)]))
        integers[place] = min(max(round(ratio), least), most)
    return scales, integers


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.label)
def test_quantize_gives_the_numbers_of_qwix(scheme: Scheme, dtype: Any) -> None:
    array = weight(dtype=dtype)
    scales, integers = by_hand(array, scheme)
    made = quantize(array, scheme)
    assert made.values.dtype.name == scheme.dtype
    assert made.scale.dtype == np.float32
    assert np.array_equal(made.values.astype(int), integers)
    assert {at: float(made.scale[at]) for at in np.ndindex(made.scale.shape)} == scales
    assert accepts(array, made, scheme)
    assert dequantize(made, scheme, array.dtype).dtype == array.dtype
    numbers = dequantize(made, scheme, np.dtype(np.float32))
    assert np.abs(numbers - array.astype(float)).max() <= 0.5001 * max(scales.values())


def accepts(array: Array, made: QuantizedNumbers, scheme: Scheme) -> bool:
    return is_nearest(array, to_stored(made, scheme), made.scale, scheme.contracted, scheme.group)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.label)
def test_restored_reverses_stored(scheme: Scheme) -> None:
    made = quantize(weight(), scheme)
    kept = to_stored(made, scheme)
    found = from_stored(kept, made.scale, scheme).values
    assert np.array_equal(found.astype(int), made.values.astype(int))
    if scheme.dtype == "int4":
        size = made.values.shape[scheme.contracted[-1]]
        assert kept.dtype == np.uint8 and kept.size == made.values.size * -(-size // 2) // size
        assert int(kept.flat[0] % 16) - 8 == int(made.values.flat[0])


def test_quantize_rounds_half_to_even_and_uses_the_outermost_steps() -> None:
    halves = np.array([[-127.5, 127.5, 0.5, 1.5, -0.5, -1.5, 2.5]], np.float32).T
    assert quantize(halves, Scheme("int8", (0,))).values.ravel().tolist() == [
        *(-128, 127, 0, 2, 0, -2, 2)
    ]


def test_quantize_leaves_blocks_of_zeros_and_of_tiny_numbers_at_zero() -> None:
    array = np.array([[0, 1e-30, 1], [0, -1e-30, 2]], np.float32)
    made = quantize(array, Scheme("int8", (0,)))
    assert made.scale.tolist()[:2] == [1, 1]
    assert made.values[:, :2].tolist() == [[0, 0], [0, 0]]
    assert accepts(array, made, Scheme("int8", (0,)))


def test_error_of_states_the_largest_error_and_the_ratio_of_powers() -> None:
    exact = np.array([1.0, -1.0, 2.0, 0.0], np.float32)
    largest, snr_db = error_of(exact, exact + np.array([0.1, 0, 0, 0], np.float32))
    assert largest == pytest.approx(0.1)
    assert snr_db == pytest.approx(10 * np.log10(6 / 0.01), rel=1e-5)
    assert error_of(exact, exact)[1] == NO_ERROR_DB


def changed(made: QuantizedNumbers, **parts: Array) -> QuantizedNumbers:
    return QuantizedNumbers(**({"values": made.values, "scale": made.scale} | parts))


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.label)
def test_is_nearest_rejects_wrong_scales_axes_signs_and_integers(scheme: Scheme) -> None:
    array = weight()
    made = quantize(array, scheme)
    integers = made.values.astype(np.int64)
    other = np.where(integers > 0, integers - 1, integers + 1).astype(made.values.dtype)
    first = np.arange(integers.size).reshape(integers.shape) == integers.argmax()
    wrong = [
        changed(made, scale=np.nextafter(made.scale, np.float32(np.inf))),
        changed(made, scale=np.nextafter(made.scale, np.float32(0))),
        changed(made, scale=np.roll(made.scale, 1, axis=-1)),
        changed(made, values=(-integers.clip(-7, 7)).astype(made.values.dtype)),
        changed(made, values=np.roll(made.values, 1, axis=0)),
        changed(made, values=np.where(first, other, made.values)),
        # The two halves of each byte of 4-bit numbers, exchanged.
        changed(made, values=made.values.reshape(-1, 2)[:, ::-1].reshape(array.shape)),
    ]
    coarse = quantize(array, Scheme(scheme.dtype, (0, 1, 2)))
    wrong.append(changed(made, values=coarse.values, scale=np.full_like(made.scale, coarse.scale)))
    assert [accepts(array, each, scheme) for each in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("change", [lambda b: b >> 4 | b << 4, lambda b: b ^ 136, lambda b: b.T])
def test_is_nearest_rejects_bytes_with_other_halves(change: Any) -> None:
    array, scheme = weight((16, 8)), Scheme("int4", (0,), 8)
    made = quantize(array, scheme)
    kept = to_stored(made, scheme)
    assert is_nearest(array, kept, made.scale, (0,), 8)
    assert not is_nearest(array, kept[:4], made.scale, (0,), 8)
    assert not is_nearest(array, change(kept), made.scale, (0,), 8)


def test_is_nearest_accepts_the_nearest_numbers_of_bfloat16_alone() -> None:
    array = weight()
    array[0, 0] = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 3e38]
    made = quantize(array, Scheme("bfloat16", ())).values
    assert made[0, 0, :3].tolist() == [1, 1 + 2**-6, -1]
    assert is_nearest(array, made, array, ())
    bits = made.view(np.uint16)
    wrong = [np.roll(bits, 1), bits ^ 0x8000, bits + 1, bits[:8]]
    wrong.append((array.view(np.uint32) >> 16).astype(np.uint16))
    assert not any(is_nearest(array, each.view(made.dtype), array, ()) for each in wrong)


def test_is_nearest_rejects_other_shapes() -> None:
    array, scheme = weight((16, 16)), Scheme("int8", (0,))
    made = quantize(array, scheme)
    assert accepts(array, made, scheme)
    assert not accepts(array, changed(made, values=made.values[:8]), scheme)
    assert not accepts(array, changed(made, scale=made.scale[:8]), scheme)
    assert not accepts(array, changed(made, scale=made.scale[:1]), scheme)
    grouped = Scheme("int8", (0,), 4)
    made = quantize(array, grouped)
    assert not accepts(array, changed(made, values=made.values[:8]), grouped)
    assert not is_nearest(array, made.values, made.scale, (0,), 5)
