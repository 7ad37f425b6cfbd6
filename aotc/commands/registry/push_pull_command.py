"""`aotc push` and `aotc pull`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import BUNDLE_FILE, PATH, ca_option, trust_option
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc_runtime.schema.trust_policy import TrustPolicy

HELP_SECTION = "Gate and ship"


@click.command(short_help="Send a bundle to an OCI registry.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.argument("reference", metavar="oci://HOST/REPOSITORY[:TAG]")
@trust_option("A policy that has to accept the bundle before anything is sent.")
@click.option(
    "--mount",
    "mounts",
    multiple=True,
    metavar="REPOSITORY",
    help="Another repository of the registry that may have blobs of it; may repeat.",
)
@ca_option
@command
def push(
    out: Output,
    bundle: Path,
    reference: str,
    trust: Path | None,
    mounts: tuple[str, ...],
    ca: Path | None,
) -> None:
    """Send a bundle to an OCI registry, with its signatures; what is there is not sent again.

    Without a tag, the bundle's version is its tag. Who asks is told by `docker login`.

    \b
    aotc push digits-1.0.0.aotb oci://registry.example.org/models/digits:1.0.0
    """
    from aotc.cli.command_progress import byte_progress
    from aotc.commands.registry import bundle_push as pushing
    from aotc.report.report_text import size
    from aotc_runtime.system.streamed_bundle import look_into
    from aotc_serve.http_client import HttpClient
    from aotc_serve.oci.oci_references import parse
    from aotc_serve.oci.registry_client import Repository

    place, source = parse(reference), look_into(bundle)
    with (
        byte_progress("push", quiet=out.json) as on_bytes,
        Repository(place, HttpClient(ca)) as there,
    ):
        found = pushing.push(source, there, _policy(trust), time.time(), mounts, on_bytes)
    sent = sum(found.sent.values())
    document = {
        "bundle": str(bundle),
        "name": found.name,
        "version": found.version,
        "root_digest": found.place.digest,
        "reference": str(found.place),
        "tag": found.tag,
        "targets": list(found.targets),
        "attestations": found.attestations,
        "blobs": found.blobs,
        "size_bytes": found.size_bytes,
        "sent_blobs": len(found.sent),
        "sent_bytes": sent,
    }
    lines = (
        f"{found.name} {found.version}  {found.place}",
        f"tag     {found.tag}",
        f"sent    {size(sent)} of {size(found.size_bytes)}, "
        f"{len(found.sent)} of {found.blobs} blobs",
        f"signed  {found.attestations} attestations",
    )
    out.result(document, lambda: say(*lines))


@click.command(short_help="Fetch a bundle from an OCI registry.")
@click.argument("reference", metavar="oci://HOST/REPOSITORY[:TAG|@DIGEST]")
@target_option("A target to fetch, of several; may repeat. Default: all.", several=True)
@click.option("-o", "--output", type=PATH, help="The .aotb file to write.")
@click.option("--layout", type=PATH, help="Write an OCI layout folder here.")
@click.option(
    "--store",
    "folder",
    type=PATH,
    metavar="DIR",
    help="A store that keeps what is fetched, and gives what it has; with or without a file.",
)
@trust_option("A policy whose keys have to have signed it before the large blobs are fetched.")
@click.option(
    "--channel", is_flag=True, help="The policy's channel has to name it before that, too."
)
@ca_option
@command
def pull(
    out: Output,
    reference: str,
    targets: tuple[str, ...],
    output: Path | None,
    layout: Path | None,
    folder: Path | None,
    trust: Path | None,
    channel: bool,
    ca: Path | None,
) -> None:
    """Fetch a bundle from an OCI registry: the bytes that were pushed, and its signatures.

    A bundle that is there already is replaced, and what it has is not fetched again.

    \b
    aotc pull oci://registry.example.org/models/digits:1.0.0 -o digits.aotb
    """
    if (output is None) == (layout is None) and (output or folder is None):
        raise click.UsageError("pass --output for a file, --layout for a folder, or --store alone")
    if channel and trust is None:
        raise click.UsageError("--channel asks the channel of a policy: --trust FILE")
    from aotc.bundle.write.bundle_writer import Form
    from aotc.cli.command_progress import byte_progress
    from aotc.commands.registry import bundle_pull as pulling
    from aotc.report.report_text import copy_lines, copy_report
    from aotc_serve.channel.channel_options import channel_of
    from aotc_serve.http_client import HttpClient
    from aotc_serve.oci.oci_references import parse
    from aotc_serve.oci.registry_client import Repository
    from aotc_serve.store import Store
    from aotc_serve.store.reference_loading import require_pinned
    from aotc_serve.store.store_pull import ACCEPT_ALL, signed_by

    path, store = output or layout, Store(folder) if folder else None
    place, policy = parse(reference), _policy(trust)
    if policy is not None:
        require_pinned(place, policy)
    form = Form.LAYOUT if layout else Form.ARCHIVE
    accept = ACCEPT_ALL if policy is None else signed_by(policy, time.time(), str(place))
    if policy is not None and trust is not None and channel:
        accept = pulling.newest(accept, channel_of(policy, trust), trust.parent, str(place))
    with (
        byte_progress("pull", quiet=out.json) as on_bytes,
        Repository(place, HttpClient(ca)) as there,
    ):
        if path is None and store is not None:
            found = pulling.keep(there, store, targets, on_bytes, accept)
        else:
            assert path is not None, "one of the three was given"
            found = pulling.pull(there, path, form, targets, store, on_bytes, accept)
    report = {**copy_report(found), "reference": str(place.at(found.root_digest))}
    lines = (*copy_lines(report), f"from    {report['reference']}")
    out.result(report, lambda: say(*lines))


def _policy(trust: Path | None) -> TrustPolicy | None:
    from aotc_runtime.verification.policy_reader import read_policy

    return read_policy(trust) if trust else None
