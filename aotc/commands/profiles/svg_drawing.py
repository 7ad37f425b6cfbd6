"""Rectangles, lines and text as an SVG or PNG file; lengths in pixels, y downwards."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

from aotc.base.errors import refusal

DPI = 144
"""Pixels of a PNG per inch: two for each unit of the drawing, which is 1/72 inch."""


@dataclass(frozen=True, slots=True)
class Rect:
    """x, y: of the upper left corner. opacity: 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """From one point to another."""

    x: float
    y: float
    to_x: float
    to_y: float
    color: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """x, y: where its baseline begins. end: or where it ends."""

    x: float
    y: float
    text: str
    end: bool = False


type Shape = Rect | Line | Text


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on white, later ones above earlier ones."""

    width: int
    height: int
    shapes: tuple[Shape, ...]


def require_drawable(path: Path) -> None:
    """Raises UsageError: AOTC-E046 another kind of picture, E047 a PNG without matplotlib."""
    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise refusal("AOTC-E046", "--plot", str(path))
    if kind == ".png" and importlib.util.find_spec("matplotlib") is None:
        raise refusal("AOTC-E047", "--plot", "it is not installed")


def drawn(drawing: Drawing, path: Path) -> bytes:
    """The file, of the kind that the path names; the same bytes for the same drawing."""
    return png(drawing) if path.suffix.lower() == ".png" else svg(drawing).encode()


def svg(drawing: Drawing) -> str:
    """Text in XML."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width}" '
        f'height="{drawing.height}" font-family="sans-serif" font-size="11">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(map(_svg, drawing.shapes))
        + "\n</svg>\n"
    )


def _svg(shape: Shape) -> str:
    match shape:
        case Rect(x, y, width, height, color, opacity):
            more = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
            return (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                f'fill="{color}"{more}/>'
            )
        case Line(x, y, to_x, to_y, color, dashed):
            more = ' stroke-dasharray="4 3"' if dashed else ""
            return (
                f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" '
                f'stroke="{color}"{more}/>'
            )
        case Text(x, y, text, end):
            anchor = ' text-anchor="end"' if end else ""
            return f'<text x="{x:.1f}" y="{y:.1f}"{anchor}>{escape(text)}</text>'


def png(drawing: Drawing) -> bytes:
    """By matplotlib, with the font that comes with it; no date, version or name in the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(drawing.width / 72, drawing.height / 72), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(drawing.shapes):
        match shape:
            case Rect(x, y, width, height, color, opacity):
                axes.add_patch(
                    Rectangle((x, y), width, height, color=color, alpha=opacity, lw=0, zorder=order)
                )
            case Line(x, y, to_x, to_y, color, dashed):
                style = (0, (4, 3)) if dashed else "-"
                ends = ([x, to_x], [y, to_y])
                axes.add_line(Line2D(*ends, color=color, lw=1, linestyle=style, zorder=order))
            case Text(x, y, text, end):
                # No markup: what a log or a manifest says is shown as it is.
                side = "right" if end else "left"
                axes.text(
                    x, y, text, size=9, ha=side, va="baseline", zorder=order, parse_math=False
                )
    file = BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()
