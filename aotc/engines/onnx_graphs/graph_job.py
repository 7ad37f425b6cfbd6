"""Job of a worker that compiles a program as a graph, and the threads that its calls use."""

from msgspec import Struct

CALLING, POOL, SPINNING = "calling", "pool", "spinning"
"""Who computes a call: the thread that calls; a pool whose threads sleep until there is something
to do; one whose threads spin until the call ends.
"""


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """The module to compile; `weights` are indexes of bound parameters.

    `threads` is one of the words above, "" to leave it to the worker. `vnni` is whether all
    processors of the target have these instructions. `accuracy` is ONNX Runtime's level for
    products with quantized weights: "4" if they round their other factor to 8 bits. `artifacts` has
    the module at several sizes of `dimension`, the largest first, if the graph is for all of them.
    """

    artifact: bytes
    weights: tuple[int, ...]
    threads: str = ""
    vnni: bool = False
    accuracy: str = ""
    dimension: str = ""
    artifacts: dict[int, bytes] = {}
