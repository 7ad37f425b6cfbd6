"""Choice of a target, and the certificate that allowed it, as JSON for reports."""

from typing import Any

import msgspec

from aotc_runtime.schema.certified_releases import Certified
from aotc_runtime.verification.host_compatibility import Choice


def choice_report(choice: Choice) -> dict[str, Any]:
    """Return the reasons for the target as JSON, with the rule that chose it."""
    return {
        "rule": "named" if choice.named else "most processor features",
        "candidates": [
            {
                "target": candidate.target,
                "fits": not candidate.findings,
                "features": candidate.features,
                "findings": [finding.to_json() for finding in candidate.findings],
            }
            for candidate in choice.candidates
        ],
        "absent": list(choice.absent),
    }


def certified_of(choice: Choice) -> Certified | None:
    """Return the certificate by which the release that runs the target is accepted, if any."""
    found = (each.certified for each in choice.candidates if each.target == choice.target)
    return next(found, None)


def certified_report(certified: Certified | None) -> dict[str, Any] | None:
    """JSON: the certificate by which a release is accepted; None without one."""
    if certified is None:
        return None
    return {
        "package": certified.release.package,
        "version": certified.release.version,
        "built_with": certified.built_with,
        "certificate": certified.digest,
        "keys": list(certified.keys),
        "names": list(certified.names),
        "certified_on": certified.certified_on,
        "cpu": certified.cpu,
        "differences": [msgspec.to_builtins(each) for each in certified.differences],
    }
