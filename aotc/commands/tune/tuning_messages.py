"""Messages to the measuring process, and its answer."""

from pathlib import Path

from msgspec import Struct

from aotc.base.msgpack_values import ValueFile
from aotc_runtime.schema.manifest_labels import ExecutableKey

SECONDS_PER_TURN = 0.03
CALLS_PER_TURN_MIN = 3

ROUNDS_MIN = 3


class Effort(Struct, frozen=True):
    """Amount of measuring.

    Attributes:
        variants: Whether every variant of an engine is, instead of its default alone.
        rounds: An odd number, so that a median is one that was measured.
        seconds: For all turns of one executable, or of all with their defaults alone; slow ones
            have fewer rounds.
        starts: Processes of each engine that count.
    """

    variants: bool
    rounds: int
    seconds: float
    starts: int


FULL = Effort(variants=True, rounds=9, seconds=60.0, starts=5)


class Job(Struct, frozen=True):
    """The job of the worker.

    `bundle` and `policy` are paths. `targets` names the bundle's targets, one per variant, the
    default first. `executables` are those to measure, each with its target. `engines` has the
    targets of each of several engines, its default first.
    """

    bundle: str
    policy: str
    targets: tuple[str, ...]
    executables: tuple[tuple[str, ExecutableKey], ...]
    engines: tuple[tuple[str, ...], ...] = ()
    effort: Effort = FULL


class Times(Struct, frozen=True):
    """An executable's turns: by target, median microseconds of a call in each round.

    finals: of several engines, the best target of each again, in rounds that chose none of them.
    """

    executable: ExecutableKey
    rounds: dict[str, list[float]]
    finals: dict[str, list[float]] = {}


class Unfit(Struct, frozen=True):
    """An executable that is not measured, and why."""

    target: str
    executable: ExecutableKey
    reason: str


class Answer(Struct, frozen=True):
    """unsuited: why this host cannot run the default; nothing was measured then."""

    processor: str
    threads: int
    jaxlib: str
    unsuited: str = ""
    times: list[Times] = []
    unfit: list[Unfit] = []


class Controlled(Struct, frozen=True):
    """The outcome of accuracy control for an entry point.

    Attributes:
        metric: Its name.
        keep: Names of the weights that stay as they are; None if no choice keeps to the limits.
        reference: The metric of the program as it is written.
        value: The metric with all other weights quantized; with `keep` None, with the best alone.
    """

    metric: str
    keep: tuple[str, ...] | None
    reference: float
    value: float


def outcome_file(folder: Path) -> ValueFile[dict[str, Controlled]]:
    """Return the file with the outcomes, by entry point."""
    return ValueFile(folder / "accuracy.msgpack", dict[str, Controlled])
