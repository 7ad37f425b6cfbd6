"""Rows of a table of bad manifests, and the one finding of each."""

from collections.abc import Callable

from aotc_runtime.base.errors import Finding

type Bad = tuple[str, str, str, str, str, str, str]
"""Text of the good manifest, what stands there instead; code, where; words of expected, found and
hint.
"""


def check_one_finding(spoiled: Callable[[str, str], list[Finding]], bad: Bad) -> None:
    """The manifest spoiled in this way is refused with exactly this finding."""
    old, new, code, where, expected, found, hint = bad
    (finding,) = spoiled(old, new)
    assert (finding.code, finding.where) == (code, where)
    assert expected in finding.expected
    assert found in finding.found
    assert hint in finding.hint
