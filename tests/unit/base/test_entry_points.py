"""Entry points of distributions whose metadata and code do not belong together."""

from pathlib import Path

import pytest

from aotc.base.entry_points import find_points, load
from aotc.base.errors import UsageError
from aotc.compile import compiler_registry
from tests.refusals import error_of


def install(folder: Path, distribution: str, group: str, *lines: str) -> None:
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "value", ["abacus.gone:rods", "gone:rods", "abacus:rods", "abacus:of.rods"]
)
def test_load_rejects_a_distribution_without_the_code_that_it_registers(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "abacus").mkdir()
    (tmp_path / "abacus" / "__init__.py").touch()
    install(tmp_path, "old-abacus", f"test.{value}", f"rods = {value}")
    monkeypatch.syspath_prepend(tmp_path)
    (finding,) = error_of(UsageError, load, find_points(f"test.{value}")["rods"]).findings
    assert (finding.code, finding.found) == ("AOTC-E033", value)
    assert finding.where == f"entry point rods of test.{value}, by old-abacus"
    assert "--no-deps old-abacus" in finding.hint


def test_load_passes_on_what_the_module_itself_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needing.py").write_text("import not_there_at_all\n")
    install(tmp_path, "needing", "test.needing", "rods = needing:rods")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load(find_points("test.needing")["rods"])


def test_registered_rejects_two_distributions_with_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "first", "test.twice", "rods = first:rods", "same = one:same")
    install(tmp_path, "second", "test.twice", "rods = second:rods", "same = one:same")
    monkeypatch.syspath_prepend(tmp_path)
    refused = error_of(UsageError, find_points, "test.twice")
    assert refused.findings[0].found == "first:rods and second:rods"


def test_platforms_rejects_metadata_of_an_older_aotc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_registry, "find_points", lambda group: {})
    for ask in (compiler_registry.platforms, lambda: compiler_registry.kind_of.__wrapped__("cpu")):
        refused = error_of(UsageError, ask)
        assert refused.code == "AOTC-E033"
        assert "entry point cpu of aotc.engines, by aotc" in str(refused)
