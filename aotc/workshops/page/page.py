"""The whole page of a bundle, in the order in which a reviewer asks."""

from __future__ import annotations

from typing import Any

from aotc.review.reading import Review
from aotc.workshops.page import evidence, executables, hosts, identity, origins
from aotc.workshops.page.entry_points import entry_points
from aotc.workshops.page.parts import Page


def page_of(review: Review, asked: hosts.Asked, policy: dict[str, Any] | None) -> Page:
    """policy: the one of `asked` as `aotc.report.trust.policy_document` has it.

    Times, paths and this host are no part of it: the same bundle, policy and hosts give the same
    page, until a key of the policy begins or ceases to count.
    """
    return Page(
        title=f"{review.name} {review.version}",
        root_digest=review.root_digest,
        trust=identity.trust_mark(review),
        sections=(
            identity.identity(review),
            identity.signers(review, policy),
            entry_points(review),
            executables.profiles(review),
            executables.parity(review),
            evidence.placement(review),
            hosts.compatibility(review, asked),
            evidence.capture(review),
            evidence.compilation(review),
            executables.limits(review),
            origins.toolchain(review),
            origins.provenance(review),
        ),
    )
