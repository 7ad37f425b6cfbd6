"""`aotc push` and `aotc pull`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from aotc.cli import reference_options
from aotc.cli.command_output import DIR, Output, command
from aotc.cli.target_option import target_option
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc_runtime.schema.trust_policy import TrustPolicy
    from aotc_serve.oci.registry_client import Repository

HELP_SECTION = "Ship"


@click.command()
@click.argument("bundle", type=reference_options.BUNDLE_FILE, help=reference_options.BUNDLE_HELP)
@click.argument("reference", metavar="oci://HOST/REPOSITORY[:TAG]", help="Reference to push to")
@reference_options.trust_option("Trust policy that must accept the bundle")
@click.option(
    "--mount",
    "mounts",
    multiple=True,
    metavar="REPOSITORY",
    help="Repository to mount blobs from (repeatable)",
)
@click.option("--modelpack", is_flag=True, help="Also push a CNCF ModelPack manifest")
@reference_options.ca_option
@command
def push(
    out: Output,
    bundle: Path,
    reference: str,
    trust: Path | None,
    mounts: tuple[str, ...],
    modelpack: bool,
    ca: Path | None,
) -> None:
    """Push a bundle to an OCI registry.

    Sends the bundle with its signatures, without blobs that the registry already has. The default
    tag is the bundle's version. Credentials come from `docker login`, `skopeo login` or
    `oras login`. Temporary errors are retried, and uploads continue where they stopped.
    --modelpack adds the tag TAG-modelpack, which ModelPack tools pull as a folder to load.

    \b
    aotc push digits-1.0.0.aotb oci://registry.example.org/models/digits:1.0.0

    Exit code 11 if the registry cannot be used.
    """
    from aotc.cli.command_progress import byte_progress
    from aotc.commands.registry import bundle_push as pushing
    from aotc.commands.registry.modelpack_push import SUFFIX, push_modelpack
    from aotc.report.report_text import size
    from aotc_runtime.system.streamed_bundle import open_streamed
    from aotc_serve.oci.oci_references import parse

    there, source = _repository(reference, ca), open_streamed(bundle)
    if modelpack and there.place.tag:
        parse(str(there.place).partition("@")[0] + SUFFIX)
    with byte_progress("push", quiet=out.json) as on_bytes, there:
        found = pushing.push(source, there, _policy(trust), time.time(), mounts, on_bytes)
        pack = push_modelpack(source, found, there) if modelpack else None
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
        "modelpack": str(pack) if pack else None,
        "blobs": len(found.parts),
        "size_bytes": found.size_bytes,
        "sent_blobs": len(found.sent),
        "sent_bytes": sent,
    }
    lines = (
        f"{found.name} {found.version}  {found.place}",
        f"tag     {found.tag}",
        f"sent    {size(sent)} of {size(found.size_bytes)}, "
        f"{len(found.sent)} of {len(found.parts)} blobs",
        f"signed  {found.attestations} attestations",
        *([f"pack    {pack}"] if pack else ()),
    )
    out.result(document, lambda: say(*lines))


@click.command()
@click.argument(
    "reference", metavar="oci://HOST/REPOSITORY[:TAG|@DIGEST]", help="Reference to pull"
)
@target_option("Target to pull (repeatable)", several=True, default="all")
@reference_options.output_options()
@click.option("--store", "folder", type=DIR, help="Artifact store to read and fill")
@reference_options.trust_option("Trust policy whose keys must have signed")
@click.option("--channel", is_flag=True, help="Require that the policy's channel names the bundle")
@reference_options.ca_option
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
    """Pull a bundle from an OCI registry.

    Writes the pushed bundle byte for byte, with its signatures. Blobs of an older bundle at the
    same path are reused. With --trust, signatures are checked before blobs are fetched; `aotc
    verify` checks the rest of the policy.

    \b
    aotc pull oci://registry.example.org/models/digits:1.0.0 -o digits.aotb --trust trust.toml

    Exit code 11 if the registry cannot be used.
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
    from aotc_serve.store import Store
    from aotc_serve.store.reference_loading import require_pinned
    from aotc_serve.store.store_pull import ACCEPT_ALL, accept_signed

    path, store = output or layout, Store(folder) if folder else None
    there, policy = _repository(reference, ca), _policy(trust)
    place = there.place
    if policy is not None:
        require_pinned(place, policy)
    form = Form.LAYOUT if layout else Form.ARCHIVE
    accept = ACCEPT_ALL if policy is None else accept_signed(policy, time.time(), str(place))
    if policy is not None and trust is not None and channel:
        accept = pulling.newest(accept, channel_of(policy, trust), trust.parent, str(place))
    with byte_progress("pull", quiet=out.json) as on_bytes, there:
        if path is None and store is not None:
            found = pulling.keep(there, store, targets, on_bytes, accept)
        else:
            assert path is not None, "one of the three was given"
            found = pulling.pull(there, path, form, targets, store, on_bytes, accept)
    report = {**copy_report(found), "reference": str(place.at(found.root_digest))}
    lines = (*copy_lines(report), f"from    {report['reference']}")
    out.result(report, lambda: say(*lines))


@contextmanager
def working_copy(
    reference: str, policy: TrustPolicy | None, ca: Path | None, *, quiet: bool
) -> Iterator[Path]:
    """Yield a copy of a bundle in a registry, for `aotc sign`; attestations go back at the end.

    No tag moves, so that a bundle that was pushed meanwhile stays where it is.
    Raises RegistryError, IntegrityError, BundleFormatError, UsageError (AOTC-E003), and TrustError
    (AOTC-E326) for a tag if the policy demands digests.
    """
    from aotc.base.temporary_files import temporary_folder
    from aotc.bundle.write.bundle_writer import Form
    from aotc.cli.command_progress import byte_progress
    from aotc.commands.registry.bundle_pull import pull as pull_bundle
    from aotc.commands.registry.bundle_push import push_attestations
    from aotc_runtime.system.streamed_bundle import open_streamed
    from aotc_serve.store.reference_loading import require_pinned

    there = _repository(reference, ca)
    if policy is not None:
        require_pinned(there.place, policy)
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-sign-") as folder, there:
        copy = folder / "bundle.aotb"
        try:
            with byte_progress("pull", quiet=quiet) as on_bytes:
                pull_bundle(there, copy, Form.ARCHIVE, on_bytes=on_bytes)
            yield copy
            push_attestations(open_streamed(copy), there)
        except AotcError as error:
            raise type(error)(
                *(_about(each, copy, reference) for each in error.findings)
            ) from error


def _about(finding: Finding, copy: Path, reference: str) -> Finding:
    """Return a finding about a copy as one about the bundle in the registry."""
    texts = {name: getattr(finding, name) for name in ("where", "found", "expected", "hint")}
    changed = {name: text.replace(str(copy), reference) for name, text in texts.items()}
    return msgspec.structs.replace(finding, **changed)


def _repository(reference: str, ca: Path | None) -> Repository:
    """Return a client of a reference's repository, to be used in a `with` statement."""
    from aotc_serve.http_client import HttpClient
    from aotc_serve.oci.oci_references import parse
    from aotc_serve.oci.registry_client import Repository

    return Repository(parse(reference), HttpClient(ca))


def _policy(trust: Path | None) -> TrustPolicy | None:
    from aotc_runtime.verification.policy_reader import read_policy

    return read_policy(trust) if trust else None
