"""What a graph of PyTorch is refused for, and how many findings that makes."""

from __future__ import annotations

from aotc.frontends.pytorch.torch_graph_checks import findings
from aotc.frontends.pytorch.torch_plan import Plan, Ref, Step
from aotc.frontends.pytorch.torch_schema import TensorMeta

WIDE = TensorMeta(8, (), (), 0, 7)  # type: ignore[arg-type]


def plan_of(*steps: tuple[str, str]) -> Plan:
    """Return a graph of operators, each with its line, that all make float64."""
    made = tuple(
        Step(f"n{i}", f"aten.{name}.default", (), (Ref(f"n{i}"),), line)
        for i, (name, line) in enumerate(steps)
    )
    return Plan((), (), made, {step.name: WIDE for step in made})


def test_operators_that_only_x64_stops_make_one_finding() -> None:
    steps = [
        (name, f"model.py:{i // 3}")
        for i, name in enumerate(("sin", "cos", "exp", "tanh", "log", "sin"))
    ]
    (found,) = findings(plan_of(*steps), "m.pt2", enable_x64=False)
    assert found.where == "m.pt2: model.py:0 (and 5 more)"
    assert found.found.startswith(
        "aten.sin.default, aten.cos.default, aten.exp.default, aten.tanh.default and 1 more: makes"
    )
    assert "enable_x64" in found.hint


def test_unknown_operators_of_one_line_make_one_finding_and_of_two_lines_two() -> None:
    steps = [("one_op", "model.py:7"), ("two_op", "model.py:7"), ("one_op", "model.py:8")]
    (found,) = findings(plan_of(*steps), "m.pt2", enable_x64=True)
    assert found.found.startswith("aten.one_op.default, aten.two_op.default: no operator")
    found, other = findings(plan_of(*steps[:2], ("new_op", "model.py:8")), "m.pt2", enable_x64=True)
    assert other.found.startswith("aten.new_op.default: no operator")
