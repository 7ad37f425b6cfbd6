"""One graph for a range of sizes: what its shapes become, and what is refused."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.engines.onnx_graphs import stablehlo_program
from aotc.engines.onnx_graphs.graph_builder import Graph, Kernels, Node
from aotc.engines.onnx_graphs.graph_ranges import Generalizer, affine
from aotc.engines.onnx_graphs.graph_translation import translate
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from tests.unit.engines.lowering import module_of

SIZES = (40, 31, 18, 7, 2)


def graphs_of(function: Callable[..., Any], axes: tuple[str | int, ...]) -> dict[int, Graph]:
    """The graphs of a function of one array at every size of the axis that has a name."""
    graphs: dict[int, Graph] = {}
    for size in SIZES:
        shape = tuple(size if isinstance(axis, str) else axis for axis in axes)
        program = stablehlo_program.read(
            module_of(function, jax.ShapeDtypeStruct(shape, jnp.float32))
        )
        graphs[size] = translate(program, (), Kernels(ranged=True), graphs.get(SIZES[0]))
    return graphs


def only(graph: Graph, operator: str) -> Node:
    (node,) = (each for each in graph.walk() if each.operator == operator)
    return node


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((40, 31, 18), (1, 0)),
        ((88, 97, 110), (-1, 128)),
        ((121, 94, 55), (3, 1)),
        ((5, 5, 5), (0, 5)),
        ((20, 15, 9), None),
        ((1600, 961, 324), None),
    ],
)
def test_numbers_are_affine_in_the_size_or_not(
    values: tuple[int, ...], found: tuple[int, int] | None
) -> None:
    rows = [[each, 7] for each in values]
    assert affine(rows, SIZES[: len(values)]) == (found and [found, (0, 7)])


def test_arrays_have_named_axes_and_shapes_follow_the_input() -> None:
    graphs = graphs_of(lambda x: jnp.concatenate([x, x]).reshape(-1, 4), ("n", 8))
    graph = Generalizer(graphs, "n").whole()
    assert graph.names.axes[graph.inputs[0].name] == ("1*n+0", 8)
    assert graph.names.axes[graph.outputs[0].name] == ("4*n+0", 4)
    shape = graph.names.arrays[only(graph, "Reshape").inputs[1]][1]
    assert shape.tolist() == [-1, 4]
    graph = Generalizer(graphs_of(lambda x: x.reshape(x.shape[0], 2, 4) + 1, ("n", 8)), "n").whole()
    shape = graph.names.arrays[only(graph, "Reshape").inputs[1]][1]
    assert shape.tolist() == [0, 2, 4], "an axis that stays is copied"


def test_positions_are_counted_in_the_graph() -> None:
    graph = Generalizer(
        graphs_of(lambda x: x * jnp.arange(x.shape[0])[:, None], ("n", 3)), "n"
    ).whole()
    assert only(graph, "Range")
    used = {name for node in graph.walk() for name in node.inputs}
    assert all(array.size <= 4 for name, (_, array) in graph.names.arrays.items() if name in used)


@pytest.mark.parametrize(
    ("function", "axes", "words"),
    [
        (lambda x: jnp.outer(x, x).reshape(-1), ("n",), "depends on n"),
        (lambda x: x * np.float32(1 / x.shape[0]), ("n",), "stablehlo.multiply"),
        (lambda x: x + 1 if x.shape[0] > 20 else x * 2, ("n",), "Add or Mul"),
        (lambda x: x * (2 if x.shape[0] > 20 else 3), ("n",), "a constant of Mul"),
        (lambda x: x[:4] if x.shape[0] > 20 else x, ("n",), "stablehlo.slice"),
    ],
    ids=["square", "number", "operator", "constant", "result"],
)
def test_what_depends_on_the_size_otherwise_is_refused(
    function: Callable[..., Any], axes: tuple[str | int, ...], words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        Generalizer(graphs_of(function, axes), "n").whole()


def test_a_program_without_an_axis_of_the_dimension_is_refused() -> None:
    graphs = graphs_of(lambda x: x + 1, ("n",))
    with pytest.raises(UnsupportedError, match="no input"):
        Generalizer(dict.fromkeys(SIZES, graphs[SIZES[0]]), "n").whole()
