"""A task metric of a build: computed by the loader, recorded, held to its limits, and required by
a trust policy.
"""

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from small_programs import build_trusted

import aotc_runtime
from aotc.base.errors import BudgetExceededError, CaptureError
from aotc.bundle.read.bundle_review import review
from aotc.cli.command_group import cli
from aotc.commands.report_page.page_renderer import page_of, render
from aotc.pipeline import evaluation as module
from aotc.pipeline.build import Built
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Done, Kind
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, TrustError
from aotc_runtime.schema.bundle_manifest import Evaluation, EvaluationRan, ParityNotRun
from aotc_runtime.system.bundle_files import open_bundle
from tests.conftest import Once
from tests.documented import code_of
from tests.refusals import error_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "build-manifest.md"

PROGRAM = """
import jax.numpy as jnp
import numpy as np

def classify(x):
    return x[:, :3] * 2

def tokens(x):
    return jnp.tile(x[:, None, :3], (1, 5, 1))

def both(x):
    return {"scores": x[:, :3] * 2, "sum": x.sum(axis=1)}

def masked(x, mask):
    return jnp.where(mask[:, None], x[:, :3], 0)

def first(x, scale):
    return x[:, 0] * scale

def hits(output, target):
    return output.argmax(axis=-1) == target

def failing(output, target):
    raise ValueError("no")

def half(output, target):
    return output[:1]

def batches():
    with np.load("data.npz") as data:
        for start in (0, 8):
            yield {"x": data["x"][start:][:8], "target": data["target"][start:][:8]}

def broken():
    yield {"x": np.zeros((8, 4), np.float32), "target": np.zeros(8, int)}
    raise ValueError("no more")
"""

HEAD = """schema = 1
name = "scored"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
dimensions.batch = {{ range = [1, 64], profiles = {profiles} }}
[entry_points.classify]
function = "program:{function}"
inputs.x = {{ shape = ["batch", 4], dtype = "float32" }}
{more}
[entry_points.classify.evaluation]
{evaluation}
"""

TOP1 = 'data = "data.npz"\nmetric = "top1"'
X = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
LABELS = np.where(np.arange(16) < 12, X[:, :3].argmax(axis=1), (X[:, :3].argmax(axis=1) + 1) % 3)
"""Twelve of sixteen labels are what the function says."""


def built(
    folder: Path,
    evaluation: str = TOP1,
    *,
    function: str = "classify",
    profiles: str = "[1, 8]",
    more: str = "",
    targets: tuple[str, ...] = (),
    **options: Any,
) -> Built:
    (folder / "program.py").write_text(PROGRAM.replace('"data.npz"', repr(f"{folder}/data.npz")))
    text = HEAD.format(evaluation=evaluation, function=function, profiles=profiles, more=more)
    if targets:
        named = ", ".join(f'"{each}"' for each in targets)
        text = text.replace('"cpu-x86-64-v3"', named, 1)
    (folder / "m.toml").write_text(text)
    if not (folder / "data.npz").exists():
        np.savez(folder / "data.npz", x=X, target=LABELS)
    output = folder / "scored.aotb"
    return build_trusted(folder / "m.toml", output, jobs=1, targets=targets, **options)


def recorded(made: Built, target: str = "cpu-x86-64-v3") -> Evaluation:
    evaluations = made.bundle.manifests[target].entry_points["classify"].evaluations
    assert evaluations
    return evaluations[0]


def refused(folder: Path, evaluation: str = TOP1, **more: Any) -> AotcError:
    return error_of(AotcError, built, folder, evaluation, **more)


@pytest.fixture(scope="module")
def folder(once: Once) -> Path:
    return once("evaluated", lambda folder: built(folder, f"{TOP1}\nminimum = 0.75\nmax_drop = 0"))


def with_rules(folder: Path, into: Path, **metrics: float) -> Path:
    rules = "".join(f'\n"{name}" = {limit}' for name, limit in metrics.items())
    policy = into / "strict.toml"
    policy.write_text(f"{(folder / 'trust.toml').read_text()}\n[metrics]{rules}\n")
    return policy


def test_a_metric_is_recorded_and_required_by_a_policy(folder: Path, tmp_path: Path) -> None:
    bundle = folder / "scored.aotb"
    with aotc_runtime.load(bundle, trust=folder / "trust.toml") as loaded:
        (evaluation,) = loaded.manifest.entry_points["classify"].evaluations or ()
    ran = evaluation.result
    assert isinstance(ran, EvaluationRan)
    assert (evaluation.metric, evaluation.better, evaluation.samples) == ("top1", "higher", 16)
    assert (ran.value, evaluation.reference, float(ran.drop), ran.method) == (
        *("0.75", "0.75"),
        *(0.0, "wilson"),
    )
    assert (float(ran.low), float(ran.high)) == pytest.approx((0.505, 0.898), abs=1e-3)
    assert evaluation.data == sha256((folder / "data.npz").read_bytes())
    with aotc_runtime.load(bundle, trust=with_rules(folder, tmp_path, **{"classify.top1": 0.75})):
        pass
    for rule in ({"classify.top1": 0.76}, {"classify.top5": 0.1}, {"other.top1": 0.1}):
        with pytest.raises(TrustError) as error:
            aotc_runtime.load(bundle, trust=with_rules(folder, tmp_path, **rule))
        assert error.value.code == "AOTC-E337"


