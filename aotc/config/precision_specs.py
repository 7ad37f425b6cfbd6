"""`[precision.NAME]`: the element types in which weights are stored, and their quantization."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Struct
from pydantic import BeforeValidator

from aotc.config import field_types
from aotc.config.evaluation_specs import EvaluationSpec
from aotc.config.manifest_problem import Problem, spell, unknown_reference
from aotc.config.toml_validation import Section
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import TuningCandidate

FLOAT32: Final = "float32"
"""The precision of a program as it is written. It needs no declaration."""

INT4_GROUP = 64
"""The default of `group` for weights of 4 bits."""

PrecisionName = Annotated[
    field_types.Name,
    field_types.accepting(
        lambda v: v != FLOAT32, f"a name other than {FLOAT32}", f"{FLOAT32} needs no declaration"
    ),
]

KeepPattern = Annotated[str, field_types.accepting(bool, "a pattern of weight names", "remove it")]


@dataclass(frozen=True, slots=True)
class PrecisionSpec(Section):
    """A precision, in which the weights of products are stored.

    Attributes:
        weights: Their element type.
        compute: The element type of both factors of float32 products; sums are of float32.
        group: How many numbers along the contracted axis share a scale; None for the default.
        keep: Patterns of names of weights that stay as they are.
        activations: Whether a call rounds the other factors of matrix products to 8 bits too:
            "dynamic" with scales of each row, "static" with scales by calibration.
    """

    weights: Literal["float32", "int8", "int4"] = "float32"
    compute: Literal["float32", "bfloat16"] = "float32"
    group: field_types.Size | None = None
    keep: Annotated[tuple[KeepPattern, ...], field_types.Arrayed, field_types.Distinct] = ()
    activations: Literal["none", "dynamic", "static"] = "none"

    @property
    def kernels(self) -> str:
        """Return what an engine needs kernels for."""
        if self.compute != FLOAT32:
            return f"{self.compute} products"
        return "8-bit activations" if self.activations != "none" else f"{self.weights} weights"

    @property
    def rounds(self) -> bool:
        """Return whether calls round factors of products."""
        return self.activations != "none" or self.compute != FLOAT32

    @property
    def block(self) -> int:
        """Return how many numbers share a scale along the contracted axis; 0 for all of them."""
        default = INT4_GROUP if self.weights == "int4" else 0
        return default if self.group is None else self.group

    def problems(self, path: KeyPath) -> Iterator[Problem]:
        """Yield what rounded factors do not go with; `path` is that of the precision."""
        key, weights, hint = "activations", "int8", 'rounded activations take weights = "int8"'
        others = [] if self.group is None else ["group"]
        if self.compute != FLOAT32:
            key, weights, hint = "compute", FLOAT32, "bfloat16 products take float32 weights"
            others += [] if self.activations == "none" else ["activations"]
        elif self.weights == FLOAT32:
            hint, expected = 'state weights = "int8", or compute = "bfloat16"', "fewer bits"
            yield Problem("AOTC-E804", (*path, "weights"), hint, expected=expected)
            return
        others += [] if self.weights == weights else [f'weights = "{self.weights}"']
        for other in others if self.rounds else ():
            hint = f"{hint} without group"
            yield Problem("AOTC-E807", (*path, key), hint, found=f"{key} and {other}")


class ChosenPrecision(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The precision that tuning chose for an entry point.

    Attributes:
        precision: Its name.
        keep: Names of weights that stay as they are, so that the metric keeps to its limits.
        candidates: All precisions of the list; none if there was one.
    """

    precision: str
    keep: tuple[str, ...] = ()
    candidates: tuple[TuningCandidate, ...] = ()


PrecisionNames = Annotated[
    tuple[field_types.Name, ...],
    field_types.Arrayed,
    field_types.Distinct,
    BeforeValidator(lambda raw: [raw] if isinstance(raw, str) else raw),
    field_types.accepting(bool, "at least one precision", f'leave the key out for "{FLOAT32}"'),
]
"""The precisions of an entry point, as one name or a list."""


def check_precision(
    names: Collection[str],
    declared: Mapping[str, PrecisionSpec],
    path: KeyPath,
    others: Collection[str],
    evaluation: EvaluationSpec | None,
) -> Iterator[Problem]:
    """Yield what is wrong with the precisions of an entry point.

    `path` is that of `precision`; `others` names what the entry point or the manifest has that no
    quantized program can have.
    """
    for name in names:
        if name != FLOAT32 and name not in declared:
            hint = f"declare [precision.{name}]"
            yield unknown_reference(path, "precision", name, [*declared, FLOAT32], hint)
    static = (n for n in names if n in declared and declared[n].activations == "static")
    for name in static if evaluation is None else ():
        hint = f"add [{'.'.join(map(str, path[:2]))}.evaluation]"
        expected, found = "an evaluation, whose data calibrate", f'{name}, activations = "static"'
        cause = "key-requires-another-key"
        yield Problem("AOTC-E804", path, hint, expected=expected, found=found, cause=cause)
    if len(names) > 1 and not (evaluation and evaluation.has_limits):
        yield Problem(
            "AOTC-E805",
            path,
            "name one, or state limits in its evaluation, by which `aotc build --tune` chooses",
            expected="one precision, or an evaluation with limits",
            found=spell([*names]),
        )
    for other in others if any(name != FLOAT32 for name in names) else ():
        yield Problem("AOTC-E807", path, "remove one of the two", found=f"precision and {other}")
