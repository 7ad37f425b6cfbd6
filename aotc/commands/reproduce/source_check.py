"""Checks that a folder holds the files that a bundle was built from, by provenance's digests."""

import glob
import json
import os
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path

from aotc.base.errors import finding, refusal
from aotc.capture import file_digests
from aotc.commands.reproduce.build_recipe import Recipe
from aotc.config.build_manifest import read_build_manifest
from aotc.config.checkpoint_files import files_of
from aotc_runtime.base.errors import Finding

LEADS_OUT = "a path that leads out of the sources, which is not read"
"""Whoever wrote the provenance learns nothing of files that are no sources."""

FOLDERS_MAX = 4
"""How deep below the source folder the build manifest and modules elsewhere are looked for."""


def find_manifest(source: Path, recipe: Recipe) -> Path:
    """Return the file of the recorded name and digest nearest to the top.

    Raises ReproducibilityError (AOTC-E942).
    """
    others: list[Path] = []
    for depth in range(FOLDERS_MAX):
        for path in sorted(source.glob("*/" * depth + glob.escape(recipe.manifest))):
            if _digest(path) == recipe.manifest_digest:
                return path
            others.append(path)
    found = ", ".join(f"{path}, with another digest" for path in others)
    cause = "build-manifest-does-not-match" if others else ""
    expected = f"{recipe.manifest} with {recipe.manifest_digest}"
    hint = _checkout(recipe) or "name the directory it was built in with `--source`"
    raise refusal("AOTC-E942", str(source), found, cause=cause, expected=expected, hint=hint)


def check_files(
    manifest: Path, source: Path, recipe: Recipe, tuning: Path | None
) -> Iterator[Finding]:
    """Check the manifest, and every file that was recorded: AOTC-E942, E943.

    Raises BuildManifestError for the manifest that was recorded.
    """
    hint = _checkout(recipe) or "take the sources that the bundle was built from"
    found = _digest(manifest)
    if found != recipe.manifest_digest:
        cause, wanted = "build-manifest-does-not-match", recipe.manifest_digest
        yield finding("AOTC-E942", str(manifest), found, cause=cause, expected=wanted, hint=hint)
        named: Set[str] = frozenset()
    else:
        read = read_build_manifest(manifest)
        named = {*(f.text for _, each in read.files() for f in files_of(each)), *read.targets}
    for name in recipe.targets:
        path = manifest.parent / name
        if name not in named and not _is_source(path, manifest, source):
            yield _another(path, "a target file", LEADS_OUT, hint=hint)
    below, known = _Below(source), cache(_digest)

    def digest_of(path: Path) -> str:
        """Return a file's digest; it is read once, however many names lead to it."""
        return known(Path(os.path.realpath(path)))

    for name, digest in sorted(recipe.files.items()):
        path = manifest.parent / name
        if name not in named and not os.path.lexists(path):
            path = below.file(name, digest, digest_of) or path
        is_read = name in named or _is_source(path, manifest, source)
        found = digest_of(path) if is_read else LEADS_OUT
        if found != digest:
            here = "name a --source that holds the whole program"
            missing = name not in named and not os.path.lexists(path)
            yield _another(path, digest, found, hint=f"{here}; {hint}" if missing else hint)
    if recipe.tuning and tuning is None:
        yield _another("--tuning", recipe.tuning, "", cause="tuning-file-is-missing")


def read_elsewhere(bill: Path, recipe: Recipe) -> Iterator[Finding]:
    """Yield AOTC-E943 for each recorded file of which the new build read another version.

    The source folder may have the recorded one all the same. `bill` is the new build's bill of
    materials, CycloneDX.
    """
    components = json.loads(bill.read_bytes())["components"]
    for part in components:
        digest = f"sha256:{part['hashes'][0]['content']}" if part["type"] == "file" else ""
        wanted = recipe.files.get(part["name"], digest)
        if digest and digest != wanted:
            yield _another(part["name"], wanted, digest, cause="import-comes-from-another-place")


class _Below:
    """A source folder, looked through once, however many names are not where they should be."""

    def __init__(self, source: Path) -> None:
        self._source = source

    @cached_property
    def _folders(self) -> dict[str, list[Path]]:
        """Return the folders that hold each name, those nearest to the top first."""
        found: dict[str, list[Path]] = {}
        level = [self._source]
        for _ in range(FOLDERS_MAX):
            deeper: list[Path] = []
            for folder in level:
                with suppress(OSError):
                    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names alone
                        found.setdefault(name, []).append(folder)
                        deeper.append(folder / name)
            level = [path for path in deeper if path.is_dir()]
        return found

    def file(self, name: str, digest: str, digest_of: Callable[[Path], str]) -> Path | None:
        """Return a file whose path ends in this name; of several, the one with this digest.

        Modules from outside of the manifest's folder are recorded by their import path.
        """
        parts = Path(name).parts
        if not parts or os.pardir in parts:
            return None
        paths = [folder / name for folder in self._folders.get(parts[0], ())]
        there = [path for path in paths if os.path.lexists(path)]
        alike = (path for path in there if digest_of(path) == digest)
        return next(alike, there[0] if there else None)


def _another(
    where: Path | str, wanted: str, found: str, *, cause: str = "", hint: str | None = None
) -> Finding:
    return finding("AOTC-E943", str(where), found, cause=cause, expected=wanted, hint=hint)


def _is_source(path: Path, manifest: Path, source: Path) -> bool:
    return _lies_in(path, manifest.parent) or _lies_in(path, source)


def _lies_in(path: Path, folder: Path) -> bool:
    """Return whether a path as written is in the folder; its owner's links may lead anywhere."""
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder))  # noqa: PTH100


def _digest(path: Path) -> str:
    """Return the digest of a regular file, else why there is none; never read devices or pipes."""
    try:
        return file_digests.digest_of(path)
    except OSError as error:
        return error.strerror or str(error)


def _checkout(recipe: Recipe) -> str:
    if recipe.revision is None:
        return ""
    dirty = ", with changes that no commit holds" if recipe.revision.dirty else ""
    return f"it was built at git commit {recipe.revision.gitCommit}{dirty}"
