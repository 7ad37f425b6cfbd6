"""The group of commands, and how every kind of error ends."""

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import TypeGuard, cast

import click

from aotc.base.errors import refusal
from aotc.cli.command_output import HELP_OPTION, Output, fail, report_findings, requested_output
from aotc.cli.command_registry import Commands
from aotc.cli.stop_signals import Stops
from aotc_runtime.base.errors import AotcError
from aotc_runtime.base.rendering import usage_text, warn, warn_of

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG)


OF_COMMANDS = ("--json", "-v", "--verbose")
"""Options that commands have and groups do not."""


OF_BUILD = {
    "--engine": "write `engines` in the manifest (docs/guides/engines.md)",
    "--precision": "write `[precision.NAME]` in the manifest (docs/guides/precision.md)",
    "--profile": "write `profiles` in the manifest (docs/guides/profiles.md)",
    "--sign": "sign with `--key FILE`",
}
"""Hints for what is no option of `aotc build`."""


UNCUT = 1000
"""Width of a summary that click does not shorten; it wraps the text anyway."""


class SectionedGroup(click.Group):
    """Group whose help lists the commands by section, before the options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the registry's order."""
        return list(self.commands)  # in the registry's order, and not by the alphabet

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its commands, then the options."""
        indent = max(map(len, self.commands))
        for title, names in COMMANDS.sections().items():
            with formatter.section(title):
                formatter.write_dl(
                    [(n.ljust(indent), COMMANDS[n].get_short_help_str(UNCUT)) for n in names]
                )
        click.Command.format_options(self, ctx, formatter)


COMMANDS = Commands()

EXIT_CODES = """\
\b
Exit codes:
  0  success                      6  incompatible runtime version
  1  internal error               7  unsuitable host or device
  2  usage error                  8  parity check failed
  3  rejected manifest or code    9  budget exceeded
  4  compilation failed          10  rebuild differs
  5  damaged or untrusted        11  registry error
"""


@click.group(
    cls=SectionedGroup,
    commands=cast("dict[str, click.Command]", COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(
    package_name="aotc", message="aotc %(version)s", help="Show the version and exit"
)
@HELP_OPTION
def cli() -> None:
    """Compile models ahead of time into signed bundles.

    A model is a JAX function, a PyTorch (.pt2), ONNX or Keras file, or a TensorFlow SavedModel.
    Servers verify a bundle, load its machine code, and call it without compiling. Start with
    `aotc init`.
    """


def run_command(arguments: Sequence[str], stops: Stops) -> int:
    """Run a command line to its end; its exit code. Every error has been reported."""
    out = requested_output(arguments, stops)
    _occupy_standard_descriptors()
    if sys.stdout is None:
        return _unwritable(out, "a closed one")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path that is not UTF-8, or a terminal with ASCII only, is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        stops.raise_now()
        code = _invoke(arguments, stops)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.exceptions.Abort) as stopped:
        stops.ignore()
        return report_stop(stopped, arguments, out)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        return _report_usage_error(error, out)
    except AotcError as error:  # before the command runs, which reports its own
        return fail(out, error)
    except BrokenPipeError:
        silence_stdout()
        return READER_WENT_AWAY
    except Exception as error:  # noqa: BLE001 - the outermost line: anything left is a bug of ours
        return _report_failure(error, out)
    return code


def _invoke(arguments: Sequence[str], stops: Stops) -> int:
    # Not cli.main, which turns Ctrl-C and closed pipes into lines and exit codes of its own.
    try:
        with cli.make_context("aotc", list(arguments), obj=stops) as context:
            code: int | None = cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return code or 0


def _occupy_standard_descriptors() -> None:
    """Open closed standard streams as /dev/null.

    Otherwise the next opened file would get their number, and output of jaxlib or a child process.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8")


def _report_usage_error(error: click.ClickException, out: Output) -> int:
    """Report an error of the command line, as text in the form of command-line parsers."""
    context = getattr(error, "ctx", None)
    name = context.command_path if context else "aotc"
    usage = context.get_usage() if context else "aotc [OPTIONS] COMMAND [ARGS]..."
    hint: str = getattr(error, "hint", f"run `{name} --help`")
    if _is_option_of_commands(error):
        hint = f"put it after the command: `{name} COMMAND ... {error.option_name}`"
    elif name == "aotc build":
        hint = OF_BUILD.get(getattr(error, "option_name", ""), hint)
    made = refusal(
        "AOTC-E001",
        name,
        _message_of(error),
        expected=" ".join(usage.removeprefix("Usage: ").split()),
        hint=hint,
    )
    if out.json:
        return fail(out, made)
    sys.stderr.write(usage_text(made.findings[0]) + "\n")
    return made.exit_code


