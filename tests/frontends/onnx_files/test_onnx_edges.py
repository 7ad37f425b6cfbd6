"""Operators where their definition leaves room: as onnxruntime and the standard's tests have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from onnx import helper

from tests.frontends.onnx_files.making import run, simple

N = helper.make_node


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_indices_of_one_hot_that_are_no_whole_numbers_are_cut() -> None:
    nodes = [N("OneHot", ["x", "depth", "values"], ["y"])]
    made = simple(nodes, (4,), depth=np.array(3), values=floats(0, 1))
    found = run(made, floats(0, 1, 2.9, -0.5))["y"]
    assert found.argmax(1).tolist() == [0, 1, 2, 0] and (found.sum(1) == 1).all()


def test_an_axis_that_shrinks_takes_the_next_element_before_version_11() -> None:
    nodes = [N("Resize", ["x", "scales"], ["y"], mode="nearest")]
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    made = simple(nodes, x.shape, opset=10, scales=floats(1, 1, 0.6, 0.6))
    assert run(made, x)["y"].tolist() == [[[[1, 3]]]]  # the standard's test of version 10


@pytest.mark.parametrize(("size", "scale", "wanted"), [(10, 0.7, 7), (5, 2.3, 11), (3, 0.34, 1)])
def test_sizes_are_those_of_shape_inference(size: int, scale: float, wanted: int) -> None:
    nodes = [N("Resize", ["x", "", "scales"], ["y"])]
    x = np.zeros((1, 1, size), np.float32)
    found = run(simple(nodes, x.shape, scales=floats(1, 1, scale)), x)["y"]
    assert found.shape == (1, 1, wanted)
