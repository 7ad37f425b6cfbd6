"""`aotc sign`."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from aotc.cli import reference_options
from aotc.cli.command_output import Output, command
from aotc.cli.command_progress import passing_progress
from aotc.cli.command_registry import beside, optional
from aotc.cli.key_option import key_options, signer_of
from aotc_runtime.base.rendering import say


@click.command()
@reference_options.bundle_argument
@key_options(required=True)
@reference_options.trust_option("Trust policy that must accept earlier signatures")
@click.option(
    "--timestamp", default="", metavar="URL|COMMAND", help="RFC 3161 timestamp authority to use"
)
@reference_options.ca_option
@command
def sign(
    out: Output,
    bundle: reference_options.BundleReference,
    key: str,
    passphrase_file: Path | None,
    trust: Path | None,
    timestamp: str,
    ca: Path | None,
) -> None:
    """Add a signature to a bundle.

    The signed content does not change. Signing again with the same key adds nothing. With --trust,
    the earlier signatures must satisfy the policy; this key counts as one of its threshold.
    --timestamp takes a URL, or a command that reads the query and writes the response.
    For an oci:// reference, fetches and hashes the bundle, and pushes the signature; no tag moves.

    \b
    aotc sign digits-1.0.0.aotb --key release.key --trust trust.toml
    aotc sign digits-1.0.0.aotb --key "pkcs11:token=ci;object=release?module-path=/usr/lib/x.so"
    """
    from aotc.bundle.sign.bundle_signing import endorse, without_timestamp
    from aotc_runtime.verification.policy_reader import policy_keys, read_policy

    policy = read_policy(trust) if trust is not None else None
    signer = signer_of(key, passphrase_file)
    stamp = partial(optional("--timestamp"), timestamp) if timestamp else without_timestamp
    with (
        nullcontext(bundle)
        if isinstance(bundle, Path)
        else beside("push", "working_copy")(bundle, policy, ca, quiet=out.json) as path,
        passing_progress("copy", [path], 2, quiet=out.json) as on_progress,
    ):
        made = endorse(path, signer, policy, timestamp=stamp, on_progress=on_progress)
    attestation = made.attestation
    document = {
        "bundle": str(bundle),
        "name": made.name,
        "version": made.version,
        "root_digest": attestation.root_digest,
        "key_id": attestation.key_id,
        "added": made.added,
        "earlier_signers": list(made.earlier),
        "earlier_verified": policy is not None,
    }
    what = f"{made.name} {made.version}, {attestation.root_digest}"
    done = f"signed {what}" if made.added else f"nothing added to {what}: signed before"
    known = policy_keys(policy) if policy is not None else {}
    others = ", ".join(
        known[id].label if id in known else id[:16] or "a key without id" for id in made.earlier
    )
    checked = "accepted by the policy" if policy else "not verified: --trust POLICY"
    earlier = f"beside   {others} ({checked})" if others else "no other signatures"
    out.result(document, lambda: say(done, f"with key {attestation.key_id}", earlier))
