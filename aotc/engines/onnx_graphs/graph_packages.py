"""The distributions that compile for an engine that takes graphs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from aotc.base.errors import refusal

FORMAT = "onnx"
"""What writes graphs."""


def versions(engine: str, extra: str, names: Sequence[str]) -> dict[str, str]:
    """The version of each distribution. extra: of aotc, that installs them.

    Raises CompileError (AOTC-E907) where one is missing.
    """
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise refusal(
                "AOTC-E907",
                f"the engine {engine}",
                f"{name} is not installed",
                expected=f"{' and '.join(names)}, which compile for it",
                hint=f"from a clone: `pip install ./runtime ./runtime/serve '.[{extra}]'`, or name "
                "another engine in `engines`",
            ) from error
    return found
