"""The console script: sets up signals, then runs the command line."""

import os
import sys

from aotc.cli.stop_signals import Stops

COMPLETE = "_AOTC_COMPLETE"
"""Variable by which click's completion functions of shells call `aotc`."""


def complete(instruction: str) -> int:
    """Answer a shell that completes a command line, or print its completion function.

    `instruction` is such as `bash_complete` or `bash_source`; the result is the exit code.
    https://click.palletsprojects.com/en/stable/shell-completion has the variables.
    """
    from click.shell_completion import shell_complete

    from aotc.cli.command_group import cli

    try:
        return shell_complete(cli, {}, "aotc", COMPLETE, instruction)
    except (KeyError, ValueError):  # variables of the shell are missing or malformed
        return 1


def main() -> None:
    """Run `aotc` with the arguments of this process."""
    arguments = sys.argv[1:]
    if instruction := os.environ.get(COMPLETE):
        sys.exit(complete(instruction))
    # Read by jaxlib when it is loaded. Its errors reach the user as our findings.
    verbose = "-v" in arguments or "--verbose" in arguments
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1" if verbose else "3")
    stops = Stops()
    stops.note()
    try:
        from aotc.cli.command_group import run_command

        code = run_command(arguments, stops)
    finally:
        stops.restore()
    if os.environ.get("PYTHONINSPECT"):
        # After `sys.exit` Python would ask for more commands, and end with a code of its own.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