def _message_of(error: click.ClickException) -> str:
    """Return click's message in lower case, without a period, with the names that are close."""
    if _is_option_of_commands(error):
        return f"{error.option_name} before the command"
    close: Sequence[str] = getattr(error, "possibilities", None) or ()
    message = error.message if close else error.format_message()
    message = f"{message[:1].lower()}{message[1:]}".removesuffix(".")
    message = re.sub(r"is not a valid (integer|float) range\Z", r"is not a valid \1", message)
    return f"{message}; did you mean {' or '.join(map(repr, close))}?" if close else message


def _is_option_of_commands(error: click.ClickException) -> TypeGuard[click.NoSuchOption]:
    """Return whether an option of commands was given to a group, such as `aotc -v build`."""
    return (
        isinstance(error, click.NoSuchOption)
        and error.option_name in OF_COMMANDS
        and error.ctx is not None
        and isinstance(error.ctx.command, click.Group)
    )


def _report_failure(error: Exception, out: Output) -> int:
    if out.verbose:
        warn_of(error)
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        silence_stdout()
        return _unwritable(out, error.strerror or str(error))
    if refused := _startup_problem(error):
        return fail(out, refused)
    first_line = next(iter(str(error).strip().splitlines()), "")
    summary = f"{type(error).__name__}: {first_line}"
    if out.json:
        out.document({"ok": False, "exit_code": 1, "findings": [], "internal_error": summary})
    warn(
        f"internal error: {summary}",
        "  this is a bug in aotc: please report it with the output of the same command and -v",
    )
    return 1


def _startup_problem(error: Exception) -> AotcError | None:
    """AOTC-E032 for what lies in how the command was started, and not in the command."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return refusal("AOTC-E032", "this process", f"{error.strerror}")
    if _wants_memory(error):
        from aotc.base.workers.worker_parent import address_space

        if (limit := address_space()) is None:
            return None
        found = f"{limit / 2**20:.0f} MiB of address space"
        return refusal("AOTC-E032", "this process", found, cause="process-memory-limit-is-too-low")
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return refusal("AOTC-E032", ascii(error.object[:200]), "", cause="file-name-is-not-utf-8")
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return refusal("AOTC-E032", "current directory", "", cause="current-directory-was-removed")
    return None


def _wants_memory(error: Exception) -> bool:
    """Return whether Python or a library has got no more memory."""
    if isinstance(error, MemoryError):
        return True
    said = ("failed to map segment", "can't start new thread", "Cannot allocate memory")
    return isinstance(error, ImportError | RuntimeError | OSError) and any(
        words in str(error) for words in said
    )


def _has_current_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - as pathlib asks
    except FileNotFoundError:
        return False
    return True


def _unwritable(out: Output, found: str) -> int:
    """Report on stderr, even with `--json`, that stdout cannot be written."""
    error = refusal("AOTC-E003", "stdout", found, cause="stdout-is-not-writable")
    try:
        return fail(Output(json=False, verbose=out.verbose, stops=out.stops), error)
    except OSError:  # nor can stderr be written
        return error.exit_code


READER_WENT_AWAY = 128 + signal.SIGPIPE
"""The exit code that a shell shows for a process killed by SIGPIPE."""

ENDS = {
    signal.SIGINT: ("AOTC-E981", "aborted"),
    signal.SIGTERM: ("AOTC-E982", "terminated"),
    signal.SIGHUP: ("AOTC-E983", "hung up"),
}
"""By signal: the code of the finding, and the line on stderr."""


def report_stop(stopped: BaseException, arguments: Sequence[str], out: Output) -> int:
    """Print a line on stderr, or a JSON document on stdout, and return the exit code."""
    # An interrupt without a signal counts as Ctrl-C.
    number = next((each for each in ENDS if stopped.args == (each,)), signal.SIGINT)
    code, said = ENDS[number]
    command = " ".join(["aotc", *(a for a in arguments[:1] if not a.startswith("-"))])
    stop = refusal(code, command, number.name)
    try:
        if out.json:
            report_findings(out, stop.findings, stop.exit_code)
            sys.stdout.flush()
        else:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
    except OSError:
        silence_stdout()
    return stop.exit_code


def silence_stdout() -> None:
    """Drop what is left in stdout's buffer, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
