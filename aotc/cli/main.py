"""`aotc`: the group of commands, and the outermost line of every error."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence

import click

from aotc.cli import bench, build, inspect, keygen, run, sign, targets, trust, verify
from aotc.cli.common import Output, fail


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="aotc", message="aotc %(version)s")
def cli() -> None:
    """Take a JAX program to production as a signed, verified, ahead-of-time compiled bundle.

    Exit codes: 0 ok, 1 internal error, 2 usage, 3 manifest or capture refused, 4 compile failed,
    5 damaged or not trusted, 6 runtime not compatible, 7 host not suited, 8 parity failed,
    9 budget exceeded. Codes of single errors are in docs/errors.md.
    """


for _command in (
    build.build,
    verify.verify,
    inspect.inspect,
    run.run,
    bench.bench,
    keygen.keygen,
    sign.sign,
    trust.trust,
    targets.targets,
):
    cli.add_command(_command)


def main() -> None:
    """The console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path that is no UTF-8, or a terminal that knows ASCII only, is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line to its end; its exit code. Every error has been reported."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    out = Output(json="--json" in options, verbose="-v" in options or "--verbose" in options)
    try:
        code: int | None = cli.main(list(arguments), prog_name="aotc", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        sys.stderr.write("aborted\n")
        return 2
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        return _misused(error, out)
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except Exception as error:  # noqa: BLE001 - the outermost line: anything left is a bug of ours
        return _failed(error, out)
    return code or 0


def _misused(error: click.ClickException, out: Output) -> int:
    from aotc.errors import UsageError
    from aotc_runtime.errors import Finding

    context = getattr(error, "ctx", None)
    name = context.command_path if context else "aotc"
    usage = context.get_usage() if context else "aotc [OPTIONS] COMMAND [ARGS]..."
    return fail(
        out,
        UsageError(
            Finding(
                code="AOTC-E001",
                where=name,
                expected=" ".join(usage.removeprefix("Usage: ").split()),
                found=error.format_message(),
                hint=f"`{name} --help` shows the arguments and options",
            )
        ),
    )


def _failed(error: Exception, out: Output) -> int:
    if out.verbose:
        traceback.print_exception(error)
    first_line = next(iter(str(error).strip().splitlines()), "")
    summary = f"{type(error).__name__}: {first_line}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        _silence_stdout()
        sys.stderr.write(f"the result could not be written: {error.strerror}\n")
        return 1
    if out.json:
        out.document({"ok": False, "exit_code": 1, "findings": [], "internal_error": summary})
    sys.stderr.write(
        f"internal error: {summary}\n"
        "  this is a bug in aotc: please report it with the output of the same command and -v\n"
    )
    return 1


def _silence_stdout() -> None:
    """What is left in stdout's buffer has nowhere to go; without this Python complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


if __name__ == "__main__":
    main()
