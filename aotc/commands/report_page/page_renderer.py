"""Renders a page as one HTML file that loads nothing.

It has no script, and its content security policy allows only the one style sheet, by digest: even
text that escaped the escaping could not run or send anything.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aotc.bundle.read.bundle_review import Review
from aotc.commands.report_page import bundle_section, executables_section
from aotc.commands.report_page.entry_points_section import entry_points
from aotc.commands.report_page.page_parts import Mark, Page, Section
from aotc_runtime.base.rendering import printable

TEXT_MAX = 2000
"""Characters of one text; what is cut off is counted."""


def render(page: Page) -> bytes:
    """UTF-8; the same bytes for the same page."""
    style = (files("aotc.commands.report_page") / "templates" / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    text = (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            style=Markup(style),
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "form-action 'none'",
        )
    )
    return text.encode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aotc.commands.report_page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["mark"] = lambda cell: not isinstance(cell, str)
    environment.filters["kind"] = lambda part: type(part).__name__.lower()
    return environment


def _plain(value: object) -> object:
    """Return a template's value as text, before it is escaped.

    It has at most `TEXT_MAX` characters, none for control or for the direction of writing.
    """
    if isinstance(value, Markup):
        return value
    text = str(value)
    more = len(text) - TEXT_MAX
    shown = printable(text[:TEXT_MAX])
    return f"{shown}… and {more:,} characters more" if more > 0 else shown


def page_of(review: Review, rules: dict[str, Any] | None) -> Page:
    """Return the page about a bundle.

    Times, paths and this host are no part of it: the same bundle and policy give the same page,
    until a key of the policy begins or ceases to count.

    Args:
        review: the bundle.
        rules: the policy as `aotc.report.trust_report.policy_document` has it.
    """
    sections = (
        ("identity", "Identity", bundle_section.identity(review)),
        ("signers", "Signers and trust", bundle_section.signers(review, rules)),
        ("entry-points", "Entry points", entry_points(review)),
        ("profiles", "Profiles: size, memory and cost", executables_section.profiles(review)),
        ("parity", "Parity with plain JAX", executables_section.parity(review)),
        ("placement", "Placement of the work", executables_section.placement(review)),
        ("capture", "Capture", executables_section.capture(review)),
        ("toolchain", "Toolchain and weights", bundle_section.toolchain(review)),
        ("provenance", "Provenance and bill of materials", bundle_section.provenance(review)),
    )
    verified = Mark("accepted by a policy", "good")
    return Page(
        title=f"{review.name} {review.version}",
        root_digest=review.root_digest,
        trust=verified if review.verified else Mark("signatures were not checked", "bad"),
        sections=tuple(Section(id, title, tuple(parts)) for id, title, parts in sections),
    )
