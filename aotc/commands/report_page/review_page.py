"""The whole page of a bundle, in the order in which a reviewer asks."""

from __future__ import annotations

from typing import Any

from aotc.bundle.read.bundle_review import Review
from aotc.commands.report_page import (
    evidence_section,
    executables_section,
    hosts_section,
    identity_section,
    origins_section,
)
from aotc.commands.report_page.entry_points_section import entry_points
from aotc.commands.report_page.page_parts import Page


def page_of(review: Review, asked: hosts_section.Asked, policy: dict[str, Any] | None) -> Page:
    """policy: the one of `asked` as `aotc.report.trust_report.policy_document` has it.

    Times, paths and this host are no part of it: the same bundle, policy and hosts give the same
    page, until a key of the policy begins or ceases to count.
    """
    return Page(
        title=f"{review.name} {review.version}",
        root_digest=review.root_digest,
        trust=identity_section.trust_mark(review),
        sections=(
            identity_section.identity(review),
            identity_section.signers(review, policy),
            entry_points(review),
            executables_section.profiles(review),
            executables_section.parity(review),
            evidence_section.placement(review),
            hosts_section.compatibility(review, asked),
            evidence_section.capture(review),
            evidence_section.compilation(review),
            executables_section.limits(review),
            origins_section.toolchain(review),
            origins_section.provenance(review),
        ),
    )
