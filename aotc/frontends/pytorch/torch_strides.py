"""How torch says that a tensor lies in memory."""

from __future__ import annotations

from aotc.frontends.pytorch.torch_schema import TensorMeta
from aotc.frontends.pytorch.torch_symbols import evaluate, symbols_in


def _sample(meta: TensorMeta) -> list[tuple[int, int]] | None:
    """Sizes and strides where each symbol is some number: what holds for these does in general."""
    names = sorted(set().union(*map(symbols_in, (*meta.sizes, *meta.strides))))
    symbols = {name: 101 + 12 * i for i, name in enumerate(names)}
    sizes = [evaluate(size, symbols) for size in meta.sizes]
    strides = [evaluate(stride, symbols) for stride in meta.strides]
    if len(sizes) != len(strides):
        return None
    pairs = [
        (size, stride)
        for size, stride in zip(sizes, strides, strict=True)
        if size is not None and stride is not None
    ]
    return pairs if len(pairs) == len(sizes) else None


def same_strides(a: TensorMeta, b: TensorMeta) -> bool:
    one, other = _sample(a), _sample(b)
    return one is not None and one == other


def contiguous(meta: TensorMeta) -> bool:
    """Whether elements follow each other in memory, the last axis fastest."""
    pairs = _sample(meta)
    if pairs is None:
        return False
    expected = 1
    for size, stride in reversed(pairs):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
