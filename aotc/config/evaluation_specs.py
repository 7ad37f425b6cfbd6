"""`[entry_points.NAME.evaluation]`: a task metric of an entry point, and its limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from aotc.config.field_types import (
    Error,
    FileText,
    Number,
    Size,
    accepting,
    is_function_reference,
    refusal,
)
from aotc.config.manifest_problem import Problem, unknown_reference
from aotc.config.toml_validation import Section

LOWER_IS_BETTER = ("rmse", "mae", "perplexity")
BOUNDS = {"top1": (0, 1), "topk": (0, 1), "auc": (0, 1), "cosine": (-1, 1)}
BUILT_IN = (*BOUNDS, *LOWER_IS_BETTER)
"""Metrics, and the least and largest value of those that have both."""


def _metric(text: str) -> str:
    if text in BUILT_IN or is_function_reference(text):
        return text
    problem = unknown_reference((), "metric", text, BUILT_IN, 'or name a "package.module:function"')
    raise refusal(problem.expected, problem.hint, found=problem.found, code=problem.code)


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

    data: FileText
    metric: Annotated[str, AfterValidator(_metric)]
    k: Size | None = None
    minimum: Number | None = None
    maximum: Number | None = None
    max_drop: Error | None = None
    target: Annotated[str, accepting(bool, "a name", "leave the key out")] = "target"
    output: str | None = None

    @property
    def name(self) -> str:
        """The metric as bundles and trust policies name it: "top5" for `topk` with `k = 5`."""
        return f"top{self.k}" if self.metric == "topk" else self.metric

    @property
    def better(self) -> str:
        """Return "lower" for errors and for functions with a `maximum`; else "higher"."""
        is_lower = self.metric in LOWER_IS_BETTER
        is_lower |= ":" in self.metric and self.maximum is not None
        return "lower" if is_lower else "higher"

    @property
    def reads_function(self) -> bool:
        """Return whether a function yields the data."""
        return is_function_reference(self.data)

    @property
    def functions(self) -> dict[str, str]:
        """The functions of the user, by the key that names them."""
        named = {"data": self.data, "metric": self.metric}
        return {key: text for key, text in named.items() if is_function_reference(text)}

    def problems(self) -> Iterator[Problem]:
        """Yield each limit that contradicts the metric. Paths begin below the table."""
        if (self.metric == "topk") != (self.k is not None):
            code, hint = ("AOTC-E804", "add k = 5") if self.k is None else ("AOTC-E807", "remove k")
            found = "" if self.k is None else f"k and {self.metric}"
            cause = "key-requires-another-key" if self.k is None else ""
            yield Problem(code, ("k",), "k" if self.k is None else "", found, hint, cause=cause)
        if self.minimum is not None and self.maximum is not None:
            yield Problem(
                "AOTC-E807", ("maximum",), "", "minimum and maximum", "remove one of them"
            )
        elif self.minimum is not None and self.metric in LOWER_IS_BETTER:
            hint = f"write `maximum`: less {self.metric} is better"
            yield Problem("AOTC-E805", ("minimum",), "no minimum", str(self.minimum), hint)
        elif self.maximum is not None and self.metric in BOUNDS:
            hint = f"write `minimum`: more {self.metric} is better"
            yield Problem("AOTC-E805", ("maximum",), "no maximum", str(self.maximum), hint)
        elif self.minimum is not None and (bounds := BOUNDS.get(self.metric)):
            if self.minimum > bounds[1]:
                expected = f"at most {bounds[1]}, the best {self.metric}"
                yield Problem("AOTC-E805", ("minimum",), expected, str(self.minimum), "lower it")
        elif self.maximum is not None and self.metric in LOWER_IS_BETTER:
            least = 1 if self.metric == "perplexity" else 0
            if self.maximum < least:
                expected = f"at least {least}, the best {self.metric}"
                yield Problem("AOTC-E805", ("maximum",), expected, str(self.maximum), "raise it")


def check_evaluation(
    spec: EvaluationSpec, inputs: Collection[str], *, is_recorded: bool
) -> Iterator[Problem]:
    """Yield problems of an evaluation, with paths below its table.

    `inputs` are leaf paths of the entry point's inputs; with `is_recorded`, plain JAX does not run
    the entry point here.
    """
    yield from spec.problems()
    if any(each.partition("/")[0] == spec.target for each in inputs):
        hint = 'name the array of labels otherwise: target = "label"'
        yield Problem("AOTC-E807", ("target",), "", f"input and target {spec.target}", hint)
    if is_recorded:
        hint = "remove one of the two: plain JAX computes the reference of a metric"
        yield Problem("AOTC-E807", (), "", "evaluation and fixtures.results", hint)
