"""What reads a model file (entry-point group `aotc.frontends`, by the suffix of the file).

A frontend makes a `Model` of a file: a function that jax can trace, and the weights that it is
called with. From there on it is a program like any other: profiles, policies, parity, targets,
trust and reports know nothing of frontends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

GROUP = "aotc.frontends"
"""The group of entry points. Their names are suffixes without the dot, such as "onnx"."""

type Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file. text: its path as the manifest writes it, for messages.  data: its bytes.
    signature: which of the functions in it, None if the manifest does not say.  beside: reads a
    file that the model file refers to, by its path relative to the model file's folder; raises
    CaptureError for one that lies outside of that folder or is not there.  enable_x64: whether jax
    computes with 64-bit types.  scratch: where a frontend may put what it passes to a process of
    its own; None for the system's temporary folder.
    """

    text: str
    data: bytes
    signature: str | None
    beside: Callable[[str], bytes]
    enable_x64: bool
    scratch: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An array that a model takes. dtype: numpy's, as the file has it, also where jax computes with
    a narrower one.  shape: sizes; a name for an axis whose size varies, the same name for axes that
    vary together; None for one that varies and has no name.  initial: what the model itself has for
    it before its first call, as the function takes it; None for what callers choose.  changes:
    whether the model writes a new value into it, which the function returns.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...]
    initial: Array | None = None
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a JAX function.

    function: `function(weights, *inputs)`, the weights as a dict of arrays by name, the inputs in
    the order of `inputs`; it returns a pytree of arrays, a dict where the file names its results.
    Sizes of axes that vary may be symbolic (`jax.export.symbolic_shape`).
    weights: by name, as the file has them; arrays that are tied have one name.
    ranges: of axes that vary, by name, inclusive; None for an end that is open.
    producer: the framework and what else wrote the file, with their versions.
    sizes: by name of an axis that varies, those that the file has the program for; empty if any.
    narrowed: names of weights and inputs that the file has with a 64-bit type and the function
    takes with 32 bits, since their values fit.
    layers: names of the model's own for parts of it, in whose scopes (`jax.named_scope`) the
    function computes them, to the lines of the source that they were written in, where the file
    says so.
    """

    function: Callable[..., Any]
    inputs: tuple[ModelInput, ...]
    weights: Mapping[str, Array]
    ranges: Mapping[str, tuple[int | None, int | None]]
    producer: Mapping[str, str]
    narrowed: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Frontend(Protocol):
    """Reads model files of one kind."""

    @property
    def suffixes(self) -> Sequence[str]:
        """Endings of the files that this frontend reads, with the dot: (".onnx",)."""

    def read(self, file: ModelFile) -> Model:
        """Read a model; nothing in the file is executed, and nothing is computed yet.

        Raises CaptureError: AOTC-E843 for a file that is damaged, malicious, of an unknown version
        or of another kind; AOTC-E844 for operators, types, effects or states that the frontend has
        no function for, all of them at once; AOTC-E845 for a signature that the file does not have.
        """
