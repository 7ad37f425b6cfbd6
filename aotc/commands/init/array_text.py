"""Arrays as people type them on a command line: `float32[batch,64]`, `f32[8,64]`, `[batch,64]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aotc.config.dtype_names import SHORT_DTYPES
from aotc.config.field_types import is_identifier
from aotc.config.input_specs import KEY_DTYPES
from aotc_runtime.schema.bundle_manifest import DType

DTYPES = tuple(sorted([*(dtype.value for dtype in DType), *KEY_DTYPES]))

FORM = "DTYPE[AXES], such as float32[batch,64], int32[] or key<fry>[4]"

_TEXT = re.compile(r"\A([A-Za-z0-9_]*(?:<[a-z]+>)?) ?\[([^\[\]]*)\]\Z")


@dataclass(frozen=True, slots=True)
class ArrayText:
    """dtype: as a build manifest writes it; None where only the axes were given.  shape: sizes and
    names of dimensions.
    """

    dtype: str | None
    shape: tuple[int | str, ...]


def parse(text: str) -> ArrayText | None:
    """None for what is not of the form, or has an unknown dtype or axis."""
    found = _TEXT.match(text.strip())
    if found is None:
        return None
    dtype = SHORT_DTYPES.get(found[1], found[1]) or None
    if dtype is not None and dtype not in DTYPES:
        return None
    inside = found[2].strip().removesuffix(",")
    axes = [axis.strip() for axis in inside.split(",")] if inside else []
    shape: list[int | str] = []
    for axis in axes:
        if axis.isascii() and axis.isdigit() and len(axis) < 19:
            shape.append(int(axis))
        elif is_identifier(axis):
            shape.append(axis)
        else:
            return None
    return ArrayText(dtype, tuple(shape))
