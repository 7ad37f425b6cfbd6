"""`aotc channel`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.reference_options import BUNDLE_FILE, PATH, trust_option
from aotc.commands.channel.channel_key_options import (
    Roles,
    role_options,
    signers_of,
    signing_options,
)
from aotc_runtime.base.rendering import say
from aotc_serve.channel.channel_options import require_tuf

HELP_SECTION = "Sign and trust"


@click.group()
def channel() -> None:
    """Say which bundle is deployed, to hosts that ask."""


@channel.command(short_help="Make a channel: a folder to serve or to copy.")
@click.argument("folder", type=PATH)
@role_options(required=True, days="How long the root metadata is good; `rotate` signs the next.")
@command
def init(out: Output, folder: Path, given: Roles) -> None:
    """Make a channel: a folder of TUF metadata, to be served over HTTP or copied to hosts.

    FOLDER/1.root.json is what policies trust. --key signs it, with as many root keys as
    --root-threshold says; keep these offline afterwards.

    \b
    aotc channel init channel --root root.pub --targets release.pub --online online.pub \\
      --key root.key
    """
    require_tuf()
    from aotc.commands.channel import channel_repository

    roles, signers = given.named(), given.signers()
    channel_repository.create(folder, roles, signers, datetime.now(UTC), given.days)
    root = folder / "1.root.json"
    out.result({"folder": str(folder), "root": str(root)}, lambda: say(f"wrote {root}"))


@channel.command(short_help="Change the keys of a channel, or renew its root metadata.")
@click.argument("folder", type=PATH)
@role_options(required=False, days="How long the root metadata is good.")
@trust_option("A policy whose channel this has to be.")
@command
def rotate(out: Output, folder: Path, given: Roles, trust: Path | None) -> None:
    """Sign the next root metadata: with other keys for the roles that are named, or for longer.

    Enough of the old root keys sign, and of the new ones. Hosts follow from the root that their
    policy has; what other keys had signed before is to be published again.

    \b
    aotc channel rotate channel --key root.key
    aotc channel rotate channel --online online-2027.pub --key root.key
    """
    require_tuf()
    from aotc.commands.channel.channel_host import changing

    change = given.named()
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


@channel.command(short_help="Name a bundle in a channel, or renew it.")
@click.argument("folder", type=PATH)
@click.argument("bundle", required=False, type=BUNDLE_FILE)
@click.option("--channel", "name", default="", help='Where it is deployed, such as "production".')
@signing_options
@click.option(
    "--online-key", default="", metavar="FILE|URI", help="Sign snapshot and timestamp with this."
)
@click.option(
    "--days",
    default=7,
    show_default=True,
    type=click.IntRange(1, 365),
    help="How long hosts believe the channel before it has to be renewed.",
)
@trust_option("A policy that has to accept it, and whose channel this has to be, none older.")
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
    """Name a bundle in a channel; without one, renew the timestamp, from a timer for example.

    Where several people have to sign, each runs this with a key of their own for the same bundle;
    it is published once the last signature and the online key's are there.

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

    named = channel_host.named(bundle, name, trust) if bundle else None
    signers = signers_of(keys, passphrase_file)
    online = signers_of([online_key], passphrase_file)[0] if online_key else None
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


@channel.command(short_help="Say what a channel names, and until when.")
@click.argument("folder", required=False, type=PATH)
@trust_option("A policy: ask as a host does.")
@command
def status(out: Output, folder: Path | None, trust: Path | None) -> None:
    """Say what a channel names, and until when its metadata are good.

    Of a FOLDER, checked from its first root; or with --trust, as `aotc verify --channel` asks: over
    the network if the policy says so, and against what this host saw last.

    \b
    aotc channel status channel
    aotc channel status --trust trust.toml
    """
    if (folder is None) == (trust is None):
        raise click.UsageError("a FOLDER, or --trust")

    require_tuf()
    from aotc.commands.channel import channel_status

    told = channel_status.of_policy(trust) if trust else channel_status.of_folder(folder or Path())

    def text() -> None:
        say(*told.lines)
        print_notes(told.notes)

    out.result({**told.document, "notes": [*told.notes]}, text)
