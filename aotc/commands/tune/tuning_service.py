"""Tuners that measure on this host: `aotc build --tune`, and `tune = "auto"` of a manifest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from aotc.base.errors import CompileError, UsageError
from aotc.commands.tune.precision_search import choose_precisions
from aotc.commands.tune.tuning_messages import Effort
from aotc.commands.tune.tuning_search import search
from aotc.commands.tune.tuning_variants import cannot_run, why_unsuited
from aotc.config import tuning_file
from aotc.config.build_manifest import BuildManifest
from aotc.config.precision_specs import ChosenPrecision
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import Best, BuildOptions
from aotc_runtime.schema.bundle_manifest import Target

PART = 0.3
"""The part of a build's time that `tune = "auto"` measures."""

ROUNDS, STARTS = 5, 1

OTHER_SOURCES = "AOTC-E031"


class Brief:
    """Compiles the default of each engine, and measures these for a part of the build's time."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.untuned_targets = _reasons

    def precisions(
        self, manifest: BuildManifest, options: BuildOptions
    ) -> dict[str, ChosenPrecision]:
        """Return the precisions of entry points that list several."""
        several = any(len(spec.precision) > 1 for spec in manifest.entry_points.values())
        return choose_precisions(manifest, options) if several else {}

    @property
    def search(self) -> Callable[..., Best]:
        """A search as `Tuner.search`, whose time depends on that of the build so far."""
        seconds = (time.monotonic() - self._started) * PART / (1 - PART)
        return partial(
            search, effort=Effort(variants=False, rounds=ROUNDS, seconds=seconds, starts=STARTS)
        )


class Measure:
    """Compiles every candidate, measures them on this host, and takes the best."""

    search = staticmethod(search)
    precisions = staticmethod(choose_precisions)
    brief = Brief

    @staticmethod
    def automatic(manifest: Path, output: Path | None, options: BuildOptions) -> Built:
        """Build with the choices in the file beside a manifest, or measure briefly and write it."""
        file = manifest.with_suffix(".tuning.json")
        note = f"measured briefly; {file} has the choices and repeats them"
        if file.exists():
            recorded = tuning_file.read(file)
            try:
                if recorded.file.executables:
                    return build(manifest, output, replace(options, tuning=recorded))
            except UsageError as error:
                if error.code != OTHER_SOURCES:
                    raise
                found = error.findings[0]
                note += f", in place of those for {found.found}"
        measuring = replace(options, tuning=Brief(), save_tuning=file)
        built = build(manifest, output, measuring)
        return replace(built, notes=(*built.notes, note))

    def untuned_targets(self, targets: Sequence[Target]) -> dict[str, str]:
        """Return the targets that this host cannot run, and why.

        Raises CompileError (AOTC-E911) if it can run none of them.
        """
        reasons = _reasons(targets)
        if len(reasons) == len(targets):
            raise CompileError(*(cannot_run(name, reason) for name, reason in reasons.items()))
        return reasons


def _reasons(targets: Sequence[Target]) -> dict[str, str]:
    """Return the targets that this host cannot run, and why."""
    from aotc.compile.xla.native_target import describe_native

    host = describe_native()
    return {each.name: reason for each in targets if (reason := why_unsuited(each, host))}
