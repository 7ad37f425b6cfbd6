"""Keeps reductions apart from products where YNNPACK computes both together, and wrong.

Seen with jaxlib 0.12.0.1, in plain JAX too (docs/contributing/toolchain-notes.md).
"""

import re

OPTION = "xla_cpu_experimental_ynn_fusion_type"
_ALONE = "LIBRARY_FUSION_TYPE_INDIVIDUAL_"
PRODUCTS_ALONE = {OPTION: f"{_ALONE}DOT,{_ALONE}CONVOLUTION"}
"""Options for YNNPACK to compute products and convolutions, and XLA what comes behind. Its own
maxima and minima lose NaN, those of ReLU too."""

_PRODUCT = re.compile(r" (?:dot|convolution)\(%\S+, %(param_)?")
_MOVED = re.compile(r" (?:bitcast|reshape|transpose)\(")


def has_wrong_fusion(hlo_text: str) -> bool:
    """Return whether optimized HLO has a fusion that YNNPACK may compute wrong.

    That is a product whose second factor the fusion makes, or whose result it reshapes, and a
    reduction: `jnp.full` in `(x @ jnp.full((n, n), 0.1)).sum(0)` gives memory that nobody has
    written, and 0.1 in `silu((0.1 * (x @ w)).reshape(m, -1, 8)).sum(0)` is left out.
    """
    for computation in hlo_text.split("\n}\n"):
        if "\n%fused_computation" not in f"\n{computation}":
            continue
        for product in _PRODUCT.finditer(computation):
            between, reduction, _ = computation[product.end() :].partition(" reduce(")
            if reduction and (product[1] is None or _MOVED.search(between)):
                return True
    return False
