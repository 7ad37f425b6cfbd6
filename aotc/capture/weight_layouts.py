"""Stores weights of model files in the order of axes in which XLA's code for processors reads them.

Torch and ONNX have the kernel of a convolution as (out, in, height, width). XLA computes with
(height, width, in, out), and transposes arguments of another layout at every call. So the
transposed weight is stored, and the function begins by transposing it back, which XLA cancels.
Names and numbers stay, and plain JAX starts from the file's own arrays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from aotc.capture.call_arguments import flat_call, plan_call
from aotc.capture.model_entry_points import WEIGHTS, Models, Opened
from aotc.capture.model_files.frontend_protocol import Model
from aotc.capture.weight_sets import in_tree
from aotc.compile.precision.weight_products import kernel_axes

RANK_MIN = 3
"""Kernels of convolutions have more axes than two; products of matrices take either order."""

type Order = tuple[int, ...]
"""The axes of a weight as its file has them, in the order in which they are stored."""


def laid_out(models: Models, sizes: Mapping[str, Mapping[str, int]]) -> Models:
    """Return models whose weights lie in the order in which their programs read them.

    `sizes` has, by entry point, the sizes at which its program is inspected; another size may want
    another order, which costs only time.
    """
    wanted: dict[tuple[str, str], set[Order | None]] = {}
    for name, each in models.opened.items():
        owner = models.manifest.entry_points[name].bind.get(WEIGHTS, "")
        found = _orders(models, name, sizes[name]) if name in sizes else {}
        for tensor in each.model.weights:
            wanted.setdefault((owner, tensor), set()).add(found.get(tensor))
    # Weights that several entry points share are stored once: the orders have to agree.
    agreed = {at: order for at, (order, *others) in wanted.items() if order and not others}
    if not agreed:
        return models
    opened: dict[str, Opened] = {}
    for name, each in models.opened.items():
        owner = models.manifest.entry_points[name].bind.get(WEIGHTS, "")
        own = {t: agreed[owner, t] for t in each.model.weights if (owner, t) in agreed}
        opened[name] = replace(each, model=_transposing(each.model, own), orders=own)
    moved = replace(models, opened=opened)
    weights = {owner: in_tree(moved.arrays(owner), f"weights {owner}") for owner in models.weights}
    return replace(moved, weights=weights)


def _transposing(model: Model, orders: Mapping[str, Order]) -> Model:
    back = {name: tuple(map(int, np.argsort(order))) for name, order in orders.items()}

    def function(weights: Mapping[str, Any], *inputs: Any) -> Any:
        as_in_file = {
            name: jnp.transpose(array, back[name]) if name in back else array
            for name, array in weights.items()
        }
        return model.function(as_in_file, *inputs)

    weights = {
        name: np.ascontiguousarray(array.transpose(orders[name])) if name in orders else array
        for name, array in model.weights.items()
    }
    return replace(model, function=function, weights=weights)


def _orders(models: Models, name: str, sizes: Mapping[str, int]) -> dict[str, Order]:
    """Return the order that every use of a weight wants, where there is one."""
    many = {n for n, array in models.opened[name].model.weights.items() if array.ndim >= RANK_MIN}
    if not many:
        return {}
    manifest = models.manifest
    try:
        plan = plan_call(name, manifest, models.resolve)
        known = {owner: models.load(owner) for owner in plan.bound.values()}
        call = flat_call(plan, known, manifest, sizes)
        function = jax.jit(lambda *leaves: call.data(*leaves), keep_unused=True)
        lowered = function.lower(*(leaf.data for leaf in call.leaves))
    except Exception:  # noqa: BLE001  it is traced again as an entry point, where this is reported
        return {}
    module = lowered.compiler_ir("stablehlo")
    functions = ir.SymbolTable(module.operation)
    arguments = [*functions["main"].arguments]
    # Before those of the call there may be constants.
    arguments = arguments[len(arguments) - len(call.leaves) :]
    owner = plan.bound.get(WEIGHTS)
    found: dict[str, Order] = {}
    for leaf, argument in zip(call.leaves, arguments, strict=True):
        if not leaf.is_weight or leaf.owner != owner or leaf.path not in many:
            continue
        axes = tuple(range(len(leaf.data.shape)))
        match [*{*_use_orders(argument, axes, axes, functions)}]:
            case [order] if order != axes:
                found[leaf.path] = order
    return found


def _use_orders(value: Any, axes: Order, order: Order, functions: Any) -> Iterator[Order]:
    """Yield the wanted order of a weight's axes for each use of a value, whose order is `order`."""
    for use in value.uses:
        operation = use.owner.operation
        match operation.name:
            case "stablehlo.transpose":
                moved = tuple(order[i] for i in operation.attributes["permutation"])
                yield from _use_orders(operation.results[0], axes, moved, functions)
            case "stablehlo.convert":
                yield from _use_orders(operation.results[0], axes, order, functions)
            case "stablehlo.convolution" if use.operand_number == 1:
                yield tuple(order[i] for i in kernel_axes(operation))
            case "func.call":
                callee = functions[operation.attributes["callee"].value]
                argument = callee.arguments[use.operand_number]
                yield from _use_orders(argument, axes, order, functions)
            case "stablehlo.dot_general":
                yield axes
            case _:
                yield order
