"""Every command, and every optional part of a command, by the place of its code.

Nothing else knows the workshops: optional features, each of which is one folder of
`aotc.workshops`. To remove a workshop, remove its folder and its lines in this file.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Build": (
        "aotc.workshops.init.command:init",
        "aotc.workshops.tensorflow.command:import_tensorflow",
        "aotc.workshops.recording.command:record_expected",
        "aotc.workshops.operators.command:operators",
        "aotc.cli.build:build",
        "aotc.workshops.reproduce.command:reproduce",
        "aotc.cli.cache:cache",
        "aotc.cli.targets:targets",
    ),
    "Gate and ship": (
        "aotc.cli.verify:verify",
        "aotc.workshops.compat.command:compat",
        "aotc.workshops.certify.command:certify",
        "aotc.workshops.merge.command:merge",
        "aotc.workshops.extract.command:extract",
        "aotc.workshops.registries.commands:push",
        "aotc.workshops.registries.commands:pull",
        "aotc.workshops.registries.store_commands:store",
    ),
    "Sign and trust": (
        "aotc.cli.keygen:keygen",
        "aotc.cli.sign:sign",
        "aotc.workshops.attest.command:attest",
        "aotc.workshops.attest.attach_command:attach",
        "aotc.cli.trust:trust",
        "aotc.workshops.channel.command:channel",
    ),
    "Review": (
        "aotc.cli.inspect:inspect",
        "aotc.workshops.explain.command:explain",
        "aotc.workshops.diff.command:diff",
        "aotc.workshops.page.command:report",
    ),
    "Run and measure": (
        "aotc.cli.run:run",
        "aotc.workshops.bench.command:bench",
        "aotc.workshops.suggest.command:profiles",
        "aotc.cli.host_info:host_info",
    ),
    "Shell": ("aotc.cli.completion:completion",),
}
"""Commands as the help shows them: by what they are for, in the order in which they are needed."""


OPTIONS = {
    "--check-reproducible": "aotc.workshops.reproduce.build_again:BuildAgain",
    "--executor": "aotc.workshops.dask.places:on_cluster",
    "--openssf": "aotc.workshops.attest.model_signature:require_model_signature",
    "--remote-cache": "aotc.workshops.remote.sharing:share",
    "--tune": "aotc.workshops.tune.measure:Measure",
}
"""Options of the main line's commands that workshops serve, by the place of what serves them."""


def optional(option: str) -> Any:
    """Import what serves an option. Raises click.UsageError if its workshop was removed."""
    if option not in OPTIONS:
        raise click.UsageError(f"{option} is not in this installation of aotc")
    return load(OPTIONS[option])


def load(place: str) -> Any:
    """Import what stands at a place, `package.module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def name_of(place: str) -> str:
    """What the command at a place is called: as its function, which is what click calls it."""
    return place.partition(":")[2].replace("_", "-")
