"""Interface of frontends, which read model files (entry points `aotc.frontends`, by file suffix).

A frontend returns a `Model`: a function that jax can trace, and its weights. From there on it is
like any program: profiles, policies, parity, targets, trust and reports know no frontends.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

GROUP = "aotc.frontends"
"""The group of entry points. Their names are suffixes without the dot, such as "onnx"."""

type Array = np.ndarray[Any, np.dtype[Any]]

NARROWER = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.uint64): np.dtype(np.uint32)}
"""Dtypes that jax computes with, and a manifest may state, for wider ones of a file."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file.

    Attributes:
        text: Its path as the manifest writes it, for messages.
        data: Its bytes.
        signature: Which of its functions to use; None if the manifest has none.
        beside: Reads a file that the model file refers to, by its path relative to the model file's
            folder; raises CaptureError for one that is missing or outside of that folder.
        enable_x64: Whether jax computes with 64-bit types.
        scratch: Folder for files of a frontend's own process; None for the system's temporary
            folder.
    """

    text: str
    data: bytes
    signature: str | None
    beside: Callable[[str], bytes]
    enable_x64: bool
    scratch: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An array that a model takes.

    Attributes:
        dtype: numpy's, as in the file, even where jax computes with a narrower one.
        shape: Sizes; a name for an axis whose size varies, shared by axes that vary together; None
            for one that varies and has no name.
        initial: The model's own value before its first call, as the function takes it; None for
            inputs that callers choose.
        changes: Whether the model writes a new value into it, which the function returns.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...]
    initial: Array | None = None
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a JAX function.

    Attributes:
        function: `function(weights, *inputs)`, with the weights as a dict of arrays by name and the
            inputs in the order of `inputs`. It returns a pytree of arrays, a dict where the file
            names its results. Sizes of axes that vary may be symbolic
            (`jax.export.symbolic_shape`).
        weights: By name, as the file has them; arrays that are tied have one name.
        ranges: Of axes that vary, by name, inclusive; None for an end that is open.
        producer: The framework and other writers of the file, with their versions.
        sizes: By name of an axis that varies, those that the file's program supports; empty if any.
        narrowed: Names of weights and inputs that are 64-bit in the file and 32-bit in the
            function, since their values fit.
        layers: The model's own names of its parts, whose scopes (`jax.named_scope`) the function
            uses, to the lines of their source, where the file has them.
        exceeding: Returns the equations of a jaxpr of the function, traced with 64-bit types, whose
            integers may need more than 32 bits, each with those around it, and their bounds. Takes
            arrays of weights, and bounds of inputs or None. None if nothing is narrowed.
    """

    function: Callable[..., Any]
    inputs: tuple[ModelInput, ...]
    weights: Mapping[str, Array]
    ranges: Mapping[str, tuple[int | None, int | None]]
    producer: Mapping[str, str]
    narrowed: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exceeding: Callable[[Any, Sequence[Any]], list[tuple[Any, float, float]]] | None = None


_NUMBERED = re.compile(r"[su]\d+")
"""Names that PyTorch numbers, since a file has lost those of its `Dim`s."""
_NAME = re.compile(r"\b[A-Za-z_]\w*")


class AxisNames:
    """Names of a model file's axes for a manifest: those of the file, unless they are numbers.

    The first axis of all inputs is called `batch`, others by an input that has them. `renamed` maps
    names of the file to those given so far, and may be filled before.
    """

    def __init__(self, model: Model) -> None:
        self.renamed: dict[str, int | str] = {}
        given = [each for each in model.inputs if each.initial is None]
        stated = {axis for each in given for axis in each.shape}
        firsts = {each.shape[0] if each.shape else 1 for each in given}
        self._first = firsts.pop() if len(firsts) == 1 else 1
        self._batch = "batch" not in stated and (self._first is not None or len(given) == 1)

    def text(self, expression: str) -> str:
        """Return an expression of the file's names with those of the manifest."""
        return _NAME.sub(lambda found: str(self.axis("size", 0, found[0])), expression)

    def axis(self, name: str, number: int, axis: int | str | None) -> int | str:
        """Return the name, or size, of an axis of the input `name`."""
        if isinstance(axis, int) or axis in self.renamed:
            return self.renamed.get(str(axis), axis)
        if axis is not None and not _NUMBERED.fullmatch(axis):
            return axis
        own = f"{name}_{number}"
        if axis == self._first and self._batch and (axis is not None or number == 0):
            own = "batch"
        return own if axis is None else self.renamed.setdefault(axis, own)


class Frontend(Protocol):
    """Reads model files of one kind."""

    def read(self, file: ModelFile) -> Model:
        """Read a model; nothing in the file is executed, and nothing is computed yet.

        Raises CaptureError: AOTC-E843 for a file that is damaged, malicious, of an unknown version
        or of another kind; AOTC-E844 for operators, types, effects or states that the frontend has
        no function for, all of them at once; AOTC-E845 for a signature that the file does not have.
        """
