"""`aotc reproduce`: build a bundle again from its sources, and compare."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from aotc.base.child_processes import Processes, describe_status
from aotc.base.constants import EVERYTHING
from aotc.base.errors import finding, quote, raise_if, refusal
from aotc.base.workers import worker_environment
from aotc.commands.reproduce.build_recipe import Recipe, read_recipe
from aotc.commands.reproduce.reproducibility_check import differences, findings
from aotc.commands.reproduce.source_check import check_files, find_manifest, read_elsewhere
from aotc.config import tuning_file
from aotc.pipeline import code_identity
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.bundle_examination import read_unverified

RUN = (
    "from aotc.base.workers.worker_child import end_with_parent; end_with_parent(); "
    "import runpy; runpy.run_module('aotc.cli.main', run_name='__main__', alter_sys=True)"
)
"""Python code that runs `aotc.cli.main` and ends when the process that started it does."""

LINES_SHOWN = 15

type OnStage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A bundle that was rebuilt from the build manifest `manifest`, with the same root digest.

    `notes` are differences without effect.
    """

    name: str
    version: str
    root_digest: str
    targets: tuple[str, ...]
    recipe: Recipe
    manifest: Path
    notes: tuple[str, ...]


def reproduce(
    path: Path,
    source: Path,
    *,
    policy: TrustPolicy | None = None,
    manifest: Path | None = None,
    tuning: Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Reproduced:
    """Build what a bundle's provenance describes, in a clean process without a cache, and compare.

    source: the folder with the sources.  policy: must accept the bundle, except for its rules on
    the host; without one, anybody's provenance counts.
    manifest: the build manifest, looked for by its digest by default.  tuning: the tuning file of a
    tuned build.
    Raises ReproducibilityError: AOTC-E940 something differs, E941 no provenance of a build, E942 no
    such build manifest, E943 other files, E944 other packages, E945 provenance that names what no
    build records, E946 other variables, if something differs; what a build raises; what the policy
    refuses; UsageError: AOTC-E030 what is no tuning file.
    """
    if tuning:
        tuning_file.read(tuning)
    on_stage("reading the bundle")
    read, recipe = read_recipe(path, policy)
    found = manifest or find_manifest(source, recipe)
    raise_if(check_files(found, source, recipe, tuning))
    raise_if(_changed_packages(recipe))
    other = (*_other_variables(recipe.variables), *_other_code(recipe))
    with scratch_folder() as scratch:
        on_stage("building it again")
        again, bill = scratch / "again.aotb", scratch / "again.cdx.json"
        arguments = ["--tuning", str(tuning.absolute())] if tuning else []
        arguments += [f"--target={target}" for target in recipe.targets]
        arguments += _card_option(read.contents, recipe, found)
        arguments += ["-o", str(again), "--sbom", str(bill)]
        try:
            _build(["build", str(found.absolute()), *arguments], scratch)
        except AotcError as error:
            raise_if([*error.findings, *other])
        raise_if(read_elsewhere(bill, recipe))
        built, _ = read_unverified(open_streamed(again))
        if built.root_digest != read.root_digest:
            on_stage("comparing")
            asked = read.contents.manifests
            present = {name: made for name, made in built.manifests.items() if name in asked}
            second = msgspec.structs.replace(built, manifests=present)
            different = differences(read.contents, second)
            told = [*other, *_other_values(recipe.variables)]
            raise_if([*told, *findings(different, str(path), "the new build")])
    return Reproduced(
        name=read.name,
        version=read.version,
        root_digest=read.root_digest,
        targets=tuple(read.contents.manifests),
        recipe=recipe,
        manifest=found,
        notes=tuple(_notes(recipe, policy, other)),
    )


def _card_option(contents: Contents, recipe: Recipe, manifest: Path) -> list[str]:
    """Return the option that named the bundle's card; it names again one of the manifest."""
    card = (next(iter(contents.manifests.values())).assets or {}).get("card")
    known = card.files if card and card.kind == "file" else {}
    named = ((name, digest, known.get(Path(name).name)) for name, digest in recipe.files.items())
    paths = [manifest.absolute().parent / name for name, d, ref in named if ref and ref.digest == d]
    return [f"--card={path}" for path in paths[:1]]


def _other_code(recipe: Recipe) -> Iterator[Finding]:
    """Yield AOTC-E944 for each package of aotc with the recorded version and other code.

    That need not make a difference.
    """
    for name, here in code_identity.code_digests().items():
        wanted = recipe.code.get(name, here)
        if here != wanted:
            where, cause = f"code of {name} {version(name)}", "aotc-code-does-not-match"
            hint = f"run `aotc reproduce` with the {name} that built the bundle"
            yield finding("AOTC-E944", where, here, cause=cause, expected=wanted, hint=hint)


def _other_variables(variables: Mapping[str, bool]) -> Iterator[Finding]:
    """Yield AOTC-E946 for each recorded variable that is set in one of the builds only.

    That need not make a difference.
    """
    here = worker_environment.clean({})
    for name, was_set in variables.items():
        if name != EVERYTHING and was_set != (name in here):
            expected, found, hint = "not set", "set", f"run `env -u {name} aotc reproduce …`"
            if was_set:
                expected, found = found, expected
                hint = f"set {name} as in the recorded build; provenance holds no values"
            yield finding("AOTC-E946", f"variable {name}", found, expected=expected, hint=hint)


def _other_values(variables: Mapping[str, bool]) -> Iterator[Finding]:
    """Yield AOTC-E946 for the variables that are set in both builds, perhaps to other values."""
    here = worker_environment.clean({})
    shared = [name for name, was_set in variables.items() if was_set and name in here]
    if EVERYTHING in variables:
        shared.append("all others, which the program read")
    if shared:
        cause = "environment-variable-may-differ"
        yield finding("AOTC-E946", "variables", ", ".join(shared), cause=cause)


def _changed_packages(recipe: Recipe) -> Iterator[Finding]:
    """Yield AOTC-E944 for each package with another version here, the last with the remedy."""
    changed: dict[str, str] = {}
    for name, wanted in recipe.packages.items():
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "none"
        if here != wanted:
            changed[name] = here
    pinned = " ".join(f"{name}=={recipe.packages[name]}" for name in changed)
    for place, (name, here) in enumerate(changed.items(), 1):
        hint = f"run `pip install {pinned}`" if place == len(changed) else ""
        expected = recipe.packages[name]
        yield finding("AOTC-E944", f"package {name}", here, expected=expected, hint=hint)


def _build(command: list[str], scratch: Path) -> None:
    """Run a build to its end, and raise its findings here.

    Its temporary files lie in the scratch folder, and are removed even if the build is killed.
    """
    kept = worker_environment.inherit(without=("AOTC_",))
    with Processes().start(
        [sys.executable, "-P", "-c", RUN, *command, "--json", "--cache", "off"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)},
        encoding="utf-8",
        errors="replace",
    ) as process:
        said, errors = process.communicate()
    if process.returncode == 0:
        return
    try:
        document = json.loads(said)
        raise_if(Finding(**each) for each in document["findings"])
    except (ValueError, KeyError, TypeError):
        pass
    lines = (errors.strip() or said.strip()).splitlines()[-LINES_SHOWN:]
    found = quote(describe_status(process.returncode), lines)
    raise refusal("AOTC-E940", "the build", found, cause="rebuild-failed")


def _notes(recipe: Recipe, policy: TrustPolicy | None, other: Sequence[Finding]) -> Iterator[str]:
    if policy is None:
        yield "the signers of the provenance were not verified; pass --trust"
    here = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"
    if recipe.python and recipe.python.lower() != here.lower():
        yield f"built by {recipe.python}, and again by {here}"
    for each in other:
        sides = " instead of ".join(filter(None, (each.found, each.expected)))
        yield f"{each.where}: {each.title} ({sides}); it made no difference"
    if recipe.revision and recipe.revision.dirty:
        yield f"git commit {recipe.revision.gitCommit} alone is not the source: the build was dirty"
