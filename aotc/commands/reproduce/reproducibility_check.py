"""`aotc build --check-reproducible`: a second build beside the first, and what differs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.base.errors import finding, quoted, raise_if
from aotc.base.workers.forked_workers import renew
from aotc.bundle.write.bundle_writer import TargetParts, assemble
from aotc.commands.reproduce.stage_differences import Difference, differences
from aotc.config.tuning_file import Recorded
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base.errors import Finding
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.bundle_examination import read_unverified

SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class BuildAgain:
    """A build to repeat without a cache, in other folders and processes, with other `jobs`."""

    manifest: Path
    targets: Sequence[str]
    jobs: int | None
    tuning: Recorded | None

    def check(self, parts: Sequence[TargetParts]) -> None:
        """Compare what is about to be packed with what a second build makes.

        Raises ReproducibilityError (AOTC-E940), and what a build raises.
        """
        from aotc.pipeline.build import build

        renew()
        with scratch_folder() as folder:
            second = build(
                self.manifest,
                output=folder / "again.aotb",
                targets=self.targets,
                jobs=1 if self.jobs != 1 else 2,
                tuning=self.tuning,
            )
            first = assemble(parts)
            if second.bundle.root_digest == first.root.digest:
                return
            blobs = {digest: memoryview(blob.data) for digest, blob in first.blobs.items()}
            one = Contents(first.root.digest, first.manifests, blobs, {}, ())
            two, _ = read_unverified(open_streamed(second.bundle.path))
            found = differences(one, two)
        raise_if(findings(found, "the first build", "the second"))


def findings(found: Sequence[Difference], first: str, second: str) -> Iterator[Finding]:
    """Yield AOTC-E940 for each difference, in the order of the stages.

    `first` and `second` name the bundles in messages.
    """
    assert found, "root digests differ, so something does"
    for difference in found[:SHOWN_MAX]:
        target = f"{difference.target} " if difference.target else ""
        yield finding(
            "AOTC-E940",
            f"{difference.stage.value}: {target}{difference.what}",
            quoted(f"{difference.second} in {second}", difference.lines),
            expected=f"{difference.first}, as in {first}",
            hint="start with the earliest stage: later differences follow from it",
        )
    more = len(found) - SHOWN_MAX
    if more > 0:
        yield finding(
            "AOTC-E940",
            "further differences",
            f"{more} more",
            hint="find the cause of the first differences",
        )
