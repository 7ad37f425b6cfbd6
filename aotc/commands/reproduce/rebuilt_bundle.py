"""`aotc reproduce`: build a bundle again from its sources, and compare."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from shutil import copytree, ignore_patterns

import msgspec

import aotc
import aotc_runtime
import aotc_serve
from aotc.base.child_processes import Processes, describe_status
from aotc.base.constants import EVERYTHING
from aotc.base.errors import finding, quoted, raise_if, refusal
from aotc.base.package_install import install_packages
from aotc.base.workers import worker_environment
from aotc.capture.installed_packages import normalized
from aotc.commands.reproduce.build_recipe import Recipe, read_recipe
from aotc.commands.reproduce.reproducibility_check import differences, findings
from aotc.commands.reproduce.source_check import check_files, find_manifest, read_elsewhere
from aotc.compile.target_files import builtin_folder
from aotc.config import tuning_file
from aotc.pipeline import code_identity
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import read_unverified


@contextmanager
def toolchain_copy() -> Iterator[Path]:
    """Yield a folder with both packages, the built-in targets, and the metadata of backends."""
    with tempfile.TemporaryDirectory(prefix="aotc-toolchain-") as name:
        folder = Path(name)
        for package in (aotc, aotc_runtime, aotc_serve):
            (source,) = package.__path__
            ignored = ignore_patterns("__pycache__")
            copytree(source, folder / package.__name__, ignore=ignored, dirs_exist_ok=True)
        packaged = folder / aotc.__name__ / "targets"
        copytree(builtin_folder(), packaged, dirs_exist_ok=True)
        for project in ("aotc", "aotc-runtime", "aotc-serve"):
            found = distribution(project)
            metadata = folder / f"{project.replace('-', '_')}-{found.version}.dist-info"
            metadata.mkdir()
            for file in ("METADATA", "entry_points.txt"):
                if text := found.read_text(file):
                    (metadata / file).write_text(text, "utf-8")
        yield folder


OURS = ("aotc", "aotc-runtime")
RUN = (
    "from aotc.base.workers.worker_child import end_with_parent; end_with_parent(); "
    "import runpy; runpy.run_module('aotc.cli.main', run_name='__main__', alter_sys=True)"
)
"""Python code that runs `aotc.cli.main` and ends when the process that started it does."""

LINES_SHOWN = 15

type OnStage = Callable[[str], None]


class Install(Enum):
    """Packages that may be installed where other versions are here.

    TRUSTED means those of a bundle that a policy accepts, UNTRUSTED those of any provenance.
    """

    NOTHING = "nothing"
    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A bundle that was rebuilt from the build manifest `manifest`, with the same root digest.

    `installed` is whether an environment was made for it; `notes` are differences without effect.
    """

    name: str
    version: str
    root_digest: str
    targets: tuple[str, ...]
    recipe: Recipe
    manifest: Path
    installed: bool
    notes: tuple[str, ...]


def reproduce(
    path: Path,
    source: Path,
    *,
    policy: TrustPolicy | None = None,
    manifest: Path | None = None,
    tuning: Path | None = None,
    install: Install = Install.NOTHING,
    on_stage: OnStage = lambda stage: None,
) -> Reproduced:
    """Build what a bundle's provenance describes, in a clean process without a cache, and compare.

    source: the folder with the sources.  policy: must accept the bundle, except for its rules on
    the host; without one, anybody's provenance counts.
    manifest: the build manifest, looked for by its digest by default.  tuning: the tuning file of a
    tuned build.  install: where versions of packages differ from those of the build, whether to
    make an environment that has them.
    Raises ReproducibilityError: AOTC-E940 something differs, E941 no provenance of a build, E942 no
    such build manifest, E943 other files, E944 other packages, E945 provenance that names what no
    build records, E946 other variables, if something differs; what a build raises; what the policy
    refuses; UsageError: AOTC-E030 what is no tuning file, E066 `Install.TRUSTED` without a policy;
    ResourceError (AOTC-E557 to E559) for an environment that cannot be had.

    Unsafety: whoever wrote the provenance says what is installed, and the build imports it. With
    `Install.UNTRUSTED` the caller vouches for that.
    """
    if install is Install.TRUSTED and policy is None:
        raise refusal("AOTC-E066", f"{path} --install", "")
    if tuning:
        tuning_file.read(tuning)
    on_stage("reading the bundle")
    read, recipe = read_recipe(path, policy)
    found = manifest or find_manifest(source, recipe)
    raise_if(check_files(found, source, recipe, tuning))
    changed = _changed_packages(recipe.packages)
    if changed and (install is Install.NOTHING or any(name in OURS for name in changed)):
        raise_if(_check_packages(changed, recipe))
    other = (*_other_variables(recipe.variables), *_other_code(recipe))
    processes = Processes()
    with scratch_folder() as scratch, _interpreter(recipe, changed, processes, on_stage) as python:
        on_stage("building it again")
        again, bill = scratch / "again.aotb", scratch / "again.cdx.json"
        arguments = ["--tuning", str(tuning.absolute())] if tuning else []
        arguments += [f"--target={target}" for target in recipe.targets]
        arguments += ["-o", str(again), "--sbom", str(bill)]
        try:
            _build([*python, "build", str(found.absolute()), *arguments], scratch, processes)
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
        installed=bool(changed),
        notes=tuple(_notes(recipe, policy, other)),
    )


def _changed_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """Return packages whose installed version is another one, to that version or "none"."""
    found: dict[str, str] = {}
    for name, wanted in packages.items():
        try:
            here = version(name)
        except PackageNotFoundError:
            here = "none"
        if here != wanted:
            found[name] = here
    return found


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


def _check_packages(changed: Mapping[str, str], recipe: Recipe) -> Iterator[Finding]:
    for name, here in changed.items():
        ours = name in OURS
        where = f"package {name}"
        hint = f"run `aotc reproduce` with {name} {recipe.packages[name]}" if ours else None
        yield finding("AOTC-E944", where, here, expected=recipe.packages[name], hint=hint)


@contextmanager
def _interpreter(
    recipe: Recipe, changed: Mapping[str, str], processes: Processes, on_stage: OnStage
) -> Iterator[list[str]]:
    """Yield a command that runs aotc with the recorded packages.

    It is this interpreter if it has them, else that of an environment made for it.
    """
    if not changed:
        yield [sys.executable, "-P", "-c", RUN]
        return
    on_stage("installing the recorded packages")
    pinned = {name: f"{name}=={it}" for name, it in recipe.packages.items() if name not in OURS}
    wanted = [*pinned.values(), *_other_requirements({*pinned, *OURS})]
    with scratch_folder() as folder, toolchain_copy() as copy:
        install_packages(folder / "environment", wanted, "the recorded packages", processes)
        python = str(folder / "environment" / "bin" / "python")
        # The program may lie in folders that the variable names.
        path = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")]))
        yield ["env", f"PYTHONPATH={path}", python, "-P", "-c", RUN]


def _other_requirements(known: Collection[str]) -> Iterator[str]:
    """Yield requirements of the toolchain that are not among the recorded packages."""
    for project in OURS:
        for text in requires(project) or ():
            name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
            if "extra ==" not in text and normalized(name) not in known:
                yield text


def _build(command: list[str], scratch: Path, processes: Processes) -> None:
    """Run a build to its end, and raise its findings here.

    Its temporary files lie in the scratch folder, and are removed even if the build is killed.
    """
    kept = worker_environment.inherited(without=("AOTC_",))
    with processes.started(
        [*command, "--json", "--cache", "off"],
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
    found = quoted(describe_status(process.returncode), lines)
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