def test_reports_show_a_metric(folder: Path) -> None:
    bundle = str(folder / "scored.aotb")
    text = CliRunner().invoke(cli, ["inspect", bundle]).output
    assert "top1 0.75 (0.505" in text
    document = json.loads(CliRunner().invoke(cli, ["inspect", bundle, "--json"]).output)
    (shown,) = document["targets"]["cpu-x86-64-v3"]["entry_points"]["classify"]["evaluations"]
    assert shown["result"]["value"] == "0.75"
    now = datetime.now(UTC)
    page = page_of(review(open_bundle(Path(bundle)), None, now), None)
    assert b"top1 0.75" in render(page)


def test_a_build_gives_the_same_bytes_and_takes_the_metric_from_the_cache(tmp_path: Path) -> None:
    cache = LocalStore(tmp_path / "cache", 10**9)
    digests = []
    for _ in range(2):
        made = built(tmp_path, f"{TOP1}\nminimum = 0.5", cache=cache)
        digests.append(made.bundle.root_digest)
    tasks = {done.task.kind: done for done in made.tasks}
    assert tasks[Kind.EVALUATION].cached
    assert digests[0] == digests[1]
    # Limits are held in every build, cached or not.
    assert refused(tmp_path, f"{TOP1}\nminimum = 0.9", cache=cache).code == "AOTC-E975"
    np.savez(tmp_path / "data.npz", x=X, target=X[:, :3].argmax(axis=1))
    made = built(tmp_path, TOP1, cache=cache)
    assert not {done.task.kind: done for done in made.tasks}[Kind.EVALUATION].cached
    ran = recorded(made).result
    assert isinstance(ran, EvaluationRan)
    assert ran.value == "1.0"


def test_functions_yield_data_and_score_them(tmp_path: Path) -> None:
    made = built(tmp_path, 'data = "program:batches"\nmetric = "program:hits"')
    evaluation, ran = recorded(made), recorded(made).result
    assert isinstance(ran, EvaluationRan)
    assert (evaluation.metric, ran.value, ran.method) == ("program:hits", "0.75", "bootstrap")
    assert evaluation.code == sha256((tmp_path / "program.py").read_bytes())


def test_the_documented_metric_per_token_leaves_padding_out(tmp_path: Path) -> None:
    (tmp_path / "tokens.py").write_text(code_of("python", PAGE, "Evaluation"))
    target = np.where(np.arange(5) < 3, LABELS[:, None], -1)
    np.savez(tmp_path / "data.npz", x=X, target=target)
    evaluation = 'data = "data.npz"\nmetric = "tokens:accuracy"'
    ran = recorded(built(tmp_path, evaluation, function="tokens")).result
    assert isinstance(ran, EvaluationRan) and ran.value == "0.75"


def test_both_limits_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module._evaluation

    def worse(*arguments: Any) -> Evaluation:
        found = original(*arguments)
        assert isinstance(found.result, EvaluationRan)
        result = replace(found.result, value="0.5", low="0.4", high="0.6", drop="0.25")
        return replace(found, result=result)

    monkeypatch.setattr(module, "_evaluation", worse)
    error = refused(tmp_path, f"{TOP1}\nminimum = 0.7\nmax_drop = 0.1")
    assert isinstance(error, BudgetExceededError)
    assert [finding.title for finding in error.findings] == [
        "metric misses its limit",
        "metric drops too far",
    ]
    assert error.exit_code == 9
    assert not (tmp_path / "scored.aotb").exists()


def test_a_target_that_does_not_run_here_is_not_evaluated(tmp_path: Path) -> None:
    known = Path(__file__).parents[2] / "targets" / "cpu-x86-64-v4.toml"
    far = known.read_text().replace("cpu-x86-64-v4", "far", 1)
    (tmp_path / "far.toml").write_text(far.replace('"64bit",', '"64bit", "fma4", "amx-tile",'))
    made = built(tmp_path, targets=("./far.toml",))
    (name,) = made.bundle.manifests
    result = recorded(made, name).result
    assert isinstance(result, ParityNotRun)
    assert any("top1 was not evaluated" in note for note in made.notes)
    assert recorded(made, name).reference == "0.75"


def test_a_smaller_last_batch_is_refused_or_padded_where_that_is_proven(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X[:13], target=LABELS[:13])
    error = refused(tmp_path, profiles="[8]")
    assert (error.code, error.findings[0].title) == (
        "AOTC-E847",
        "samples do not fill the profiles",
    )
    made = built(tmp_path, profiles="[8]", more='out_of_profile.batch = "pad"')
    ran = recorded(made).result
    assert isinstance(ran, EvaluationRan)
    assert float(ran.value) == pytest.approx(12 / 13)


