"""Modules of MLIR from files, parsed without jax."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.base.errors import refusal
from aotc.compile.mlir.mlir_context import operations_named
from aotc_runtime.base.errors import AotcError

BYTECODE, PORTABLE = b"ML\xefR", b"StableHLO_v"
"""How MLIR's bytecode begins, and the name of who wrote it that follows in portable artifacts
(https://openxla.org/stablehlo/compatibility).
"""


@contextmanager
def refused_as_damaged(where: str, expected: str) -> Iterator[None]:
    """Raise CaptureError (AOTC-E843) for any error of the libraries that read a file.

    For damaged files, they may raise anything, such as struct.error or KeyError.
    """
    try:
        yield
    except (AotcError, ImportError):
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        found = "; ".join([type(error).__name__, *lines[:2]])
        raise refusal("AOTC-E843", where, found, expected=expected) from error


BEYOND = ("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.recv", "stablehlo.send")
"""Operations of StableHLO that wait for others, by name."""


def require_alone(module: Any, where: str) -> None:
    """Raise CaptureError (AOTC-E844) for a module that exchanges data with others while it runs.

    Its callers would wait forever.
    """
    found = {str(each.name) for each in operations_named(module, BEYOND)}
    if found:
        cause = "operation-communicates-with-other-processes"
        raise refusal("AOTC-E844", where, min(found), cause=cause)


def parse(data: bytes, where: str, expected: str) -> Any:
    """Return the verified MLIR module in a file, in a process that may crash.

    Raises CaptureError (AOTC-E843).
    """
    is_portable = data.startswith(BYTECODE) and PORTABLE in data[:64]
    with refused_as_damaged(where, expected):
        if is_portable:
            module = stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        else:
            if not data.startswith(BYTECODE):
                data.decode("utf-8")  # MLIR ends the process where it has to quote other bytes
            module = ir.Module.parse(data, context=ir.Context.current)
        module.operation.verify()
    return module
