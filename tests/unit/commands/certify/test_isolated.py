"""Tests of the results of a certification run: passed, different, rejected, crashed, timed out."""

import ast
import sys
from pathlib import Path

import pytest
from hostile.tampering import Documents, swap_layer

from aotc.base.child_processes import Processes
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.certify import certify_worker
from aotc.commands.certify.certify_process import Job, Trial, run
from aotc_runtime.schema.certified_releases import Release
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from aotc_runtime.verification.policy_reader import read_policy

from .conftest import ELSEWHERE, Made


def tried(
    bundle: Path,
    policy: TrustPolicy,
    jaxlib: str,
    python: Path = Path(sys.executable),
    seconds: float = 300,
    **change: str,
) -> tuple[Trial, list[int]]:
    contents, _ = read_unverified(open_bundle(bundle))
    (target,) = contents.manifests
    root = change.get("root", contents.root_digest)
    job = Job(str(bundle), policy, target, "jaxlib", ELSEWHERE, root, 3, {"xla": ()})
    counts: list[int] = []
    release = Release("jaxlib", jaxlib)
    made = run(python, bundle.parent, release, job, seconds, counts.append, Processes())
    return made, counts


def test_every_fixture_runs_and_is_counted(built_elsewhere: Made, running_jaxlib: str) -> None:
    bundle, policy = built_elsewhere()
    trial, counts = tried(bundle, read_policy(policy), running_jaxlib)
    assert (trial.outcome, trial.detail, trial.release.version) == ("passed", "", running_jaxlib)
    assert [run.label for run in trial.fixtures] == [
        "predict[batch=1]", "predict[batch=8]", "predict[batch=64]",
    ]  # fmt: skip
    assert counts[-1] == 3 and counts == sorted(counts)
    assert trial.surroundings is not None and trial.surroundings.cpu


def test_bundle_refused_there_is_no_result(built_elsewhere: Made, running_jaxlib: str) -> None:
    bundle, _ = built_elsewhere()
    stranger = TrustedKey(public_key=LocalSigner.ephemeral().public_pem())
    trial, _ = tried(bundle, TrustPolicy(schema=1, name="*", keys=(stranger,)), running_jaxlib)
    assert (trial.outcome, trial.fixtures) == ("", ())
    assert [finding.code for finding in trial.findings] == ["AOTC-E302"]


def broken(documents: Documents) -> None:
    """An executable that XLA does not load."""
    swap_layer(documents, documents.profile["executable"]["digest"], b"no executable")
    for layer in documents.image["layers"]:
        layer["size"] = len(documents.layers[layer["digest"]])


def test_what_xla_refuses_is_a_result(built_elsewhere: Made, running_jaxlib: str) -> None:
    bundle, policy = built_elsewhere(broken)
    trial, _ = tried(bundle, read_policy(policy), running_jaxlib)
    assert (trial.outcome, trial.fixtures) == ("refused", ())
    assert [finding.code for finding in trial.findings] == ["AOTC-E753"]
    assert "AOTC-E753" in trial.detail


def script(folder: Path, text: str) -> Path:
    """Return a script in an interpreter's place that ends abnormally."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


LOADING = "echo '> loading'"


@pytest.mark.parametrize("signal", ["SEGV", "ILL", "KILL"])
def test_a_crash_is_a_result_that_names_the_signal_and_what_was_being_done(
    signal: str, built_elsewhere: Made, running_jaxlib: str, tmp_path: Path
) -> None:
    bundle, policy = built_elsewhere()
    dying = script(tmp_path, f"{LOADING}\necho last words >&2\nkill -{signal} $$")
    trial, _ = tried(bundle, read_policy(policy), running_jaxlib, dying)
    assert (trial.outcome, trial.fixtures) == ("crashed", ())
    assert trial.detail.splitlines()[0] == f"killed by SIG{signal}, while loading"
    assert "last words" in trial.detail


def test_silent_end_is_a_crash(built_elsewhere: Made, running_jaxlib: str, tmp_path: Path) -> None:
    bundle, policy = built_elsewhere()
    cut_off = 'echo \'< {"ran": {"label":\''
    for text in ("exit 0", f"{LOADING}\nexit 3", cut_off, "printf '\\377\\n'"):
        trial, _ = tried(bundle, read_policy(policy), running_jaxlib, script(tmp_path, text))
        assert trial.outcome == "crashed" and "exit status" in trial.detail


def test_late_death_is_a_crash(built_elsewhere: Made, running_jaxlib: str, tmp_path: Path) -> None:
    bundle, policy = built_elsewhere()
    dying = script(tmp_path, f'"{sys.executable}" "$@"\nexit 3')
    trial, counts = tried(bundle, read_policy(policy), running_jaxlib, dying)
    assert (trial.outcome, counts[-1]) == ("crashed", 3) and "exit status 3" in trial.detail


@pytest.mark.parametrize(
    ("filtered", "outcome", "detail"),
    [
        ("{ cat; for folder; do :; done; rm $folder/answer*; }", "crashed", "exit status 0"),
        ("grep -v surroundings", "crashed", "exit status 0"),
        ('sed \'s/"withinTolerance": true/"withinTolerance": false/\'', "beyond tolerance", "=64]"),
    ],
)
def test_only_a_process_that_says_where_how_and_that_it_ended_has_passed(
    filtered: str,
    outcome: str,
    detail: str,
    built_elsewhere: Made,
    running_jaxlib: str,
    tmp_path: Path,
) -> None:
    bundle, policy = built_elsewhere()
    saying = script(tmp_path, f'"{sys.executable}" "$@" | {filtered}')
    trial, counts = tried(bundle, read_policy(policy), running_jaxlib, saying)
    assert (trial.outcome, counts[-1]) == (outcome, 3) and detail in trial.detail


def test_endless_run_is_ended(built_elsewhere: Made, running_jaxlib: str, tmp_path: Path) -> None:
    bundle, policy = built_elsewhere()
    waiting = script(tmp_path, f"{LOADING}\nexec sleep 600")
    trial, _ = tried(bundle, read_policy(policy), running_jaxlib, waiting, seconds=0.3)
    assert trial.outcome == "hung" and trial.detail.endswith("while loading")


def test_other_jaxlib_or_bundle_is_no_result(built_elsewhere: Made, running_jaxlib: str) -> None:
    bundle, policy = built_elsewhere()
    other = "sha256:" + "0" * 64
    for jaxlib, change in (("0.12.97", {}), (running_jaxlib, {"root": other})):
        trial, _ = tried(bundle, read_policy(policy), jaxlib, **change)
        assert trial.outcome == ""
        assert [finding.code for finding in trial.findings] == ["AOTC-E559"]


def test_the_worker_runs_where_only_the_runtime_is() -> None:
    """It is started by its path, in an environment that has neither aotc nor jax."""
    imported = {
        name if name.startswith("aotc.") else name.partition(".")[0]
        for node in ast.walk(ast.parse(Path(certify_worker.__file__).read_text("utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    beside = imported - {*sys.stdlib_module_names}
    assert beside == {"aotc.base.workers.worker_child", "aotc_runtime", "msgspec"}
