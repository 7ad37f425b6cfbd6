"""Events in the text log of a server stand in a line each, whatever files are called."""

from datetime import datetime

import pytest

from aotc_serve.server_process import _teller


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("digits.aotb", "digits.aotb"),
        (["digits", "texts"], "digits,texts"),
        (3, "3"),
        ("a b", '"a b"'),
        ("x reason=none", '"x reason=none"'),
        ('say "so"', '"say \\"so\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("x\x1b[2J", '"x\\x1b[2J"'),
        ("x\u202ey", '"x\\u202ey"'),
        ("x\rready", '"x\\rready"'),
        ("AOTC-E302 x\n  expected  y", '"AOTC-E302 x\\n  expected  y"'),
        ("übung", "übung"),
    ],
)
def test_value_is_quoted(value: object, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    _teller(as_json=False)("refused", {"bundle": value, "serving": "nothing"})
    time, _, event = capsys.readouterr().out.partition(" ")
    assert datetime.fromisoformat(time).tzinfo is not None
    assert event == f"refused bundle={expected} serving=nothing\n"
