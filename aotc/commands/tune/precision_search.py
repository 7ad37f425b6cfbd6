"""`--tune` with several precisions: the fastest that keeps to the limits of the evaluation.

1. Accuracy control: a process selects the weights that each precision keeps as they are.
2. A trial build of each precision, with the best variants and engines for it.
3. All trial bundles are called in turns, and the first of the list stays unless another saves the
   margin.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from aotc.base.child_processes import Processes
from aotc.base.errors import BudgetExceededError, refusal
from aotc.base.workers import worker_environment, worker_parent
from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc.bundle.write.bundle_writer import Form
from aotc.commands.tune.precision_worker import Job
from aotc.commands.tune.tuning_choice import choose, summarize
from aotc.commands.tune.tuning_evidence import evidence
from aotc.commands.tune.tuning_messages import Controlled, outcome_file
from aotc.config.build_manifest import BuildManifest
from aotc.config.precision_specs import FLOAT32, ChosenPrecision
from aotc.pipeline import user_processes
from aotc.pipeline.build import build, resolve
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.build_stages import open_run, source_of
from aotc.pipeline.cached_tasks import Kind
from aotc.pipeline.scratch_folder import scratch_folder
from aotc.pipeline.user_processes import Child

CONTROL = Child(
    Kind.EVALUATION,
    "aotc.commands.tune.accuracy_control",
    "AOTC-E836",
    "plain JAX on the evaluation data",
)
WORKER = worker_parent.module("aotc.commands.tune.precision_worker")
SECONDS_MAX = 600.0

type Choices = dict[str, ChosenPrecision]
"""A precision for each entry point."""


def choose_precisions(manifest: BuildManifest, options: BuildOptions) -> Choices:
    """Return the precision of each entry point whose evaluation has limits.

    Raises BudgetExceededError (AOTC-E975) if no precision keeps to them, and errors of builds.
    """
    searches = {
        name: _Search(name, manifest)
        for name, spec in manifest.entry_points.items()
        if {*spec.precision} - {FLOAT32} and spec.evaluation and spec.evaluation.has_limits
    }
    places = max((len(each.names) for each in searches.values()), default=0)
    for place in range(places):
        asked = {name: each.at(place) for name, each in searches.items()}
        for name, outcome in _control(replace(manifest, chosen=asked), options).items():
            if name in searches:
                searches[name].control(asked[name].precision, outcome)
    if places > 1:
        with scratch_folder() as folder:
            _measure(searches, manifest, options, folder)
    return {name: each.chosen() for name, each in searches.items()}


class _Search:
    """The search for one entry point: what is known of each of its precisions."""

    def __init__(self, name: str, manifest: BuildManifest) -> None:
        self._name, self._manifest = name, manifest
        self.names = manifest.entry_points[name].precision
        self._keep: dict[str, tuple[str, ...]] = {}
        self.rounds: dict[str, list[float]] = {}
        self.reasons: dict[str, str] = {}

    def is_possible(self, place: int) -> bool:
        """Return whether the list has a precision at a place that may be taken."""
        return place < len(self.names) and self.names[place] not in self.reasons

    def at(self, place: int) -> ChosenPrecision:
        """Return the precision at a place of the list, and the weights that it keeps.

        Past the end, and for one that keeps to no limits, it is float32.
        """
        name = self.names[place] if self.is_possible(place) else FLOAT32
        return ChosenPrecision(name, self._keep.get(name, ()))

    def control(self, precision: str, outcome: Controlled) -> None:
        """Note the outcome of the accuracy control."""
        if outcome.keep is None:
            value, reference = f"{outcome.value:.6g}", f"{outcome.reference:.6g}"
            found = f"{outcome.metric} {value} with one weight quantized, {reference} with none"
            self.reasons[precision] = found
        else:
            self._keep[precision] = outcome.keep

    def chosen(self) -> ChosenPrecision:
        """Return the fastest precision, the first by default.

        Raises BudgetExceededError (AOTC-E975).
        """
        possible = [name for name in self.names if name not in self.reasons]
        if not possible:
            where = self._manifest.where("entry_points", self._name, "precision")
            found = "; ".join(f"{name}: {why}" for name, why in self.reasons.items())
            cause = "no-precision-keeps-to-the-limits"
            raise refusal("AOTC-E975", where, found, cause=cause)
        rounds = {name: self.rounds[name] for name in possible if name in self.rounds}
        if not rounds:
            return ChosenPrecision(possible[0], self._keep.get(possible[0], ()))
        base = next(iter(rounds))
        measured = summarize(rounds, base)
        best = choose(measured, base)
        tried = tuple(evidence(self.names, measured, self.reasons))
        return ChosenPrecision(best, self._keep.get(best, ()), tried)


def _control(manifest: BuildManifest, options: BuildOptions) -> dict[str, Controlled]:
    """Capture the program with the chosen precisions, and control their accuracy."""
    request = resolve(manifest, replace(options, keep_going=False))
    with open_run(request, options) as run:
        source, on_output = source_of(run), options.on_output
        user_processes.capture(
            source, run.tasks, run.workers, _ignore, run.on_stage, on_output, run.failures
        )
        run.on_stage("tune", 0, 0)
        source.execute(CONTROL, {}, run.workers, on_output, _ignore)
        return outcome_file(run.scratch.folder).read()


def _ignore(_: object) -> None:
    pass


def _measure(
    searches: Mapping[str, _Search], manifest: BuildManifest, options: BuildOptions, folder: Path
) -> None:
    """Build a bundle for each place of the lists, and call all bundles in turns."""
    signer, policy = LocalSigner.ephemeral(), folder / "trust.toml"
    trial = replace(
        options,
        form=Form.ARCHIVE,
        signer=signer,
        keep_going=False,
        save_tuning=None,
        sbom=None,
        before_packing=None,
    )
    bundles: dict[int, Path] = {}
    for place in range(max(len(each.names) for each in searches.values())):
        waiting = [each for each in searches.values() if each.is_possible(place)]
        asked = {name: each.at(place) for name, each in searches.items()}
        if not waiting:
            continue
        try:
            output = folder / f"{place}.aotb"
            build(manifest.path, output, replace(trial, precisions=asked))
            bundles[place] = output
        except BudgetExceededError as error:
            finding = error.findings[0]
            for each in waiting:
                each.reasons[each.names[place]] = f"{finding.code}: {finding.found}"
    policy.write_text(policy_text(manifest.name, [signer.public_pem()]), "utf-8")
    for name, search in searches.items():
        own = {
            precision: str(bundles[place])
            for place, precision in enumerate(search.names)
            if place in bundles and precision not in search.reasons
        }
        if len(own) > 1:
            search.rounds = worker_parent.run(
                WORKER,
                Job(own, str(policy), name),
                dict[str, list[float]],
                within=folder,
                environment=worker_environment.clean({}),
                processes=Processes(),
                seconds=SECONDS_MAX,
            )
