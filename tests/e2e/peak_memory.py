"""`python peak_memory.py BUNDLE POLICY`: what calls take, beside what XLA says of it, as JSON.

Calls of a server with other numbers than the fixtures', observed as `aotc.check.peak_memory` says,
which needs its environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import aotc_runtime
from aotc.check.peak_memory import peak
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import InputArgument
from aotc_runtime.schema.manifest_labels import arguments_of, label


def main() -> None:
    path, policy = Path(sys.argv[1]), Path(sys.argv[2])
    bundle = aotc_runtime.load(path, trust=policy, threads=1)
    found = {}
    for name, spec in bundle.manifest.entry_points.items():
        for profile in spec.profiles:
            leaves = [
                np.ones(shape, numpy_dtype(tensor.dtype))
                for tensor, shape in zip(spec.inputs, profile.input_shapes, strict=True)
            ]
            positional, named = arguments_of(bundle[name].parameters, leaves)
            memory = profile.memory
            taken = [
                a.leaf for a in profile.arguments if isinstance(a, InputArgument) and a.aliased
            ]
            found[label(name, profile.sizes)] = {
                "analysis": memory.temp_bytes + memory.output_bytes - memory.alias_bytes,
                "donated": sum(leaves[index].nbytes for index in taken),
                "inputs": sum(leaf.nbytes for i, leaf in enumerate(leaves) if i not in taken),
                "observed": peak(lambda f=bundle[name], p=positional, n=named: f(*p, **n)),
                "libraries": sorted(profile.thunks.keys() - {"kernel"}),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
