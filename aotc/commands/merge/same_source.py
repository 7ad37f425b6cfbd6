"""Whether targets of several bundles were made from one program: what may differ between targets of
one bundle, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotc.base.errors import finding
from aotc.bundle.read.bundle_facts import program_texts
from aotc.commands.merge.bundle_parts import TargetPart
from aotc_runtime.base.errors import Finding


def check_same_source(parts: Sequence[TargetPart]) -> Iterator[Finding]:
    """AOTC-E050 for everything in which a bundle differs from those before it.

    Fixtures are compared apart (`fixtures_match`): what plain JAX computed differs in the last bits
    between machines.
    """
    first: dict[str, tuple[str, str]] = {}
    told: set[tuple[str, str]] = set()
    for part in parts:
        for what, value in program_texts(part.manifest):
            expected, bundle = first.setdefault(what, (value, part.bundle))
            if value != expected and (part.bundle, what) not in told:
                told.add((part.bundle, what))
                yield finding(
                    "AOTC-E050",
                    f"{part.bundle} {what}",
                    value,
                    expected=f"{expected}, as in {bundle}",
                    hint="merge bundles that were built from the same manifest, sources and "
                    "weights, with the same versions of aotc and jax",
                )
