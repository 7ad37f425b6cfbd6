"""What all commands share: `--json`, `-v`, and how results and errors reach the user."""

from __future__ import annotations

import functools
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from aotc_runtime.errors import AotcError, Finding, render

QUIET_LOG_LEVEL = "3"
"""jaxlib prints nothing; what its errors say reaches the user through our own findings."""


@dataclass(frozen=True, slots=True)
class Output:
    """How this command talks. json: one JSON document on stdout instead of text."""

    json: bool
    verbose: bool

    def result(self, document: dict[str, Any], text: Callable[[], None]) -> None:
        """Print the result: the document, or what `text` prints."""
        if self.json:
            self.document({"ok": True, **document})
        else:
            text()

    def document(self, document: dict[str, Any]) -> None:
        encoded = msgspec.json.encode(_encodable(document))
        sys.stdout.write(msgspec.json.format(encoded).decode() + "\n")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _encodable(value: Any) -> Any:
    """A document without surrogates, which paths that are no UTF-8 hold and JSON cannot."""
    match value:
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case str() if _SURROGATE.search(value):
            return value.encode(errors="backslashreplace").decode()
        case _:
            return value


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Give a command `--json` and `-v`, an `Output` as first argument, and an exit code."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
    @click.option("-v", "--verbose", is_flag=True, help="Add detail; tracebacks for errors.")
    @functools.wraps(function)
    def wrapper(*args: Any, as_json: bool, verbose: bool, **kwargs: Any) -> None:
        output = Output(as_json, verbose)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1" if verbose else QUIET_LOG_LEVEL)
        try:
            code = function(output, *args, **kwargs)
        except AotcError as error:
            code = fail(output, error)
        if code:
            raise click.exceptions.Exit(code)

    return wrapper


def fail(output: Output, error: AotcError) -> int:
    """Report an error; its exit code."""
    if output.verbose:
        traceback.print_exception(error)
    report_findings(output, error.findings, error.exit_code)
    return error.exit_code


def report_findings(
    output: Output, findings: tuple[Finding, ...], exit_code: int, **extra: Any
) -> None:
    """Findings on stderr, or as a JSON document on stdout."""
    if output.json:
        listed = [finding.to_json() for finding in findings]
        output.document({"ok": False, "exit_code": exit_code, **extra, "findings": listed})
    else:
        sys.stderr.write(render(findings) + "\n")
