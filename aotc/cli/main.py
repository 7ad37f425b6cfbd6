"""`aotc`: the group of commands, and the outermost line of every error."""

from __future__ import annotations

import sys
import traceback

import click

from aotc.cli import build, inspect, keygen, run, sign, targets, trust, verify


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
    keygen.keygen,
    sign.sign,
    trust.trust,
    targets.targets,
):
    cli.add_command(_command)


def main() -> None:
    """The console script."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.stderr.write("aborted\n")
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the outermost line: anything left is a bug of ours
        if "-v" in sys.argv or "--verbose" in sys.argv:
            traceback.print_exc()
        summary = str(error).strip().splitlines() or [""]
        sys.stderr.write(
            f"internal error: {type(error).__name__}: {summary[0]}\n"
            "  this is a bug in aotc: please report it with the output of the same command and -v\n"
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
