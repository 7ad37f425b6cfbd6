"""`[entry_points.NAME.evaluation]`: a task metric of an entry point, and its limits."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator

from aotc.config import field_types
from aotc.config.manifest_problem import Problem, unknown_reference
from aotc.config.toml_validation import Section

LOWER_IS_BETTER = ("rmse", "mae", "perplexity")
BEST = {"top1": 1, "topk": 1, "auc": 1, "cosine": 1, "rmse": 0, "mae": 0, "perplexity": 1}
"""The built-in metrics, and their best values."""


def _metric(text: str) -> str:
    if text in BEST or field_types.is_function_reference(text):
        return text
    found = unknown_reference((), "metric", text, BEST, 'or name a "package.module:function"')
    raise field_types.refusal(found.expected, found.hint, found=found.found, code=found.code)


@dataclass(frozen=True, slots=True)
class EvaluationSpec(Section):
    """The evaluation of an entry point.

    Attributes:
        data: An `.npz` file, a folder of them, or a function that yields batches; as written.
        metric: A built-in metric, or a function.
        k: Of `topk`: the number of classes among which the label must be.
        minimum: The least accepted value.
        maximum: The largest accepted value of a metric of which less is better.
        max_drop: By how much the value may be worse than that of plain JAX.
        target: Name of the array with labels in the data.
        output: Path of the result that is scored; None for the only one.
    """

    data: field_types.FileText
    metric: Annotated[str, AfterValidator(_metric)]
    k: field_types.Size | None = None
    minimum: field_types.Number | None = None
    maximum: field_types.Number | None = None
    max_drop: field_types.Error | None = None
    target: Annotated[str, field_types.accepting(bool, "a name", "leave the key out")] = "target"
    output: str | None = None

    @property
    def name(self) -> str:
        """The metric as bundles and trust policies name it: "top5" for `topk` with `k = 5`."""
        return f"top{self.k}" if self.metric == "topk" else self.metric

    @property
    def better(self) -> Literal["higher", "lower"]:
        """Return "lower" for errors and for functions with a `maximum`; else "higher"."""
        is_lower = self.metric in LOWER_IS_BETTER
        is_lower |= ":" in self.metric and self.maximum is not None
        return "lower" if is_lower else "higher"

    @property
    def has_limits(self) -> bool:
        """Return whether a value can miss a limit."""
        return any(each is not None for each in (self.minimum, self.maximum, self.max_drop))

    def drop(self, value: float, reference: float) -> float:
        """Return by how much a value is worse than the reference."""
        return value - reference if self.better == "lower" else reference - value

    def missed_limits(self, value: float, reference: float) -> Iterator[str]:
        """Yield the keys of the limits that a value misses; `reference` is plain JAX's."""
        if self.minimum is not None and value < self.minimum:
            yield "minimum"
        if self.maximum is not None and value > self.maximum:
            yield "maximum"
        if self.max_drop is not None and self.drop(value, reference) > self.max_drop:
            yield "max_drop"

    @property
    def reads_function(self) -> bool:
        """Return whether a function yields the data."""
        return field_types.is_function_reference(self.data)

    @property
    def functions(self) -> dict[str, str]:
        """The functions of the user, by the key that names them."""
        named = {"data": self.data, "metric": self.metric}
        return {key: text for key, text in named.items() if field_types.is_function_reference(text)}

    def problems(self, inputs: Collection[str], *, is_recorded: bool) -> Iterator[Problem]:
        """Yield each contradiction, with paths below the table.

        `inputs` are leaf paths of the entry point's inputs; with `is_recorded`, plain JAX does not
        run the entry point here.
        """
        if self.metric == "topk" and self.k is None:
            cause = "key-requires-another-key"
            yield Problem("AOTC-E804", ("k",), "add k = 5", expected="k", cause=cause)
        if self.metric != "topk" and self.k is not None:
            yield Problem("AOTC-E807", ("k",), "remove k", found=f"k and {self.metric}")
        if self.minimum is not None and self.maximum is not None:
            found, hint = "minimum and maximum", "remove one of them"
            yield Problem("AOTC-E807", ("maximum",), hint, found=found)
        elif self.metric in BEST:
            yield from self._limit_problems(BEST[self.metric])
        if any(each.partition("/")[0] == self.target for each in inputs):
            hint = 'name the array of labels otherwise: target = "label"'
            yield Problem("AOTC-E807", ("target",), hint, found=f"input and target {self.target}")
        if is_recorded:
            hint = "remove one of the two: plain JAX computes the reference of a metric"
            yield Problem("AOTC-E807", (), hint, found="evaluation and fixtures.results")

    def _limit_problems(self, best: int) -> Iterator[Problem]:
        """Yield the limit of a built-in metric that cannot be met, or is on the wrong side."""
        right, wrong, more = ("minimum", self.minimum), ("maximum", self.maximum), "more"
        if self.better == "lower":
            right, wrong, more = wrong, right, "less"
        (key, limit), (other, excess) = right, wrong
        if excess is not None:
            hint = f"write `{key}`: {more} {self.metric} is better"
            yield Problem("AOTC-E805", (other,), hint, expected=f"no {other}", found=str(excess))
        elif limit is not None and (limit < best if key == "maximum" else limit > best):
            words, hint = ("at least", "raise it") if key == "maximum" else ("at most", "lower it")
            expected = f"{words} {best}, the best {self.metric}"
            yield Problem("AOTC-E805", (key,), hint, expected=expected, found=str(limit))
