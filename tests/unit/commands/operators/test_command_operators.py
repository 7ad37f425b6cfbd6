"""`aotc operators`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("framework", "family", "name"),
    [
        ("pytorch", "convolution", "aten.conv2d.default"),
        ("pytorch", "sizes and control flow", "higher_order.cond"),
        ("onnx", "ai.onnx", "Conv"),
        ("onnx", "ai.onnx.ml", "TreeEnsembleRegressor"),
    ],
)
def test_operators_of_a_framework_are_listed_by_family(
    aotc: Run, framework: str, family: str, name: str
) -> None:
    if framework == "onnx":
        pytest.importorskip("onnx")
    document = json.loads(aotc("operators", framework, "--json").stdout)
    assert document["ok"] and document["framework"] == framework
    names = document["operators"][family]
    assert name in names and names == sorted(set(names))
    assert document["count"] == sum(map(len, document["operators"].values()))


def test_the_text_has_every_family_with_its_names_and_the_sum(aotc: Run) -> None:
    document = json.loads(aotc("operators", "pytorch", "--json").stdout)
    text = aotc("operators", "pytorch").stdout
    for family, names in document["operators"].items():
        assert f"{family}: {len(names)}\n" in text
        assert {*names} <= {*text.split()}
    assert text.endswith(f"{document['count']} operators of pytorch\n")


def test_a_framework_without_a_table_is_refused(aotc: Run) -> None:
    done = aotc("operators", "stablehlo")
    assert done.exit_code == 2 and "onnx" in done.stderr
