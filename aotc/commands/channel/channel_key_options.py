"""Options of `aotc channel` that name keys."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from aotc.base.errors import refusal
from aotc.bundle.sign.signer import Signer
from aotc.bundle.trust.trust_text import read_public_key
from aotc.cli.command_output import FILE
from aotc.cli.key_option import key_options, signer_of


@dataclass(frozen=True, slots=True)
class Roles:
    """The values of the options of `role_options`.

    `root`, `targets` and `online` are files of public keys; `signing` has private keys, as for
    `--key`; `days` is the validity of root metadata.
    """

    root: tuple[Path, ...]
    targets: tuple[Path, ...]
    online: tuple[Path, ...]
    root_threshold: int
    targets_threshold: int
    signing: tuple[str, ...]
    passphrase_file: Path | None
    days: int

    def given_roles(self) -> dict[str, tuple[dict[str, str], int]]:
        """Return the public keys and the threshold of every role that is given.

        Raises the errors of `public_keys`.
        """
        found = {}
        if self.root:
            found["root"] = (public_keys(self.root, "--root"), self.root_threshold)
        if self.targets:
            found["targets"] = (public_keys(self.targets, "--targets"), self.targets_threshold)
        if self.online:
            online = public_keys(self.online, "--online"), 1
            found |= {"snapshot": online, "timestamp": online}
        return found

    def signers(self) -> list[Signer]:
        """Return the signers. Raises what `signer_of` raises."""
        return [signer_of(key, self.passphrase_file) for key in self.signing]


def role_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options for the keys and thresholds of each role.

    It also adds `--key` and `--days`. The command gets a `Roles` as `given`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def function(*args: Any, **kwargs: Any) -> Any:
            stated = {field.name: kwargs.pop(field.name) for field in fields(Roles)}
            return command(*args, given=Roles(**stated), **kwargs)

        function = days_option(365, 3650, "Validity of the root metadata in days")(function)
        for name in ("online", "targets", "root"):
            function = click.option(
                f"--{name}",
                name,
                multiple=True,
                required=required,
                type=FILE,
                help=f"Public key of the {name} role (repeatable)",
            )(function)
        for role in ("targets", "root"):
            function = click.option(
                f"--{role}-threshold",
                default=1,
                show_default=True,
                type=click.IntRange(min=1),
                metavar="N",
                help=f"Number of {role} keys that must sign",
            )(function)
        return key_options("signing", several=True)(function)

    return decorate


def days_option[F: Callable[..., Any]](default: int, most: int, help: str) -> Callable[[F], F]:
    """Return a decorator that adds `--days`."""
    return click.option(
        "--days",
        default=default,
        show_default=True,
        type=click.IntRange(1, most),
        metavar="N",
        help=help,
    )


def public_keys(files: Sequence[Path], option: str) -> dict[str, str]:
    """Return PEM texts by key id.

    Raises UsageError (AOTC-E006, E028 for a repeated key) and TrustError (AOTC-E310).
    """
    found: dict[str, str] = {}
    for file in files:
        pem, key = read_public_key(file)
        if key.id in found:
            raise refusal("AOTC-E028", option, str(file), cause="channel-key-given-twice")
        found[key.id] = pem
    return found
