"""Evaluations in build manifests: what is read, and what no evaluation may say."""

from pathlib import Path

import numpy as np
import pytest

from aotc.base.errors import BuildManifestError
from aotc.config.build_manifest import BuildManifest, read_build_manifest
from tests.conftest import manifest_of
from tests.refusals import error_of

MANIFEST = manifest_of("""
name = "scored"
[entry_points.f]
function = "program:f"
inputs.x = { shape = [4, 8], dtype = "float32" }
[entry_points.f.evaluation]
""")


def read(folder: Path, evaluation: str) -> BuildManifest:
    np.savez(folder / "data.npz", x=np.zeros((4, 8), np.float32), target=np.zeros(4, int))
    (folder / "m.toml").write_text(MANIFEST + evaluation)
    return read_build_manifest(folder / "m.toml")


def test_an_evaluation_is_read_with_its_defaults(tmp_path: Path) -> None:
    spec = read(tmp_path, 'data = "data.npz"\nmetric = "topk"\nk = 5').entry_points["f"].evaluation
    assert spec is not None
    assert (spec.name, spec.better, spec.target, spec.functions) == ("top5", "higher", "target", {})


def test_the_files_of_a_folder_are_sorted(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for name in ("b", "a", "c"):
        np.savez(tmp_path / "all" / f"{name}.npz", x=np.zeros(1))
    manifest = read(tmp_path, 'data = "all"\nmetric = "mine:score"\nmaximum = 2.5')
    files = [each.text for each in manifest.evaluation_files("f")]
    assert files == ["all/a.npz", "all/b.npz", "all/c.npz"]
    assert [*manifest.files()][-1][1].path == tmp_path / "all" / "c.npz"
    spec = manifest.entry_points["f"].evaluation
    assert spec is not None
    assert (spec.better, spec.functions) == ("lower", {"metric": "mine:score"})


@pytest.mark.parametrize(
    ("evaluation", "code", "key", "text"),
    [
        ('data = "data.npz"\nmetric = "topq"', "E806", "metric", "did you mean `topk`?"),
        ('data = "data.npz"\nmetric = "topk"', "E804", "k", "add k = 5"),
        ('data = "data.npz"\nmetric = "auc"\nk = 5', "E807", "k", "remove k"),
        ('data = "data.npz"\nmetric = "rmse"\nminimum = 1', "E805", "minimum", "write `maximum`"),
        ('data = "data.npz"\nmetric = "auc"\nmaximum = 1', "E805", "maximum", "write `minimum`"),
        ('data = "data.npz"\nmetric = "top1"\nminimum = 97', "E805", "minimum", "at most 1"),
        ('data = "data.npz"\nmetric = "cosine"\nminimum = 1.5', "E805", "minimum", "at most 1"),
        ('data = "data.npz"\nmetric = "mae"\nmaximum = -1', "E805", "maximum", "at least 0"),
        (
            'data = "data.npz"\nmetric = "perplexity"\nmaximum = 0.5',
            "E805",
            "maximum",
            "at least 1",
        ),
        (
            'data = "data.npz"\nmetric = "a:b"\nminimum = 1\nmaximum = 2',
            "E807",
            "maximum",
            "one of",
        ),
        ('data = "data.npz"\nmetric = "top1"\nminimum = nan', "E805", "minimum", "finite"),
        ('data = "data.npz"\nmetric = "top1"\nmax_drop = -1', "E805", "max_drop", "at least 0"),
        ('data = "none.npz"\nmetric = "top1"', "E808", "data", "none.npz"),
        ('data = "empty"\nmetric = "top1"', "E808", "data", "no .npz file in it"),
        ('data = "data.npz"\nmetric = "top1"\ntarget = "x"', "E807", "target", "otherwise"),
        ('metric = "top1"', "E804", "data", ""),
    ],
)
def test_bad_evaluations(evaluation: str, code: str, key: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (finding,) = error_of(BuildManifestError, read, tmp_path, evaluation).findings
    assert finding.code == f"AOTC-{code}"
    assert finding.where.endswith(f"entry_points.f.evaluation.{key}")
    assert text in f"{finding.expected} {finding.found} {finding.hint}"


def test_recorded_results_have_no_reference(tmp_path: Path) -> None:
    np.savez(tmp_path / "i.npz", x=np.zeros((4, 8), np.float32))
    fixtures = '\n[entry_points.f.fixtures]\nfile = "i.npz"\nresults = "i.npz"'
    with pytest.raises(BuildManifestError) as refused:
        read(tmp_path, f'data = "data.npz"\nmetric = "top1"{fixtures}')
    assert [finding.code for finding in refused.value.findings] == ["AOTC-E807"]
