"""`aotc build`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.cache_options import VARIABLE, cache_option, size_option, store_of
from aotc.cli.command_output import FILE, Output, command, note_ignored, print_notes
from aotc.cli.command_progress import progress
from aotc.cli.command_registry import optional
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import output_options
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say, warn

if TYPE_CHECKING:
    from aotc.pipeline.build import Built
    from aotc.pipeline.build_options import BeforePacking
    from aotc.pipeline.cache.cache_store import LocalStore
    from aotc.pipeline.cached_backend import OpenCompilers
    from aotc.pipeline.cached_tasks import Done


def _share(local: LocalStore, url: str, key: str | None, trusted: Sequence[Path]) -> LocalStore:
    """Return a local cache that reads and fills a remote one.

    `key` is the file or URI of the private key that signs new entries; `trusted` are files of the
    public keys whose entries are used. Raises UsageError if the URL is not served or an option is
    missing, TrustError if a file holds no usable key.
    """
    from aotc.bundle.trust.trust_text import read_public_key
    from aotc_runtime.verification.public_keys import load_public_key

    keys = [read_public_key(file)[1] for file in trusted]
    signer = signer_of(key, None) if key else None
    if signer:
        keys.append(load_public_key(signer.public_pem(), "", "--cache-key"))
    shared: LocalStore = optional("--remote-cache")(
        local, url, signer, {key.id: key for key in keys}
    )
    return shared


@click.command()
@click.argument("manifest", type=FILE, help="Build manifest (.toml)")
@output_options(default="NAME-VERSION.aotb")
@target_option("Target to build for (repeatable)", several=True, default="the manifest's")
@key_options(required=False)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="available CPUs",
    help="Number of worker processes",
)
@click.option("--executor", metavar="URL", help="Compile on this Dask cluster (dask://HOST:PORT)")
@click.option("--keep-going", is_flag=True, help="Build the rest after a failure")
@cache_option
@size_option
@click.option(
    "--remote-cache",
    envvar=f"{VARIABLE}_REMOTE",
    show_envvar=True,
    metavar="URL",
    help="Remote cache (https://, oci://, file:///)",
)
@click.option("--cache-key", metavar="FILE|URI", help="Private key that signs remote cache entries")
@click.option(
    "--cache-trust",
    multiple=True,
    type=FILE,
    help="Public key of accepted cache entries (repeatable)",
)
@click.option("--explain", is_flag=True, help="Show why each task ran")
@click.option("--tune", is_flag=True, help="Measure compilation variants and use the fastest")
@click.option("--save-tuning", type=FILE, help="Write the tuning results to this file")
@click.option("--tuning", "tuning_file", type=FILE, help="Tuning results to build with")
@click.option(
    "--builder-id",
    metavar="URI",
    show_default="$AOTC_BUILDER_ID",
    help="Builder named in the provenance",
)
@click.option("--card", type=FILE, help="Model card to store as the asset `card`")
@click.option("--sbom", type=FILE, help="Write the CycloneDX SBOM to this file")
@click.option("--check-reproducible", is_flag=True, help="Build twice and fail if anything differs")
@command
def build(
    out: Output,
    manifest: Path,
    output: Path | None,
    layout: Path | None,
    targets: tuple[str, ...],
    key: str | None,
    passphrase_file: Path | None,
    jobs: int | None,
    executor: str | None,
    keep_going: bool,
    place: str | None,
    cache_size: str | None,
    remote_cache: str | None,
    cache_key: str | None,
    cache_trust: tuple[Path, ...],
    explain: bool,
    tune: bool,
    save_tuning: Path | None,
    tuning_file: Path | None,
    builder_id: str | None,
    card: Path | None,
    sbom: Path | None,
    check_reproducible: bool,
) -> int:
    """Build a bundle from a build manifest.

    Traces every entry point, compiles it for every target and shape profile, compares each
    executable with plain JAX, and writes one bundle. Without --key the bundle is unsigned and does
    not load until it is signed. Nothing is written if anything fails.

    Tasks whose inputs did not change come from the cache; --explain shows why the others ran. Use
    --tune on a quiet host of the target, then --tuning to build the same bundle elsewhere. With
    tune = "auto" in the manifest, the first build measures briefly; later ones repeat its choice.

    \b
    aotc build manifests/digits.toml --key ci.key

    Exit codes: 3 if the manifest or the program is rejected, 4 if compilation fails, 8 if results
    differ from plain JAX, 9 if a budget is exceeded, 10 if a second build differs.
    """
    if output and layout:
        raise click.UsageError("--output and --layout exclude each other: a file or a folder")
    if tune and tuning_file:
        raise click.UsageError("--tune and --tuning exclude each other: measure, or build again")
    if save_tuning and not tune:
        raise click.UsageError("--save-tuning goes with --tune")
    if remote_cache is None and (cache_key or cache_trust):
        raise click.UsageError("--cache-key and --cache-trust go with --remote-cache")
    from aotc.base.workers import worker_environment
    from aotc.bundle.write.bundle_writer import Form
    from aotc.config import tuning_file as tuning_files
    from aotc.config.build_manifest import read_build_manifest
    from aotc.pipeline.build import build as build_bundle
    from aotc.pipeline.build_options import BuildOptions
    from aotc.pipeline.cached_backend import on_this_host

    signer = signer_of(key, passphrase_file) if key else None
    automatic = not (tune or tuning_file) and read_build_manifest(manifest).tune.auto
    if (tune or automatic) and check_reproducible:
        raise click.UsageError("measurements differ: --check-reproducible goes with --tuning FILE")
    if ignored := worker_environment.ignored_variables():
        note_ignored(ignored)
    cache: LocalStore | None = store_of(place, cache_size)
    if cache is not None and remote_cache is not None:
        cache = _share(cache, remote_cache, cache_key, cache_trust)
    recorded = tuning_files.read(tuning_file) if tuning_file else None
    measuring: Any = optional("--tune") if tune or automatic else None
    again: BeforePacking | None = (
        optional("--check-reproducible")(manifest, targets, jobs, recorded, card).check
        if check_reproducible
        else None
    )
    compiling: AbstractContextManager[OpenCompilers] = (
        optional("--executor")(executor) if executor else nullcontext(on_this_host)
    )
    with compiling as compilers, progress(quiet=out.json) as on_stage:
        options = BuildOptions(
            form=Form.LAYOUT if layout else Form.ARCHIVE,
            targets=targets,
            signer=signer,
            jobs=jobs,
            on_stage=on_stage,
            on_output=_print_output if out.verbose else lambda process, text: None,
            on_done=_print_task if out.verbose and not out.json else lambda done: None,
            tuning=measuring() if tune else recorded,
            save_tuning=save_tuning,
            cache=cache,
            compilers=compilers,
            keep_going=keep_going,
            builder=builder_id,
            sbom=sbom,
            card=card,
            before_packing=again,
        )
        build_here = measuring.automatic if automatic else build_bundle
        built: Built = build_here(manifest, layout or output, options)
    from aotc.report.build_report import build_report

    report = {**build_report(built), "reproduced": True if again else None}
    out.result(report, lambda: _print(built, report, out, explain=explain))
    return 0


def _print_output(process: str, text: str) -> None:
    """Print output of the user's program, each line with the name of its process."""
    warn(*(f"{process} | {line}" for line in text.splitlines()))


def _print_task(done: Done) -> None:
    """Print one line for a task that has ended."""
    seconds = "cached" if done.cached else f"{done.seconds:.1f} s"
    warn(f"{done.task.name}: {seconds}")


def _print(built: Built, report: dict[str, Any], out: Output, *, explain: bool) -> None:
    from aotc.report.build_report import print_tasks
    from aotc.report.report_text import print_build

    print_build(report, built.isolation, verbose=out.verbose)
    if report["reproduced"]:
        say("again   reproduced: a second build gave the same root")
    if explain:
        print_tasks(built.tasks, built.compared)
    print_notes(built.notes)
    if built.attestation is None:
        only = "`aotc sign` adds no provenance and SBOM"
        print_notes([f"the bundle is unsigned and will not load: build again with --key; {only}"])
