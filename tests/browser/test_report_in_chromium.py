"""The page of `aotc report` in a browser: both colour schemes, a phone and a desk, and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aotc.bundle.read.bundle_review import review
from aotc.commands.report_page.page_parts import Mark, Page, Section, table
from aotc.commands.report_page.page_parts import Text as Paragraph
from aotc.commands.report_page.page_renderer import page_of, render
from aotc_runtime.system.bundle_files import open_bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
WIDTHS = (360, 1400)

LUMINANCE = """
const parse = (text) => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
};
const luminance = (text) => {
  const [r, g, b] = [...parse(text)].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, two) => {
  const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
"""
"""Contrast of two colours, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""


@pytest.fixture(scope="module")
def written(lm_bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a bundle with every kind of part."""
    found = review(open_bundle(lm_bundle[0]), None, datetime.now(UTC))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(render(page_of(found, None)))
    return path


@pytest.fixture
def asked(chromium: Browser) -> list[str]:
    """Everything that any tab said or asked for, but for the page itself."""
    return []


@pytest.fixture
def tab(
    chromium: Browser, asked: list[str], request: pytest.FixtureRequest, written: Path
) -> Iterator[Tab]:
    """The page, opened without a network. Parameters: colour scheme and width, 1400 by default."""
    scheme, width = getattr(request, "param", ("light", 1400))
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True
    )
    tab = context.new_page()
    tab.on("console", lambda message: asked.append(f"console: {message.text}"))
    tab.on("pageerror", lambda error: asked.append(f"error: {error}"))
    tab.on("request", lambda r: None if r.is_navigation_request() else asked.append(r.url))
    tab.on("requestfailed", lambda request: asked.append(f"refused: {request.failure}"))
    tab.goto(written.as_uri())
    yield tab
    context.close()


everywhere = pytest.mark.parametrize(
    "tab", [(scheme, width) for scheme in SCHEMES for width in WIDTHS], indirect=True
)
in_both_schemes = pytest.mark.parametrize("tab", [(s, 1400) for s in SCHEMES], indirect=True)


def open_everything(tab: Tab) -> None:
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")


@everywhere
def test_the_page_asks_for_nothing_and_fits_its_window(tab: Tab, asked: list[str]) -> None:
    folded = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    open_everything(tab)
    opened = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert folded[0] <= folded[1] and opened[0] <= opened[1]
    assert asked == []


def background(tab: Tab) -> str:
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


@in_both_schemes
def test_colours_follow_the_reader_and_then_the_choice(tab: Tab) -> None:
    auto = background(tab)
    shown = {}
    for choice in ("light", "dark", "auto"):
        tab.get_by_label(choice.capitalize(), exact=True).check()
        shown[choice] = background(tab)
    assert shown["auto"] == auto and shown["light"] != shown["dark"]
    scheme = (
        "dark" if tab.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    )
    assert shown[scheme] == auto


@in_both_schemes
def test_everything_stands_out_from_its_background(tab: Tab) -> None:
    """WCAG 2.2: 4.5 for text."""
    open_everything(tab)
    worst = tab.evaluate(
        "() => {"
        + LUMINANCE
        + """
          const behind = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const color = getComputedStyle(at).backgroundColor;
              if (color !== 'rgba(0, 0, 0, 0)') return color;
            }
            return 'white';
          };
          let least = [99, ''];
          const seen = new Set();
          for (const element of document.querySelectorAll('body *')) {
            if (![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
            const color = getComputedStyle(element).color;
            const pair = `${color} ${behind(element)}`;
            if (seen.has(pair)) continue;
            seen.add(pair);
            const found = contrast(color, behind(element));
            if (found < least[0]) least = [found, pair];
          }
          return least;
        }"""
    )
    assert worst[0] >= 4.5, worst


def test_on_paper_everything_is_unfolded_and_nothing_is_cut_off(tab: Tab) -> None:
    tab.emulate_media(media="print", color_scheme="dark")
    tab.set_viewport_size({"width": 720, "height": 1000})
    heights = tab.evaluate(
        "[...document.querySelectorAll('details table')]"
        ".map((e) => e.getBoundingClientRect().height)"
    )
    assert heights and min(heights) > 0
    assert tab.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert background(tab) == "rgb(255, 255, 255)"
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.pdf().startswith(b"%PDF")


def test_a_keyboard_reaches_the_content_first_and_tables_that_scroll(tab: Tab) -> None:
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('href')") == "#content"
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#content"
    assert tab.evaluate("document.querySelectorAll('.scroll:not([tabindex=\"0\"])').length") == 0


def test_headings_are_in_order_for_those_who_jump_between_them(tab: Tab) -> None:
    levels = tab.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => +h.tagName[1])")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))


def test_a_script_that_got_into_the_page_is_not_run(tab: Tab, asked: list[str]) -> None:
    """As if the escaping had failed: the page's own policy stops it, and what it would fetch."""
    tab.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.attacked = true';
          const image = document.createElement('img');
          image.setAttribute('onerror', 'window.attacked = true');
          image.src = 'nowhere.png';
          document.body.append(script, image);
        }"""
    )
    tab.wait_for_timeout(200)
    assert tab.evaluate("window.attacked") is None
    assert "refused: csp" in asked
    assert any("violates the following Content Security Policy" in line for line in asked)


@pytest.mark.parametrize("width", WIDTHS)
def test_report_escapes_hostile_texts(chromium: Browser, tmp_path: Path, width: int) -> None:
    attack = "<script>window.attacked=1</script><img src=x onerror=window.attacked=1>" + "x" * 900
    parts = (Paragraph(attack), table(attack, (attack, attack), [(attack, attack)]))
    path = tmp_path / "hostile.html"
    mark = Mark(attack, "plain")
    path.write_bytes(render(Page(attack, attack, mark, (Section("s", attack, parts),))))
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    tab.goto(path.as_uri())
    assert tab.evaluate("window.attacked") is None
    assert tab.locator("h1").inner_text() == attack
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()
