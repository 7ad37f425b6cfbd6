"""The inputs that the loader passes: which they are, and what is in them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from aotc_runtime.schema.bundle_manifest import EntryPoint
from aotc_runtime.serving.routing.padding_masks import Length, Mask, masks_of

from ...samples import DOCUMENT


def test_masks_and_lengths_are_found_among_parameters_with_arrays_and_without() -> None:
    parameters = [
        {"name": name, "kind": "positional_or_keyword", "tree": tree, "donated": False}
        for name, tree in (
            ("nothing", {"node": "none"}),
            ("x", {"node": "leaf", "index": 0}),
            ("real", {"node": "leaf", "index": 1}),
            ("rows", {"node": "leaf", "index": 2}),
        )
    ]
    inputs: list[dict[str, Any]] = [
        {"path": path, "dtype": dtype, "shape": shape, "weak_type": False}
        for path, dtype, shape in (
            ("x", "float32", ["batch", 3]),
            ("real", "bool", ["batch"]),
            ("rows", "int32", []),
        )
    ]
    pad = {"policy": "pad", "fill": {}, "mask": "real", "length": "rows", "proof": []}
    document = {
        **DOCUMENT["entry_points"]["predict"],
        "parameters": parameters,
        "inputs": inputs,
        "out_of_profile": {"batch": pad},
    }
    mask, length = masks_of(msgspec.convert(document, EntryPoint))
    assert isinstance(mask, Mask) and (mask.leaf, mask.dimensions) == (1, {"batch"})
    assert isinstance(length, Length) and (length.leaf, length.dimension) == (2, "batch")
    np.testing.assert_array_equal(mask.array((3,), {"batch": 2}), [True, True, False])
    assert length.array((), {"batch": 2}) == 2 and length.dtype == np.int32
