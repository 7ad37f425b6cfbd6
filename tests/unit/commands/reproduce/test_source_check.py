import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from aotc.commands.reproduce import source_check
from aotc.commands.reproduce.build_recipe import Recipe
from aotc.commands.reproduce.source_check import check_files, read_elsewhere
from aotc_runtime.base.digest import sha256
from tests.small_manifests import one_function

MANIFEST = one_function("small", "[4]", weights='source = "../../data/w.safetensors"')


def recipe(files: dict[str, str], text: str = MANIFEST) -> Recipe:
    digest = sha256(text.encode())
    return Recipe("small.toml", digest, (), files, {}, {}, "", None, "", {}, ())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep" / "app").mkdir(parents=True)
    (folder / "deep" / "small.toml").write_text(MANIFEST)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.safetensors").write_bytes(b"weights")
    return folder


def test_a_file_elsewhere_is_read_if_the_recorded_manifest_names_it(source: Path) -> None:
    (source.parent / "data" / "other").write_bytes(b"weights")
    (source / "shared.py").write_bytes(b"shared")
    manifest = source / "deep" / "small.toml"
    named = {"../../data/w.safetensors": sha256(b"weights"), "../shared.py": sha256(b"shared")}
    assert list(check_files(manifest, source, recipe(named), None)) == []
    (finding,) = check_files(
        manifest, source, recipe({"../../data/other": sha256(b"weights")}), None
    )
    assert (finding.code, finding.where) == ("AOTC-E943", f"{source}/deep/../../data/other")


def test_another_manifest_names_no_files(source: Path) -> None:
    manifest = source / "deep" / "small.toml"
    manifest.write_text(MANIFEST + "# another")
    files = {"../../data/w.safetensors": sha256(b"weights")}
    found = list(check_files(manifest, source, recipe(files), None))
    assert [finding.code for finding in found] == ["AOTC-E942", "AOTC-E943"]
    assert found[1].found.startswith("a path that leads out")


def test_module_elsewhere_is_found_by_its_digest(source: Path) -> None:
    for place, data in (("a", b"other"), ("lib/b", b"shared")):
        (source / place / "app").mkdir(parents=True)
        (source / place / "app" / "shared.py").write_bytes(data)
    manifest = source / "deep" / "small.toml"
    found = recipe({"app/shared.py": sha256(b"shared")})
    assert list(check_files(manifest, source, found, None)) == []
    (source / "lib" / "b" / "app" / "shared.py").write_bytes(b"changed")
    (finding,) = check_files(manifest, source, found, None)
    assert (finding.code, finding.where) == ("AOTC-E943", str(source / "a" / "app" / "shared.py"))


def test_a_file_that_is_nowhere_is_missed_where_it_should_be(source: Path) -> None:
    manifest = source / "deep" / "small.toml"
    files = {
        name: sha256(b"") for name in ("app/gone.py", ".", "app/../../../x", "/gone", "y" * 999)
    }
    found = list(check_files(manifest, source, recipe(files), None))
    assert {finding.code for finding in found} == {"AOTC-E943"}
    assert {finding.where for finding in found} == {str(manifest.parent / name) for name in files}
    asked = "name a --source that holds the whole program; take the sources"
    (gone,) = (finding for finding in found if finding.where.endswith("app/gone.py"))
    assert gone.hint.startswith(asked)
    (folder,) = (finding for finding in found if finding.where.endswith("/deep"))
    assert not folder.hint.startswith(asked)


def test_below_a_manifest_that_is_gone_nothing_is_found(source: Path) -> None:
    manifest = source / "gone" / "small.toml"
    found = list(check_files(manifest, source, recipe({".": sha256(b"")}), None))
    assert [finding.code for finding in found] == ["AOTC-E942", "AOTC-E943"]


def test_a_path_that_leads_out_is_looked_for_nowhere_else(source: Path) -> None:
    manifest = source / "deep" / "small.toml"
    (source.parent / "secret").write_bytes(b"secret")
    (source / "app").mkdir()
    name = "app/../../secret"
    (finding,) = check_files(manifest, source, recipe({name: sha256(b"secret")}), None)
    assert finding.where == str(manifest.parent / name)


def test_file_of_many_names_is_read_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = source / "deep" / "small.toml"
    (source / "deep" / "large.py").write_bytes(b"large")
    read, listed = [], []
    digest, listdir = source_check._digest, os.listdir
    monkeypatch.setattr(source_check, "_digest", lambda path: read.append(path) or digest(path))
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    names = {f"{'app/../' * number}large.py": sha256(b"large") for number in range(30)}
    gone = {f"gone{number}.py": sha256(b"") for number in range(30)}
    found = list(check_files(manifest, source, recipe(names | gone), None))
    assert len(found) == 30
    assert len([path for path in read if path.name == "large.py"]) == 1
    assert len(listed) == 3, "the folders of the sources, once each"


def test_a_tuned_build_needs_its_tuning_file(source: Path) -> None:
    tuned = replace(recipe({}), tuning=sha256(b"tuning"))
    manifest = source / "deep" / "small.toml"
    (finding,) = check_files(manifest, source, tuned, None)
    assert (finding.code, finding.where) == ("AOTC-E943", "--tuning")
    assert not [*check_files(manifest, source, tuned, source / "tuning.json")]


def test_what_the_new_build_read_is_what_was_recorded(tmp_path: Path) -> None:
    parts = [
        {
            "type": "file",
            "name": name,
            "hashes": [{"content": sha256(data).removeprefix("sha256:")}],
        }
        for name, data in (("same.py", b"a"), ("other.py", b"b"), ("new.py", b"c"))
    ]
    parts.append({"type": "library", "name": "numpy"})
    bill = tmp_path / "bill.json"
    bill.write_text(json.dumps({"components": parts}))
    known = recipe({"same.py": sha256(b"a"), "other.py": sha256(b"?"), "numpy": sha256(b"")})
    (finding,) = read_elsewhere(bill, known)
    assert (finding.code, finding.where) == ("AOTC-E943", "other.py")


def test_a_target_file_is_one_of_the_sources_or_of_the_manifest(source: Path) -> None:
    text = MANIFEST.replace('"cpu-x86-64-v3"', '"../../machine.toml"')
    manifest = source / "deep" / "small.toml"
    manifest.write_text(text)
    asked = ("native", "../../machine.toml", "../targets/x.toml", "./y.toml")
    assert not [*check_files(manifest, source, replace(recipe({}, text), targets=asked), None)]
    (finding,) = check_files(
        manifest, source, replace(recipe({}, text), targets=("../../other.toml",)), None
    )
    assert (finding.code, finding.where) == ("AOTC-E943", f"{source}/deep/../../other.toml")
