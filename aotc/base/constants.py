"""Constants that the processes of a build share."""

import errno
import os

CAPTURE_WORKER = "aotc.pipeline.children.capture_worker"
"""The module that traces the program."""

REFERENCE_WORKER = "aotc.pipeline.children.reference_worker"
"""The module that runs the program in plain JAX."""

EVALUATION_WORKER = "aotc.pipeline.children.evaluation_worker"
"""The module that runs it in plain JAX on evaluation data."""

CONSTANTS_AS_ARGUMENTS = "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS"
"""Environment variable, read when jax is imported (later, `private.take_options` does it). With
"1", jax lowers arrays that a function closed over (above 32 bytes, at any depth of nested jit, scan
or cond) as leading arguments instead of literals, and keeps their values beside the lowered module.
Seen in jax 0.11.2 to 0.12.0.1.
"""

CPU_DEVICES = "JAX_NUM_CPU_DEVICES"
"""Environment variable, read when jax is imported: the number of CPU devices."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, of an exceeded quota, and of a file over the size limit."""

NO_ROOM = os.EX_IOERR
"""The exit status of a child that met one of these and could not write that down."""

EVERYTHING = "*"
"""Stands for all variables of an environment that was read as a whole."""

SET, NOT_SET = "set", "not set"
"""Recorded in provenance instead of a variable's value, which may be a secret."""
