"""Materials of a build for its provenance: who builds, from which revision, and when."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from aotc.base.errors import refusal
from aotc.bundle.sign.build_provenance import BUILDER_ID, Revision

BUILDER_VARIABLE = "AOTC_BUILDER_ID"
GIT_SECONDS = 20
_URI = re.compile(r"\A[a-z][a-z0-9+.-]*:[!-~]{1,500}\Z")
_COMMIT = re.compile(r"\A[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def builder_id(stated: str | None) -> str:
    """Return the builder's URI: as stated, from the environment, or of a local build.

    Raises UsageError (AOTC-E092) for anything else than a URI.
    """
    found = stated if stated is not None else os.environ.get(BUILDER_VARIABLE, BUILDER_ID)
    if not _URI.match(found):
        raise refusal(
            "AOTC-E092", "--builder-id" if stated is not None else BUILDER_VARIABLE, repr(found)
        )
    return found


def revision_of(folder: Path, made_from: Collection[str]) -> Revision | None:
    """Return the git commit of a folder, and whether the build is dirty.

    It is if a tracked file of the folder is changed, or a file that the build was made from differs
    from the commit. None outside of a repository, without git, or in a repository that git does not
    trust. `made_from` has paths relative to the folder; of files elsewhere, the end of their paths.
    """
    git = shutil.which("git")
    if git is None:
        return None
    commit = _git(git, folder, "rev-parse", "--verify", "HEAD")
    top = _git(git, folder, "rev-parse", "--show-toplevel")
    status = _git(
        git, folder, "status", "--porcelain", "--no-renames", "--untracked-files=all", "-z", ":/"
    )
    if commit is None or top is None or status is None or not _COMMIT.match(commit.strip()):
        return None
    place = folder.resolve()
    wanted = {os.path.normpath(name) for name in made_from}
    for line in filter(None, status.split("\0")):
        state, path = line[:2], Path(top.strip()).resolve() / line[3:]
        is_tracked = state != "??"
        if is_tracked and path.is_relative_to(place):
            return Revision(commit.strip(), dirty=True)
        if os.path.relpath(path, place) in wanted or any(
            path.as_posix().endswith(f"/{name}") for name in wanted if not (place / name).exists()
        ):
            return Revision(commit.strip(), dirty=True)
    return Revision(commit.strip(), dirty=False)


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            # Programs that a repository's own configuration names are not run.
            [git, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=folder,
            env={**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


VARIABLE = "SOURCE_DATE_EPOCH"
"""https://reproducible-builds.org/specs/source-date-epoch: seconds since the epoch."""


def stated_time(environment: Mapping[str, str]) -> datetime | None:
    """Return the time of SOURCE_DATE_EPOCH, UTC; None if the clock decides.

    Raises UsageError (AOTC-E015) if the variable holds anything else than such a time.
    """
    text = environment.get(VARIABLE)
    if text is None:
        return None
    try:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(text)
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise refusal("AOTC-E015", VARIABLE, repr(text)) from error


def time_of_build(stated: datetime | None) -> datetime:
    """Return the stated time, or now; whole seconds, UTC."""
    return stated or datetime.fromtimestamp(int(time.time()), UTC)
