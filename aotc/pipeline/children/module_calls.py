"""Runs a StableHLO module that was not signed, as checks of a build do."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from aotc.bundle.write.bundle_writer import Blob
from aotc_runtime.engines.device_features import SymbolicModule
from aotc_runtime.engines.engine_arrays import Aval
from aotc_runtime.engines.xla.xla_cpu_device import Processor
from aotc_runtime.formats import oci_layout
from aotc_runtime.verification.verify_bundle import VerifiedBlob

type Array = np.ndarray[Any, Any]


def results_of(
    device: Processor,
    artifact: bytes,
    calls: Sequence[Sequence[Array]],
    outputs: Sequence[Aval],
    options: Mapping[str, str],
) -> list[list[Array]]:
    """Return the results for each call's arguments. Raises AotcError, and XLA's errors."""
    inputs = [Aval(array.shape, array.dtype) for array in calls[0]]
    # It only reads the bytes; nothing here was signed.
    blob = cast(VerifiedBlob, Blob(artifact, oci_layout.MODULE_TYPE))
    module = SymbolicModule(blob, inputs, outputs, options, "a check")
    executable = device.features.compile_symbolic(module)
    found = []
    for arguments in calls:
        put = [device.put(array, aval) for array, aval in zip(arguments, inputs, strict=True)]
        made = device.execute(executable, put)
        found.append([device.to_numpy(r, aval) for r, aval in zip(made, outputs, strict=True)])
    return found
