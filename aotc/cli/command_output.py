"""Output of all commands: `--json`, `-v`, results and errors."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from aotc.cli.stop_signals import Stops
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.base.rendering import document_text, refusal, render, say, warn, warn_of

XLA_VARIABLES = ("TF_XLA_FLAGS", "XLA_FLAGS")
"""Read by XLA when it starts; an option that it does not know ends the process."""


def _path_type(name: str) -> click.Path:
    made = click.Path(path_type=Path)
    made.name = name  # in upper case, the placeholder of an option's value
    return made


FILE = _path_type("file")
"""The type of an option or argument that takes a file's path."""

DIR = _path_type("dir")
"""The type of an option or argument that takes a directory's path."""

type Findings = tuple[Finding, ...]

HELP_OPTION = click.help_option("-h", "--help", help="Show this message and exit")


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a command: text, or one JSON document on stdout.

    `stops` are the signals to stop. They are ignored once a document is written, since a signal
    after that would ask for a second one.
    """

    json: bool
    verbose: bool
    stops: Stops

    def result(self, document: dict[str, Any], text: Callable[[], None]) -> None:
        """Print the result: the document, or what `text` prints."""
        if self.json:
            self.document({"ok": True, **document})
        else:
            text()

    def result_and_notes(
        self, document: dict[str, Any], lines: Iterable[str], notes: Sequence[str]
    ) -> None:
        """Print the result with notes, the text of which is on stderr."""
        if self.json:
            self.document({"ok": True, **document, "notes": [*notes]})
        else:
            say(*lines)
            print_notes(notes)

    def verdict(
        self, document: dict[str, Any], lines: Iterable[str], findings: Findings, exit_code: int
    ) -> int:
        """Print the result, and the findings if what it is about does not pass; return the code."""
        if not self.json:
            say(*lines)
        if findings:
            return report_findings(self, findings, exit_code, **document)
        if self.json:
            self.document({"ok": True, **document, "findings": []})
        return 0

    def document(self, document: dict[str, Any]) -> None:
        """Print a JSON document, the only one of this command."""
        text = document_text(document)
        self.stops.ignore()
        sys.stdout.write(text)


def requested_output(arguments: Sequence[str], stops: Stops) -> Output:
    """Return the output options of a command line, even of one that cannot be parsed."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    verbose = "-v" in options or "--verbose" in options
    return Output(json="--json" in options, verbose=verbose, stops=stops)


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Add `--json`, `-v` and `--help` to a command.

    It gets an `Output` as first argument, and returns an exit code.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON")
    @click.option(
        "-v", "--verbose", is_flag=True, help="Show more detail, and tracebacks of errors"
    )
    @HELP_OPTION
    @functools.wraps(function)
    def wrapper(*args: Any, as_json: bool, verbose: bool, **kwargs: Any) -> None:
        output = Output(as_json, verbose, click.get_current_context().ensure_object(Stops))
        if dropped := [name for name in XLA_VARIABLES if os.environ.pop(name, None) is not None]:
            note_ignored(dropped)
        _require_values(kwargs)
        try:
            code = function(output, *args, **kwargs)
        except AotcError as error:
            code = fail(output, error)
        if code:
            raise click.exceptions.Exit(code)

    return wrapper


def _require_values(given: Mapping[str, Any]) -> None:
    """Reject empty values, such as that of a shell variable which is not set.

    With the default instead, `--key ""` would give an unsigned bundle. Raises click.UsageError.
    """
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        values = given[name] if isinstance(given.get(name), tuple) else (given.get(name),)
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and is_given and "" in values:
            raise click.UsageError(
                f"{option.opts[-1]} with an empty value; leave it out, or name one"
            )


def note_ignored(variables: Sequence[str]) -> None:
    """Say that these environment variables have no effect."""
    names = ", ".join(variables)
    warn(f"note: {names} ignored; compiler options belong in target files")


def fail(output: Output, error: AotcError) -> int:
    """Report an error, with `-v` also the exception behind it. Return its exit code."""
    if output.verbose and error.__cause__ is not None:
        warn_of(error)
    return report_findings(output, error.findings, error.exit_code)


def report_findings(output: Output, findings: Findings, exit_code: int, **extra: Any) -> int:
    """Print findings on stderr, or as a JSON document on stdout; return the exit code."""
    if output.json:
        output.document(refusal(findings, exit_code, extra))
    else:
        sys.stderr.write(render(findings) + "\n")
    return exit_code


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr.

    They quote untrusted names, which must neither control the terminal nor imitate notes.
    """
    warn(*(f"note: {note}" for note in notes))
