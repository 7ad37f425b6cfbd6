"""Every attack against the runtime that is imported, without pytest: 0 if each ends as it should.

`python -m tests.hostile.attacks BUNDLE POLICY`; with `--build` first, only makes these two.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from aotc_runtime.errors import AotcError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.trust import read_policy
from aotc_runtime.verification.verify import verify

from . import test_checks_matter, test_format_checks_matter
from . import test_policy_checks_matter as policy_checks
from . import test_trust_checks_matter as trust_checks
from .generator import CASES, Kit
from .tampering import in_memory, policy_for, roles, signed, take_apart
from .weakening import Arms, Check, outcome


def build(bundle: Path, policy: Path) -> None:
    from aotc.build.pipeline import build as build_bundle

    signer = LocalSigner.ephemeral()
    build_bundle(Path("manifests/digits.toml"), output=bundle, signer=signer)
    policy.write_text(policy_text("digits", [signer.public_pem()]))


def all_checks() -> Iterator[Check]:
    for module in (test_checks_matter, test_format_checks_matter, trust_checks, policy_checks):
        for value in vars(module).values():
            if isinstance(value, list) and value and isinstance(value[0], Check):
                yield from value


def main(bundle: str, policy_file: str) -> int:
    genuine = in_memory(Path(bundle))
    policy = read_policy(Path(policy_file))
    ours, stranger = LocalSigner.ephemeral(), LocalSigner.ephemeral()
    manifest = json.loads(genuine.blobs[roles(genuine)["bundle manifest"]])
    host = HostFacts(
        platform="cpu",
        architecture="x86_64",
        cpu="made up",
        isa=frozenset(manifest["requires"]["isa"]),
        jaxlib=manifest["accepts_jaxlib"][0],
        devices=1,
        memory_bytes=2**40,
    )
    kit = Kit(signed(take_apart(genuine), ours), ours, stranger)
    verify(genuine, policy, host)
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(CASES):
            for form in case.forms:
                place = Path(folder, f"{number}-{form}")
                place.mkdir()
                path = case.make(kit, place, form)
                try:
                    verify(open_bundle(path), policy_for(ours), host)
                except AotcError as error:
                    if error.code == case.code:
                        continue
                    return fail(f"{case.name}, {form}: {error.code} instead of {case.code}")
                return fail(f"{case.name}, {form}: accepted")
        for number, check in enumerate(all_checks()):
            place = Path(folder, str(number))
            place.mkdir()
            arms = Arms(genuine, take_apart(genuine), policy, ours, stranger, host, place)
            found = outcome(check.attack, arms)
            if found != check.code:
                return fail(f"{check.label}: {found}")
    return 0


def fail(what: str) -> int:
    sys.stderr.write(what + "\n")
    return 1


if __name__ == "__main__":
    if sys.argv[1] == "--build":
        build(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main(*sys.argv[1:]))
