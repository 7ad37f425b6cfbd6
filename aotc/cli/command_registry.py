"""Every command, and every optional part of a command, by the place of its code.

Nothing else knows the workshops: optional features, each of which is one folder of
`aotc.commands`. To remove a workshop, remove its folder and its lines in this file.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

SECTIONS: dict[str, tuple[str, ...]] = {
    "Build": (
        "aotc.commands.init.init_command:init",
        "aotc.commands.import_tensorflow.import_tensorflow_command:import_tensorflow",
        "aotc.commands.record_expected.record_expected_command:record_expected",
        "aotc.commands.operators.operators_command:operators",
        "aotc.cli.build_command:build",
        "aotc.commands.reproduce.reproduce_command:reproduce",
        "aotc.commands.cache.cache_command:cache",
        "aotc.cli.targets:targets",
    ),
    "Gate and ship": (
        "aotc.cli.verify_command:verify",
        "aotc.commands.compat.compat_command:compat",
        "aotc.commands.certify.certify_command:certify",
        "aotc.commands.merge.merge_command:merge",
        "aotc.commands.extract.extract_command:extract",
        "aotc.commands.registry.push_pull_command:push",
        "aotc.commands.registry.push_pull_command:pull",
        "aotc.commands.registry.store_command:store",
    ),
    "Sign and trust": (
        "aotc.cli.keygen_command:keygen",
        "aotc.cli.sign_command:sign",
        "aotc.commands.attach.attach_command:attach",
        "aotc.cli.trust:trust",
        "aotc.commands.channel.channel_command:channel",
    ),
    "Review": (
        "aotc.cli.inspect_command:inspect",
        "aotc.commands.explain.explain_command:explain",
        "aotc.commands.diff.diff_command:diff",
        "aotc.commands.report_page.report_command:report",
    ),
    "Run and measure": (
        "aotc.cli.run_command:run",
        "aotc.commands.bench.bench_command:bench",
        "aotc.commands.profiles.profiles_command:profiles",
        "aotc.commands.host_info.host_info_command:host_info",
    ),
    "Shell": ("aotc.cli.completion_command:completion",),
}
"""Commands as the help shows them: by what they are for, in the order in which they are needed."""


OPTIONS = {
    "--check-reproducible": "aotc.commands.reproduce.reproducibility_check:BuildAgain",
    "--executor": "aotc.commands.dask.executor_option_service:on_cluster",
    "--remote-cache": "aotc.commands.remote_cache.remote_cache_service:share",
    "--tune": "aotc.commands.tune.tuning_service:Measure",
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
