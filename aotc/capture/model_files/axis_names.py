"""Names of a model file's axes for people, who write a manifest."""

import re
from collections.abc import Sequence

from aotc.capture.model_files.frontend_protocol import Model

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

    def of(self, name: str, shape: Sequence[int | str | None]) -> list[int | str]:
        """Return the axes of the input `name`."""
        return [self._axis(name, number, axis) for number, axis in enumerate(shape)]

    def text(self, expression: str) -> str:
        """Return an expression of the file's names with those of the manifest."""

        def named(found: re.Match[str]) -> str:
            other = "n" if _NUMBERED.fullmatch(found[0]) else found[0]
            return str(self.renamed.get(found[0], other))

        return _NAME.sub(named, expression)

    def _axis(self, name: str, number: int, axis: int | str | None) -> int | str:
        if isinstance(axis, int):
            return axis
        if axis in self.renamed:
            return self.renamed[axis]
        if axis is not None and not _NUMBERED.fullmatch(axis):
            return axis
        own = f"{name}_{number}"
        if axis == self._first and self._batch and (axis is not None or number == 0):
            own = "batch"
        return own if axis is None else self.renamed.setdefault(axis, own)
