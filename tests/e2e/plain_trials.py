"""Trials of padded and split calls in plain JAX, without the executables of a build."""

import io
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aotc.base.errors import ParityError
from aotc.base.workers.worker_child import Progress
from aotc.check.trial_records import plan_file
from aotc.config.build_manifest import read_build_manifest
from aotc.pipeline import user_processes
from aotc.pipeline.cached_tasks import Tasks
from aotc.pipeline.children.reference_worker import work
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc.pipeline.task_pool import Failures, Workers
from aotc.pipeline.user_processes import Source
from aotc_runtime.base.errors import Finding


class PlainTrials:
    """The entry points of a manifest, captured once, whose trials are planned as a build plans
    them. `program.py` and what the manifest names lie in its folder.
    """

    def __init__(self, manifest: Path) -> None:
        self._manifest = read_build_manifest(manifest)
        self._scratch = Scratch(manifest.parent / "scratch")
        self._scratch.folder.mkdir()
        wanted = {name: self._manifest.executables(name) for name in self._manifest.targets}
        self._job = ProgramJob(self._manifest, dict.fromkeys(wanted, "cpu"), wanted)
        with Workers(1) as workers:
            user_processes.capture(
                Source(self._job, self._scratch),
                Tasks(None, {}),
                workers,
                on_captured=lambda captured: None,
                on_stage=lambda stage, done, total: None,
                on_output=lambda process, text: None,
                failures=Failures(keep_going=False),
            )

    def refusal(self, name: str) -> Finding:
        """Return why one entry point is refused, by the worker that runs plain JAX for a build."""
        scratch = Scratch(self._scratch.folder.with_name(f"scratch.{name}"))
        shutil.copytree(self._scratch.folder, scratch.folder)
        program, plans = scratch.program.read(), plan_file(scratch.folder).read()
        alone = {name: program.entry_points[name]}
        scratch.program.write(replace(program, entry_points=alone))
        plan_file(scratch.folder).write(
            {t: [each for each in plan if each.entry_point == name] for t, plan in plans.items()}
        )
        path, others = [*sys.path], sys.modules.pop("program", None)
        try:
            with pytest.raises(ParityError) as caught:
                work(scratch, self._job.encode(), Progress(io.StringIO(), scratch.folder))
        finally:
            sys.path[:] = path
            sys.modules.pop("program", None)
            if others is not None:
                sys.modules["program"] = others
        (finding,) = caught.value.findings
        assert caught.value.exit_code == 8
        return finding
