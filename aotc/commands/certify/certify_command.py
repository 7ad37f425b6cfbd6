"""`aotc certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, trust_option
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import warn

if TYPE_CHECKING:
    from aotc.bundle.sign.signer import Signer
    from aotc_runtime.schema.trust_policy import TrustPolicy

HELP_SECTION = "Ship"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.option(
    "--python",
    "pythons",
    required=True,
    multiple=True,
    type=FILE,
    help="Python that has the version to test (repeatable)",
)
@key_options(required=False)
@trust_option("Trust policy that must accept the bundle")
@target_option("Target to test", default="all")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=1e6),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="Time limit per target and version",
)
@command
def certify(
    out: Output,
    bundle: Path,
    pythons: tuple[Path, ...],
    key: str | None,
    passphrase_file: Path | None,
    trust: Path | None,
    target: str | None,
    seconds: float,
) -> int:
    """Test a bundle under other runtime versions.

    Runs every fixture of the bundle in environments that have aotc-runtime and another version of
    jaxlib or of the target's engine. With --key, the results are signed and added to the bundle as
    certificates: hosts with that version load it if their policy trusts the key as a certifier.
    Without --trust, --key itself must have signed the bundle, since testing runs its machine code.

    \b
    aotc certify digits-1.0.0.aotb --python older/bin/python \\
        --trust trust.toml --key certifier.key

    Exit codes: 7 if an environment lacks a package, 8 if a fixture fails.
    """
    import os

    from aotc.base.errors import family_of
    from aotc.cli.command_progress import progress
    from aotc.commands.certify.certify_bundle import certify as run_certification
    from aotc.commands.certify.certify_text import certify_document, certify_findings, certify_lines
    from aotc.pipeline.build_materials import stated_time, time_of_build
    from aotc_runtime.verification.certificate_rules import certifier_keys
    from aotc_runtime.verification.policy_reader import read_policy

    if key is None and trust is None:
        raise click.UsageError("--trust or --key has to be given: a bundle is machine code")
    stated = stated_time(os.environ)
    signer = signer_of(key, passphrase_file) if key is not None else None
    if trust is not None:
        policy = read_policy(trust)
    else:
        assert signer is not None, "one of the two was given"
        policy = _policy_of(signer)

    with progress(quiet=out.json) as on_fixture:
        made = run_certification(
            bundle,
            pythons,
            policy,
            target,
            signer,
            seconds=seconds,
            finished=lambda: time_of_build(stated),
            on_fixture=on_fixture,
        )
    document = certify_document(str(bundle), made)
    if trust is not None and key is not None:
        document["key_is_certifier"] = is_certifier = made.key_id in certifier_keys(policy)
        if not is_certifier and not out.json:
            warn(
                f"note: {key} is no certifier of {trust}, so these certificates do not count there;"
            )
            warn(f"  `aotc trust add-key {trust} --key KEY.pub --certifier` lets them")
    findings = tuple(certify_findings(made))
    code = family_of(findings[0].code).exit_code if findings else 0
    return out.verdict(document, certify_lines(made), findings, code)


def _policy_of(signer: Signer) -> TrustPolicy:
    """Return the policy that accepts what this key has signed, whatever the bundle's name."""
    from aotc_runtime.schema.bundle_manifest import OutOfProfilePolicy
    from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy

    own = TrustedKey(public_key=signer.public_pem(), name="--key")
    furthest = OutOfProfilePolicy.COMPILE
    return TrustPolicy(schema=1, name="*", keys=(own,), furthest_fallback=furthest)
