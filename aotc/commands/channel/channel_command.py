"""`aotc channel`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli.command_output import DIR, HELP_OPTION, Output, command, print_notes
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, trust_option
from aotc.commands.channel.channel_key_options import Roles, days_option, role_options
from aotc_runtime.base.rendering import say
from aotc_serve.channel.channel_options import require_tuf

HELP_SECTION = "Ship"

_folder_argument = click.argument("folder", type=DIR, help="Channel directory")


@click.group()
@HELP_OPTION
def channel() -> None:
    """Manage deployment channels."""


@channel.command()
@_folder_argument
@role_options(required=True)
@command
def init(out: Output, folder: Path, given: Roles) -> None:
    """Create a channel.

    A channel is a directory of signed TUF metadata that names the deployed bundle; serve it over
    HTTP or copy it to hosts. Trust policies pin FOLDER/1.root.json. Sign with as many root keys as
    --root-threshold, and keep them offline afterwards.

    \b
    aotc channel init channel --root root.pub --targets release.pub --online online.pub \\
      --key root.key
    """
    require_tuf()
    from aotc.commands.channel import channel_repository

    roles, signers = given.given_roles(), given.signers()
    channel_repository.create(folder, roles, signers, datetime.now(UTC), given.days)
    root = folder / "1.root.json"
    out.result({"folder": str(folder), "root": str(root)}, lambda: say(f"wrote {root}"))


@channel.command()
@_folder_argument
@role_options(required=False)
@trust_option("Trust policy of this channel")
@command
def rotate(out: Output, folder: Path, given: Roles, trust: Path | None) -> None:
    """Replace a channel's keys or extend its validity.

    Sign with enough of the old root keys and of the new ones. Hosts follow from the root that their
    policy pins. Bundles that replaced keys had signed must be published again.

    \b
    aotc channel rotate channel --key root.key
    aotc channel rotate channel --online online-2027.pub --key root.key
    """
    require_tuf()
    from aotc.commands.channel.channel_host import changing

    change = given.given_roles()
    signers = given.signers()
    with changing(folder, trust) as found:
        signed = found.rotate(change, signers, datetime.now(UTC), given.days)
    root = folder / f"{signed.version}.root.json"
    roles = {
        name: {"threshold": role.threshold, "keys": sorted(role.keyids)}
        for name, role in sorted(signed.roles.items())
    }
    document = {"folder": str(folder), "root": str(root), "changed": sorted(change)}

    def text() -> None:
        say(f"wrote {root}")
        for name, role in sorted(signed.roles.items()):
            keys = ", ".join(id[:16] for id in sorted(role.keyids))
            say(f"{name:<10} {role.threshold} of {keys}")

    out.result({**document, "roles": roles}, text)


@channel.command()
@_folder_argument
@click.argument("bundle", required=False, type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.option(
    "--channel", "name", default="", metavar="NAME", help="Channel name, such as production"
)
@key_options("keys", several=True)
@click.option("--online-key", default="", metavar="FILE|URI", help="Private key of the online role")
@days_option(7, 365, "Days until the channel must be renewed")
@trust_option("Trust policy that must accept the bundle")
@command
def publish(
    out: Output,
    folder: Path,
    bundle: Path | None,
    name: str,
    keys: tuple[str, ...],
    passphrase_file: Path | None,
    online_key: str,
    days: int,
    trust: Path | None,
) -> None:
    """Publish a bundle, or renew the channel.

    Without BUNDLE, renews the channel's timestamp: run that from a timer, more often than --days.
    If several signers are required, each runs the command with their own key for the same bundle;
    it is published when the last of them and the online key have signed.

    \b
    aotc channel publish channel digits.aotb --channel production --key release.key \\
      --online-key online.key
    aotc channel publish channel --online-key online.key
    """
    if (bundle is None) != (not name):
        raise click.UsageError("BUNDLE and --channel go together")
    if bundle is None and keys:
        raise click.UsageError("--key is for a BUNDLE")
    if bundle is None and not online_key:
        raise click.UsageError("name a BUNDLE, or renew the channel with --online-key")
    if bundle is not None and not keys and not online_key:
        raise click.UsageError("--key says who signs")

    require_tuf()
    from aotc.commands.channel import channel_host

    named = channel_host.check_bundle(bundle, name, trust) if bundle else None
    signers = [signer_of(each, passphrase_file) for each in keys]
    online = signer_of(online_key, passphrase_file) if online_key else None
    with channel_host.changing(folder, trust) as found:
        made = found.publish(named, signers, online, datetime.now(UTC), days)
    document = {
        "folder": str(folder),
        "path": named.path if named else None,
        "published": dict(made.versions),
        "missing": made.missing,
        "needs_online_key": made.online,
        "gone": [*made.gone],
    }
    what = f"{named.path} {named.version}" if named else "what waited, and the timestamp"
    text = f"published {what}"
    if made.missing:
        text = f"signed {what}; {made.missing} more to sign before it is published"
    elif made.online:
        text = f"signed {what}; published once `aotc channel publish --online-key` has signed it"
    out.result(document, lambda: say(text))
    print_notes(
        f"{path} is not named any more: publish it with the keys of now" for path in made.gone
    )


@channel.command()
@click.argument("folder", required=False, type=DIR, help="Channel directory")
@trust_option("Trust policy whose channel to check")
@command
def status(out: Output, folder: Path | None, trust: Path | None) -> None:
    """Show a channel's bundles and expiry.

    With FOLDER, checks the metadata from its first root. With --trust, reads the channel like
    `aotc verify --channel`: from the policy's source, and never older than what this host has seen.

    \b
    aotc channel status channel
    aotc channel status --trust trust.toml
    """
    if (folder is None) == (trust is None):
        raise click.UsageError("a FOLDER, or --trust")

    require_tuf()
    from aotc.commands.channel import channel_status

    told = (
        channel_status.policy_status(trust)
        if trust
        else channel_status.folder_status(folder or Path())
    )
    out.result_and_notes(told.document, told.lines, told.notes)
