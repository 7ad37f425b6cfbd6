"""`aotc certify`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.command_output import Output, command
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, trust_option
from aotc.cli.target_option import target_option
from aotc.cli.version_options import jaxlib_option, versions
from aotc_runtime.base.rendering import warn
from aotc_runtime.schema.certified_releases import JAXLIB, Release

if TYPE_CHECKING:
    from aotc.bundle.sign.signer import Signer
    from aotc_runtime.schema.trust_policy import TrustPolicy

HELP_SECTION = "Ship"

PACKAGE = re.compile(r"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)==(.+)", re.ASCII)
"""A distribution by its normalized name (PEP 503)."""


def _releases(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[Release, ...]:
    """Reject values that are no package with its version.

    They become names of folders and arguments of an installer.
    """
    found = []
    for value in values:
        match = PACKAGE.fullmatch(value)
        if match is None:
            wanted = f"{value!r} is no package with a version, such as onnxruntime==1.32.0."
            raise click.BadParameter(wanted, context, option)
        found.append(Release(match[1], *versions(context, option, (match[2],))))
    return tuple(found)


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@jaxlib_option("Version of jaxlib to test (repeatable)")
@click.option(
    "--with",
    "releases",
    multiple=True,
    callback=_releases,
    metavar="PACKAGE==VERSION",
    help="Engine package version to test (repeatable)",
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
    jaxlibs: tuple[str, ...],
    releases: tuple[Release, ...],
    key: str | None,
    passphrase_file: Path | None,
    trust: Path | None,
    target: str | None,
    seconds: float,
) -> int:
    """Test a bundle under other runtime versions.

    Installs each version into an environment of its own and runs every fixture of
    the bundle there. With --key, the results are signed and added to the bundle as certificates:
    hosts with that version load it if their policy trusts the key as a certifier. Without --trust,
    --key itself must have signed the bundle, since testing runs its machine code.

    \b
    aotc certify digits-1.0.0.aotb --jaxlib 0.11.2 --jaxlib 0.12.0 \\
        --trust trust.toml --key certifier.key

    Exit codes: 7 if a version cannot be installed, 8 if a fixture fails.
    """
    import os

    from aotc.base.errors import family_of
    from aotc.cli.command_progress import progress
    from aotc.commands.certify.certify_bundle import certify as run_certification
    from aotc.commands.certify.certify_text import certify_document, certify_findings, certify_lines
    from aotc.pipeline.build_materials import stated_time, time_of_build
    from aotc_runtime.verification.certificate_rules import certifier_keys
    from aotc_runtime.verification.policy_reader import read_policy

    asked = (*(Release(JAXLIB, version) for version in jaxlibs), *releases)
    if not asked:
        raise click.UsageError("--jaxlib or --with has to be given: what to run the bundle under")
    if key is None and trust is None:
        raise click.UsageError("--trust or --key has to be given: a bundle is machine code")
    stated = stated_time(os.environ)
    signer = signer_of(key, passphrase_file) if key is not None else None
    if trust is not None:
        policy = read_policy(trust)
    else:
        assert signer is not None, "one of the two was given"
        policy = _policy_of(signer)

    def note(line: str) -> None:
        if not out.json:
            warn(line)

    with progress(quiet=out.json) as on_fixture:
        made = run_certification(
            bundle,
            asked,
            policy,
            target,
            signer,
            note=note,
            seconds=seconds,
            finished=lambda: time_of_build(stated),
            on_fixture=on_fixture,
        )
    document = certify_document(str(bundle), made)
    if trust is not None and key is not None:
        document["key_is_certifier"] = is_certifier = made.key_id in certifier_keys(policy)
        if not is_certifier:
            note(
                f"note: {key} is no certifier of {trust}, so these certificates do not count there;"
            )
            note(f"  `aotc trust add-key {trust} --key KEY.pub --certifier` lets them")
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
