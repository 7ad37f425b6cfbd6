"""Keeps reductions apart from products where YNNPACK computes both together, and wrong.

Seen with jaxlib 0.12.0.1, in plain JAX too (docs/contributing/toolchain-notes.md).
"""

import re

_CALLED = re.compile(r" calls=%([^\s,]+),.*__ynn_fusion")
_NAME = re.compile(r"^%(\S+) \(", re.MULTILINE)
_WRONG = re.compile(r" (?:bitcast|reshape|transpose)\(| (?:dot|convolution)\(%\S+, %(?!param_)")


def has_wrong_fusion(hlo_text: str) -> bool:
    """Return whether optimized HLO has a fusion that YNNPACK may compute wrong.

    That is one that reduces what it reshapes, or a product whose second factor it makes: 0.1 is
    left out in `silu((0.1 * x).reshape(m, -1, 8)).sum(0)`, and `(x @ jnp.full((n, n), 0.1)).sum(0)`
    gives memory that nobody has written.
    """
    called = {*_CALLED.findall(hlo_text)}
    for computation in hlo_text.split("\n}\n"):
        name = _NAME.search(computation)
        if name and name[1] in called:
            before, reduction, _ = computation.partition(" reduce(")
            if reduction and _WRONG.search(before):
                return True
    return False
