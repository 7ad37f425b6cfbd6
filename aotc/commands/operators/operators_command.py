"""`aotc operators`."""

from __future__ import annotations

import click

from aotc.cli.command_output import Output, command
from aotc_runtime.base.rendering import say

SUFFIXES = {"onnx": ".onnx", "pytorch": ".pt2"}


@click.command()
@click.argument(
    "framework", type=click.Choice(sorted(SUFFIXES)), help="Framework of the model files"
)
@command
def operators(out: Output, framework: str) -> None:
    """List the operators supported in model files.

    Operators of PyTorch have the names of exported programs, such as aten.add.Tensor; in-place
    variants are supported with them.

    \b
    aotc operators pytorch
    """
    import textwrap

    from aotc.commands.operators.operators_worker import Answer, Job
    from aotc.pipeline.user_processes import ask

    found = ask(
        "aotc.commands.operators.operators_worker",
        Job(SUFFIXES[framework]),
        Answer,
        variables={},
        doing="the process that imports the frontend",
    )
    count = sum(map(len, found.families.values()))

    def print_text() -> None:
        for family, names in found.families.items():
            say(f"{family}: {len(names)}")
            say(*textwrap.wrap(" ".join(names), 100, initial_indent="  ", subsequent_indent="  "))
        say(f"{count} operators of {framework}")

    out.result({"framework": framework, "count": count, "operators": found.families}, print_text)
