"""Options and types of the bundles that commands read, from files and registries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_output import DIR, FILE, Output, print_notes
from aotc.cli.command_progress import byte_progress

if TYPE_CHECKING:
    from aotc_runtime.loader.bundle_sources import InspectedBundle
    from aotc_runtime.schema.trust_policy import TrustPolicy

    _Type = click.ParamType["BundleReference"]
else:
    _Type = click.ParamType  # which takes no type in older releases

type BundleReference = Path | str
"""A path of a bundle, or its reference in a registry."""


def scheme_of(value: object) -> str:
    """Return the scheme of a reference; "" for a path. Imports the loader when there is one."""
    if not isinstance(value, str) or "://" not in value:
        return ""
    from aotc_runtime.loader import bundle_sources

    return bundle_sources.scheme_of(value)


class _ReferenceType(_Type):
    name = "path"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> BundleReference:
        # A path has no two slashes in a row.
        return value if scheme_of(value) else Path(value)


BUNDLE_REFERENCE = _ReferenceType()


class InRegistryError(click.UsageError):
    """A registry reference where a command takes a file, with a hint for the user."""

    def __init__(self, reference: str, ctx: click.Context | None) -> None:
        super().__init__(f"{reference}, which is in a registry: this command takes files", ctx)
        self.hint = (
            f"fetch it: `aotc pull {reference} -o FILE`; `aotc push` sends back what a command adds"
        )


class _FileType(click.Path):
    """The path of a bundle. A reference would lose one of its slashes as a path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if scheme_of(value):
            raise InRegistryError(value, ctx)
        return super().convert(value, param, ctx)


BUNDLE_FILE = _FileType(path_type=Path)

BUNDLE_HELP = "Bundle file or OCI layout directory"

SOURCE_HELP = "Bundle file, OCI layout directory, or oci:// reference"


bundle_argument = click.argument("bundle", type=BUNDLE_REFERENCE, help=SOURCE_HELP)

ca_option = click.option("--ca", type=FILE, help="CA certificates for the registry (PEM)")


def fetching_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--full` and `--ca`."""
    return click.option("--full", is_flag=True, help="Also fetch and hash weights (registry only)")(
        ca_option(function)
    )


def output_options[F: Callable[..., Any]](*, default: str | None = None) -> Callable[[F], F]:
    """Return a decorator that adds `-o`, as `output`, and `--layout`.

    `default` is the text that the help of `-o` shows as the default.
    """
    layout = click.option("--layout", type=DIR, help="Write an OCI layout directory instead")
    output = click.option(
        "-o", "--output", type=FILE, show_default=default, help="Output file (.aotb)"
    )
    return lambda function: output(layout(function))


@contextmanager
def open_with_notes(
    out: Output, place: BundleReference, policy: TrustPolicy | None, *, full: bool, ca: Path | None
) -> Iterator[InspectedBundle]:
    """Open a bundle by path or reference; print a tag's digest and unhashed parts on stderr.

    With `full`, weights are fetched too; `ca` is as in `HttpClient`. Raises the errors of
    `open_for_inspection`.
    """
    from aotc_runtime.loader.bundle_sources import open_for_inspection

    quiet = out.json or isinstance(place, Path)
    with (
        byte_progress("fetch", quiet=quiet) as on_bytes,
        open_for_inspection(
            place, policy, time.time(), full=full, ca=ca, on_bytes=on_bytes
        ) as found,
    ):
        if not out.json:
            other = f"{found.asked} is {found.shown}" if found.shown != found.asked else ""
            print_notes(filter(None, (other, found.note)))
        yield found


profile_option = click.option(
    "--profile", metavar="NAME=SIZE,...", help="Limit to profiles with these sizes"
)


def verified_options[F: Callable[..., object]](function: F) -> F:
    """Add `--trust` and `--untrusted`."""
    untrusted = click.option("--untrusted", is_flag=True, help="Skip signature verification")
    return trust_option("Trust policy that must accept the bundle")(untrusted(function))


def trust_option[F: Callable[..., object]](
    help: str = "Trust policy", *, required: bool = False
) -> Callable[[F], F]:
    """Add `--trust`."""
    return click.option("--trust", required=required, type=FILE, help=help)


def refuse_both(trust: Path | None, untrusted: bool) -> None:
    """Raise click.UsageError where both options are given."""
    if trust and untrusted:
        raise click.UsageError("--trust and --untrusted exclude each other: ask a policy, or not")
