"""`aotc-runtime`: `aotc verify` for hosts that have only the runtime, and `host-info`.

`python -m aotc_runtime` does the same, but imports modules from the current directory first, so
anyone who can write there controls its output. `python -P -m aotc_runtime` does not.
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
from aotc_runtime.base.rendering import document_text, render, say, usage_text
from aotc_runtime.loader.bundle_sources import scheme_of
from aotc_runtime.loader.verify_report import HOST, Report, host_report, verify_report
from aotc_runtime.system.read_progress import line_of_progress

PROGRAM = "aotc-runtime"

XLA_VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")
MISUSED, READER_WENT_AWAY, ABORTED = 2, 141, 130

USAGE_ERROR = "AOTC-E001"
"""The toolchain's code, which its catalogue explains."""


class _MisusedError(Exception):
    """An invalid command line."""

    def __init__(self, message: str, program: str = PROGRAM, usage: str = "") -> None:
        super().__init__(message)
        hint, title = f"run `{program} --help`", "invalid command line"
        self.finding = Finding(USAGE_ERROR, program, usage, message, hint, title)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise _MisusedError(message, self.prog, usage)


class Command(Protocol):
    """A command of another distribution, in the entry-point group `aotc_runtime.commands`.

    It prints a line for each event, as JSON with `--json`. HELP is its summary, an imperative in
    one line.
    """

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""

    def run(self, options: argparse.Namespace) -> None:
        """Run the command. Raises an AotcError."""


GROUP = "aotc_runtime.commands"

OWN = ("verify", "host-info")
"""Commands of this module. Others are looked for when one of these was not given."""

SERVE = "serve"
"""Command of aotc-serve; an error names that distribution if it is missing."""

HELP_OPTION, HELP_OF_HELP = ("-h", "--help"), "Show this message and exit"


def _others(arguments: list[str]) -> dict[str, Command]:
    """Return the commands of other distributions by name; none if the command is of this module."""
    if arguments[:1] and arguments[0] in OWN:
        return {}
    from importlib.metadata import entry_points

    found: dict[str, Command] = {p.name: p.load() for p in sorted(entry_points(group=GROUP))}
    if arguments[:1] == [SERVE] and SERVE not in found:
        raise refusal("AOTC-E406", SERVE, f"no entry point {SERVE!r} of {GROUP}")
    return found


def _parser(others: Mapping[str, Command]) -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Use bundles on hosts that have only the runtime.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument(*HELP_OPTION, action="help", help=HELP_OF_HELP)
    commands = parser.add_subparsers(
        required=True, dest="command", metavar="COMMAND", parser_class=_Parser
    )

    def add(name: str, summary: str) -> _Parser:
        return commands.add_parser(
            name, help=summary, description=f"{summary}.", allow_abbrev=False, add_help=False
        )

    verify = add("verify", "Verify that this host can load a bundle")
    verify.add_argument(
        "bundle",
        type=_place,
        metavar="BUNDLE",
        help="Bundle file, OCI layout directory, or oci:// reference",
    )
    verify.add_argument("--trust", type=Path, required=True, metavar="FILE", help="Trust policy")
    verify.add_argument(
        "--target",
        default=HOST,
        metavar="TARGET",
        help="Target to verify (default: best for this host)",
    )
    verify.add_argument(
        "--channel", action="store_true", help="Require that the policy's channel names the bundle"
    )
    verify.add_argument(
        "--full", action="store_true", help="Also fetch and hash weights (registry only)"
    )
    verify.add_argument(
        "--store", type=Path, metavar="DIR", help="Fetch into this artifact store, weights included"
    )
    verify.add_argument(
        "--ca", type=Path, metavar="FILE", help="CA certificates for the registry (PEM)"
    )
    add("host-info", "Print a JSON description of this host")
    for name, other in others.items():
        other.add_arguments(add(name, other.HELP))
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="Print the result as JSON")
        command.add_argument(*HELP_OPTION, action="help", help=HELP_OF_HELP)
    return parser


def main(arguments: list[str]) -> int:
    """Run a command line and return its exit code, one of docs/reference/errors.md."""
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
            raise _MisusedError(
                "--store is for bundles in a registry", f"{PROGRAM} {options.command}"
            )
        more = {name: getattr(options, name) for name in ("full", "ca", "channel", "store")}
        place = options.bundle if isinstance(options.bundle, Path) else Path()
        quiet = options.json or isinstance(options.bundle, str)
        with line_of_progress("hash", place, quiet=quiet) as on_progress:
            return verify_report(
                options.bundle, options.trust, options.target, **more, on_progress=on_progress
            )
    except _MisusedError as error:
        return Report((error.finding,), MISUSED, {}, ())
    except AotcError as error:
        return Report(error.findings, error.exit_code, {}, ())


def _place(text: str) -> Path | str:
    """Return a reference, or a path if the text has no scheme."""
    return text if scheme_of(text) else Path(text)


def _print(report: Report, *, as_json: bool, in_lines: bool) -> None:
    if report.findings and not as_json:
        is_usage_error = report.findings[0].code == USAGE_ERROR
        text = usage_text(report.findings[0]) if is_usage_error else render(report.findings)
        sys.stderr.write(text + "\n")
    elif report.findings:
        text = document_text(rendering.refusal(report.findings, report.exit_code, report.document))
        # Beside a server's events, which have a line each.
        sys.stdout.write(msgspec.json.format(text, indent=-1) + "\n" if in_lines else text)
    elif as_json and not in_lines:
        sys.stdout.write(document_text({"ok": True, **report.document, "findings": []}))
    else:
        say(*report.lines)


def _unwritable(found: str) -> Finding:
    hint, title = "redirect stdout to a file with free space", "stdout is not writable"
    return Finding("AOTC-E003", "stdout", "", found, hint, title)


def _silence_stdout() -> None:
    """Discard the rest of stdout's buffer, which Python would fail to write at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
