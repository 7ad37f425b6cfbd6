"""What the build's processes agree on."""

import errno
import os

CAPTURE_WORKER = "aotc.pipeline.children.capture_worker"
"""The module that traces the program."""

REFERENCE_WORKER = "aotc.pipeline.children.reference_worker"
"""The module that runs it in plain JAX."""

EVALUATION_WORKER = "aotc.pipeline.children.evaluation_worker"
"""The module that runs it in plain JAX on evaluation data."""

CONSTANTS_AS_ARGUMENTS = "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS"
"""Environment variable, read when jax is imported (`private.take_options` does it later): with "1",
jax lowers arrays a function closed over (above 32 bytes, at any depth of nested jit, scan or cond)
as leading arguments instead of literals, and keeps their values beside the lowered module. Seen in
jax 0.11.2 to 0.12.0.1."""

CPU_DEVICES = "JAX_NUM_CPU_DEVICES"
"""Environment variable, read when jax is imported: over how many devices it spreads this host."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full, of a used-up quota, or of a file that may not be so large."""

NO_ROOM = os.EX_IOERR
"""The status of a child that met one of these, and had no room to leave word of it either."""

EVERYTHING = "*"
"""Stands for all variables of an environment that was read as a whole."""

SET, NOT_SET = "set", "not set"
"""What provenance says of a variable beside its name: never its value, which may be a secret."""