def test_masks_that_the_loader_adds_are_not_among_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X[:13], target=LABELS[:13])
    more = """inputs.mask = { shape = ["batch"], dtype = "bool" }
out_of_profile.batch = { policy = "pad", mask = "mask" }"""
    made = built(tmp_path, function="masked", profiles="[8]", more=more)
    ran = recorded(made).result
    assert isinstance(ran, EvaluationRan)
    assert (float(ran.value), float(ran.drop)) == (pytest.approx(12 / 13), 0.0)


def test_targets_of_other_profiles_score_the_same_samples(tmp_path: Path) -> None:
    more = "[target.cpu-haswell.dimensions.batch]\nprofiles = [2]"
    targets = ("cpu-x86-64-v3", "cpu-haswell")
    made = built(tmp_path, f"{TOP1}\n{more}", targets=targets)
    for target in targets:
        result = recorded(made, target).result
        assert isinstance(result, EvaluationRan)
        assert result.value == "0.75"


def test_all_that_does_not_fit_is_reported_at_once_before_compiling(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", y=X, x=X.astype(np.float64), target=LABELS[:3])
    done: list[Done] = []
    error = refused(tmp_path, on_done=done.append)
    assert isinstance(error, CaptureError)
    assert not [each for each in done if each.task.kind is Kind.COMPILE]
    assert [(f.code, f.found) for f in error.findings] == [
        ("AOTC-E847", "an unknown array"),
        ("AOTC-E847", "float64[16, 4]"),
        ("AOTC-E847", "x 16, target 3"),
    ]
    np.savez(tmp_path / "data.npz", x=X, target=LABELS[:3])
    assert refused(tmp_path).findings[0].found == "x 16, target 3"
    np.savez(tmp_path / "data.npz", x=X)
    assert "named target" in refused(tmp_path).findings[0].expected
    np.savez(tmp_path / "data.npz", x=X[:, :3], target=LABELS)
    assert refused(tmp_path).findings[0].found == "float32[16, 3]"


@pytest.mark.parametrize(
    ("arrays", "code", "text"),
    [
        ({"x": X[:0], "target": LABELS[:0]}, "AOTC-E847", "evaluation data is empty"),
        ({"x": X, "target": LABELS + 1}, "AOTC-E849", "labels from 1 to 3 for 3 classes"),
        ({"x": np.full_like(X, np.nan), "target": LABELS}, "AOTC-E849", "NaN in the result"),
    ],
)
def test_data_of_which_there_is_no_metric_are_refused(
    arrays: dict[str, Any], code: str, text: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", **arrays)
    error = refused(tmp_path)
    assert error.code == code
    assert text in str(error)
    assert "entry_points.classify.evaluation" in error.findings[0].where, "with the manifest's line"


def test_files_that_inflate_are_refused_before_they_do(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros((2**22, 4), np.float32))
    with zipfile.ZipFile(tmp_path / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", buffer.getvalue() * 2)
    assert refused(tmp_path).findings[0].title == "evaluation file is too compressed"
    (tmp_path / "data.npz").write_bytes(b"no archive")
    assert refused(tmp_path).findings[0].title == "evaluation file is invalid"


@pytest.mark.parametrize(
    ("evaluation", "code", "text"),
    [
        ('data = "data.npz"\nmetric = "program:failing"', "AOTC-E829", "no"),
        ('data = "data.npz"\nmetric = "program:half"', "AOTC-E849", "a number for each of"),
        ('data = "data.npz"\nmetric = "program:none"', "AOTC-E820", "none"),
        ('data = "program:broken"\nmetric = "top1"', "AOTC-E829", "no more"),
        (f'{TOP1}\noutput = "other"', "AOTC-E847", "one of: result"),
    ],
)
def test_unusable_functions_rejected(evaluation: str, code: str, text: str, tmp_path: Path) -> None:
    error = refused(tmp_path, evaluation)
    assert error.code == code
    assert text in str(error)


def test_one_of_several_results_has_to_be_named(tmp_path: Path) -> None:
    assert 'output = "scores"' in refused(tmp_path, function="both").findings[0].hint
    made = built(tmp_path, f'{TOP1}\noutput = "scores"', function="both")
    assert recorded(made).reference == "0.75"


def test_inputs_without_samples_are_passed_whole(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X, scale=np.float32(2), target=X[:, 0] * 2)
    made = built(
        tmp_path,
        'data = "data.npz"\nmetric = "rmse"\nmaximum = 0.001',
        function="first",
        more='inputs.scale = { shape = [], dtype = "float32" }',
    )
    assert (recorded(made).better, float(recorded(made).reference)) == ("lower", 0.0)
