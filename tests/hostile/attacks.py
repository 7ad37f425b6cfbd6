"""Every attack against the runtime that is imported, without pytest.

`python -m tests.hostile.attacks BUNDLE POLICY` makes the two that they start from.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.policy_reader import read_policy

from . import test_certificate_checks_matter as certificate_checks
from . import test_checks_matter, test_format_checks_matter
from . import test_policy_checks_matter as policy_checks
from . import test_trust_checks_matter as trust_checks
from .generator import CASES, Case, Kit
from .tampering import host_for, in_memory, policy_for, signed, take_apart
from .weakening import Arms, Check, outcome


def build(bundle: Path, policy: Path) -> None:
    from aotc.pipeline.build import build as build_bundle

    signer = LocalSigner.ephemeral()
    build_bundle(Path("manifests/digits.toml"), output=bundle, signer=signer)
    policy.write_text(policy_text("digits", [signer.public_pem()]), "utf-8")


def all_checks() -> Iterator[Check]:
    for module in (
        test_checks_matter,
        test_format_checks_matter,
        trust_checks,
        policy_checks,
        certificate_checks,
    ):
        for value in vars(module).values():
            if isinstance(value, list) and value and isinstance(value[0], Check):
                yield from value


class Attacks:
    """All of them, made once: what is bad about a bundle does not depend on who reads it."""

    def __init__(self, bundle: str, policy: str, folder: Path) -> None:
        self.genuine = in_memory(Path(bundle))
        self.policy = read_policy(Path(policy))
        self.ours, self.stranger = LocalSigner.ephemeral(), LocalSigner.ephemeral()
        self.trusted = policy_for(self.ours)
        self.host = host_for(self.genuine)
        self.checks = list(all_checks())
        kit = Kit(signed(take_apart(self.genuine), self.ours), self.ours, self.stranger)
        self.made: list[tuple[Case, Path]] = []
        for number, case in enumerate(CASES):
            # The other form differs in how it is opened, which has cases of its own.
            place = folder / str(number)
            place.mkdir()
            self.made.append((case, case.make(kit, place, case.forms[0])))

    def run(self) -> int:
        """0 if each is refused as it should be, and the good bundle is not."""
        verify(self.genuine, self.policy, self.host, time.time())
        for case, path in self.made:
            try:
                verify(open_bundle(path), self.trusted, self.host, time.time())
            except AotcError as error:
                if error.code == case.code:
                    continue
                return fail(f"{case.name}: {error.code} instead of {case.code}")
            return fail(f"{case.name}: accepted")
        with tempfile.TemporaryDirectory() as folder:
            for number, check in enumerate(self.checks):
                place = Path(folder, str(number))
                place.mkdir()
                arms = Arms(
                    self.genuine,
                    take_apart(self.genuine),
                    self.policy,
                    self.ours,
                    self.stranger,
                    self.host,
                    place,
                )
                found = outcome(check.attack, arms)
                if found != check.code:
                    return fail(f"{check.label}: {found}")
        return 0


def fail(what: str) -> int:
    sys.stderr.write(what + "\n")
    return 1


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
