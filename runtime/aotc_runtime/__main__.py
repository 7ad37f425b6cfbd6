"""`aotc-runtime`: what `aotc verify` and `aotc host-info` say, where only the runtime is installed.

`python -m aotc_runtime` is the same, but that Python looks for modules in the current folder first,
so that whoever can write there decides what it says; `python -P -m` does not.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec

from aotc_runtime.base import rendering
from aotc_runtime.base.errors import AotcError, Finding, refusal
from aotc_runtime.base.rendering import document_text, render, say
from aotc_runtime.loader.bundle_sources import scheme_of
from aotc_runtime.loader.verify_report import HOST, Report, host_report, verify_report
from aotc_runtime.system.read_progress import line_of_progress

PROGRAM = "aotc-runtime"

XLA_VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")
MISUSED, READER_WENT_AWAY, ABORTED = 2, 141, 130


class _Misused(Exception):
    """The command line cannot be understood."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Misused(message)


class Command(Protocol):
    """A command that another distribution brings: a module, by an entry point of the group
    `aotc_runtime.commands`. It prints a line for each event, as JSON with `--json`.

    HELP: what it does, in one line.
    """

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""

    def run(self, options: argparse.Namespace) -> None:
        """Do it. Raises an AotcError."""


GROUP = "aotc_runtime.commands"

OWN = ("verify", "host-info")
"""Commands of this module. Others are looked for when one of these was not given."""

SERVE = "serve"
"""The command of aotc-serve, which is named where that is missing."""


def _others(arguments: list[str]) -> dict[str, Command]:
    """The commands of other distributions, by name; none where one of this module is given."""
    if arguments[:1] and arguments[0] in OWN:
        return {}
    from importlib.metadata import entry_points

    found: dict[str, Command] = {p.name: p.load() for p in sorted(entry_points(group=GROUP))}
    if arguments[:1] == [SERVE] and SERVE not in found:
        raise refusal("AOTC-E406", SERVE, f"no command of the name {SERVE!r} (group {GROUP})")
    return found


def _parser(others: Mapping[str, Command]) -> _Parser:
    parser = _Parser(prog=PROGRAM, allow_abbrev=False)
    commands = parser.add_subparsers(
        required=True, dest="command", metavar="COMMAND", parser_class=_Parser
    )
    verify = commands.add_parser(
        "verify",
        help="say whether a bundle may be loaded here, and if not, why",
        allow_abbrev=False,
    )
    verify.add_argument("bundle", type=_place, metavar="BUNDLE")
    verify.add_argument("--trust", type=Path, required=True, help="the trust policy")
    verify.add_argument(
        "--target", default=HOST, help="a target of the bundle; default: best for this host"
    )
    verify.add_argument(
        "--channel", action="store_true", help="the policy's channel has to name this bundle, too"
    )
    verify.add_argument(
        "--full", action="store_true", help="of a registry: fetch and hash the weights too"
    )
    verify.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="of a registry: fetch what a load here needs into this store, and hash all of it",
    )
    verify.add_argument(
        "--ca", type=Path, help="PEM certificates that the registry's has to be signed with"
    )
    host_info = commands.add_parser(
        "host-info", help="describe this host, for `aotc compat --hosts`", allow_abbrev=False
    )
    parsers = [verify, host_info]
    for name, other in others.items():
        parsers.append(commands.add_parser(name, help=other.HELP, allow_abbrev=False))
        other.add_arguments(parsers[-1])
    for command in parsers:
        command.add_argument(
            "--json", action="store_true", help="print one JSON document on stdout"
        )
    return parser


def main(arguments: list[str]) -> int:
    """Run a command line; its exit code, which docs/errors.md lists."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "a closed one")
        report = _report(arguments)
        in_lines = bool(arguments) and arguments[0] not in OWN and arguments[0][:1] != "-"
        _print(report, as_json="--json" in arguments, in_lines=in_lines)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("aborted\n")
        return ABORTED
    except BrokenPipeError:
        _silence_stdout()
        return READER_WENT_AWAY
    except OSError as error:
        _silence_stdout()
        sys.stderr.write(render([_unwritable(error.strerror or str(error))]) + "\n")
        return MISUSED
    return report.exit_code


def _report(arguments: list[str]) -> Report:
    try:
        others = _others(arguments)
        options = _parser(others).parse_args(arguments)
        # XLA ends the process for one word in them that it does not know.
        if dropped := [name for name in XLA_VARIABLES if os.environ.pop(name, None) is not None]:
            named = ", ".join(dropped)
            sys.stderr.write(f"note: {named} ignored; compiler options belong in target files\n")
        if options.command == "host-info":
            return host_report()
        if (other := others.get(options.command)) is not None:
            other.run(options)
            return Report((), 0, {}, ())
        if options.store is not None and isinstance(options.bundle, Path):
            raise _Misused("--store, and a bundle that is a file")
        more = {name: getattr(options, name) for name in ("full", "ca", "channel", "store")}
        place = options.bundle if isinstance(options.bundle, Path) else Path()
        quiet = options.json or isinstance(options.bundle, str)
        with line_of_progress("hash", place, quiet=quiet) as on_progress:
            return verify_report(
                options.bundle, options.trust, options.target, **more, on_progress=on_progress
            )
    except _Misused as error:
        return Report((_misuse(str(error)),), MISUSED, {}, ())
    except AotcError as error:
        return Report(error.findings, error.exit_code, {}, ())


def _place(text: str) -> Path | str:
    """A reference by its scheme, or a path, which has no two slashes in a row."""
    return text if scheme_of(text) else Path(text)


def _print(report: Report, *, as_json: bool, in_lines: bool) -> None:
    if report.findings and not as_json:
        sys.stderr.write(render(report.findings) + "\n")
    elif report.findings:
        text = document_text(rendering.refusal(report.findings, report.exit_code, report.document))
        # Beside a server's events, which have a line each.
        sys.stdout.write(msgspec.json.format(text, indent=-1) + "\n" if in_lines else text)
    elif as_json and not in_lines:
        sys.stdout.write(document_text({"ok": True, **report.document, "findings": []}))
    else:
        say(*report.lines)


def _misuse(found: str) -> Finding:
    return Finding(
        code="AOTC-E001",
        where=PROGRAM,
        expected="verify BUNDLE --trust POLICY [--target TARGET] [--channel] [--full] "
        "[--store FOLDER] [--ca FILE] [--json], host-info [--json], or serve BUNDLE --trust POLICY",
        found=found,
        hint=f"`{PROGRAM} verify --help` shows the arguments and options",
    )


def _unwritable(found: str) -> Finding:
    return Finding(
        code="AOTC-E003",
        where="stdout",
        expected="a stream that can be written",
        found=found,
        hint="redirect it to a file with free space, a pipe, or /dev/null",
    )


def _silence_stdout() -> None:
    """What is left in stdout's buffer has nowhere to go; without this Python complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
