"""Pictures: the same shapes as SVG and as PNG, and what is refused before any work is done."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.base.errors import UsageError
from aotc.commands.profiles.svg_drawing import (
    DPI,
    Drawing,
    Line,
    Rect,
    Text,
    drawn,
    require_drawable,
)

DRAWING = Drawing(
    100,
    40,
    (
        Rect(0, 0, 50, 20, "#ff0000"),
        Rect(50, 0, 50, 20, "#0000ff", 0.5),
        Line(0, 30, 100, 30, "#00ff00", dashed=True),
        Text(60, 38, "batch $x$ <8>"),
    ),
)


def test_a_png_shows_what_the_svg_says(tmp_path: Path) -> None:
    from matplotlib.image import imread

    path = tmp_path / "a.png"
    path.write_bytes(drawn(DRAWING, path))
    pixels = imread(path)[..., :3]
    scale = DPI // 72
    assert pixels.shape == (40 * scale, 100 * scale, 3)
    np.testing.assert_allclose(pixels[10 * scale, 25 * scale], [1, 0, 0], atol=0.01)
    np.testing.assert_allclose(pixels[10 * scale, 75 * scale], [0.5, 0.5, 1], atol=0.01)
    np.testing.assert_allclose(pixels[25 * scale, 25 * scale], [1, 1, 1], atol=0.01)
    assert pixels[31 * scale :, 60 * scale :].min() < 0.5
    text = drawn(DRAWING, tmp_path / "a.svg").decode()
    assert (text.count("<rect"), text.count("<line"), text.count("dasharray")) == (3, 1, 1)
    assert "batch $x$ &lt;8&gt;</text>" in text


def test_the_same_drawing_is_the_same_file() -> None:
    for name in ("a.png", "a.svg"):
        assert drawn(DRAWING, Path(name)) == drawn(DRAWING, Path(name))
    assert b"matplotlib" not in drawn(DRAWING, Path("a.png"))


def test_a_png_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def hidden(name: str, *rest: Any) -> Any:
        return None if name == "matplotlib" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    with pytest.raises(UsageError) as caught:
        require_drawable(Path("a.png"))
    assert caught.value.findings[0].code == "AOTC-E047"
    assert "'.[plots]'" in caught.value.findings[0].hint
    require_drawable(Path("a.svg"))


def test_other_kinds_of_pictures_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        require_drawable(Path("a.pdf"))
    assert caught.value.findings[0].code == "AOTC-E046"
