"""Errors of calls that have to raise one."""

from collections.abc import Callable
from typing import Any

import pytest


def error_of[E: BaseException](
    kind: type[E], call: Callable[..., object], *arguments: Any, **named: Any
) -> E:
    """Return the error of this kind that a call raises."""
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    return caught.value
