"""A build traces the program, and runs of the rest what has changed; what it gives is what a clean
one gives.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.base.errors import BudgetExceededError, CaptureError, CompileError, refusal
from aotc.bundle.sign.signer import LocalSigner
from aotc.compile.compiler_protocol import Backend
from aotc.compile.compiler_registry import backend_for
from aotc.pipeline import cached_backend
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Done, Kind
from tests.conftest import manifest_of
from tests.refusals import error_of

MANIFEST = manifest_of("""
name = "two"
[weights.params]
init = "shared:init"
[dimensions.batch]
range = [1, 4]
profiles = [1, 4]
[entry_points.left]
function = "left:f"
bind = { params = "params" }
inputs.x = { shape = ["batch", 8], dtype = "float32" }
[entry_points.right]
function = "right:f"
inputs.x = { shape = ["batch"], dtype = "float32" }
""")

SHARED = "import jax.numpy as jnp\ndef init():\n    return {'w': jnp.arange(8.0)}\n"
LEFT = "def f(params, x):\n    return (x * params['w']).sum(1)\n"
RIGHT = "import jax.numpy as jnp\ndef f(x):\n    return jnp.tanh(x)\n"
FOREIGN = """import jax
def f(x):
    return jax.ffi.ffi_call('mine', jax.ShapeDtypeStruct(x.shape, 'float32'))(x)
"""


class Project:
    """A program and a cache."""

    def __init__(self, folder: Path) -> None:
        self.root, self.store = folder / "project", LocalStore(folder / "cache", 10**9)
        self.root.mkdir(parents=True)
        for name, text in (
            ("two.toml", MANIFEST), ("shared.py", SHARED), ("left.py", LEFT), ("right.py", RIGHT)
        ):  # fmt: skip
            (self.root / name).write_text(text)

    def build(self, *targets: str, cached: bool = True, **options: Any) -> Built:
        return build(
            self.root / "two.toml",
            self.root / "two.aotb",
            BuildOptions(
                targets=targets,
                cache=LocalStore(self.store.folder, 10**9) if cached else None,
                **{"on_done": print, **options},
            ),
        )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Built]:
    """The program as it was built first, with a cache that was empty. No test changes either."""
    project = Project(tmp_path_factory.mktemp("cached") / "first")
    return project, project.build()


@pytest.fixture
def project(prepared: tuple[Project, Built]) -> Iterator[Project]:
    """The program after its first build, to change: what a test leaves behind is undone, since
    the cache knows the manifest by its path.
    """
    project = prepared[0]
    folder = project.root.parent
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    yield project
    shutil.rmtree(folder)
    kept.rename(folder)


@pytest.fixture
def cache(prepared: tuple[Project, Built], tmp_path: Path) -> LocalStore:
    """A copy of the cache after the first build, for programs in other places."""
    shutil.copytree(prepared[0].store.folder, tmp_path / "cache")
    return LocalStore(tmp_path / "cache", 10**9)


def ran(built: Built) -> dict[str, tuple[str, ...]]:
    return {done.task.name: done.reasons for done in built.tasks if not done.cached}


UNCHANGED = {"capture": ("every build does",), "pack": ("every build does",)}
"""What runs where nothing has changed."""


def test_unchanged_build_runs_nothing(project: Project, prepared: tuple[Project, Built]) -> None:
    first = prepared[1]
    assert {reason for reasons in ran(first).values() for reason in reasons} == {
        "not built before",
        "every build does",
    }
    again = project.build(signer=LocalSigner.ephemeral())
    clean = project.build(cached=False)
    lost = "replaces a signed bundle"
    assert lost in "".join(clean.notes) and lost not in "".join((*first.notes, *again.notes))
    assert ran(again) == UNCHANGED
    assert again.bundle.root_digest == first.bundle.root_digest == clean.bundle.root_digest
    assert {r for reasons in ran(clean).values() for r in reasons} == {
        "the cache is off",
        "every build does",
    }


def test_changed_entry_point_is_compiled_alone_and_a_revert_only_traces(project: Project) -> None:
    (project.root / "right.py").write_text(RIGHT.replace("tanh", "sin"))
    found = ran(project.build())
    assert set(found) == {
        *("capture", "reference", "executable right[batch=1] for cpu-x86-64-v3"),
        *("executable right[batch=4] for cpu-x86-64-v3", "parity of cpu-x86-64-v3", "pack"),
    }
    assert found["capture"] == ("source file right.py changed",)
    (reason,) = found["executable right[batch=1] for cpu-x86-64-v3"]
    assert reason == "module changed: source file right.py changed"
    assert found["reference"] == ("modules of right changed: source file right.py changed",)
    (project.root / "right.py").write_text(RIGHT)
    back = ran(project.build())
    assert back == {**UNCHANGED, "capture": ("source file right.py changed",)}


def test_comment_only_traces_again(project: Project, prepared: tuple[Project, Built]) -> None:
    (project.root / "left.py").write_text(f"# a comment\n{LEFT}")
    built = project.build()
    assert ran(built) == {**UNCHANGED, "capture": ("source file left.py changed",)}
    assert built.bundle.root_digest == prepared[1].bundle.root_digest


def edited(project: Project, *changes: tuple[str, str]) -> Project:
    path = project.root / "two.toml"
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    path.write_text(text)
    return project


def test_manifest_edit_runs_what_it_changes_and_equals_a_clean_build(project: Project) -> None:
    """Each edit runs less than the one before and is made on top of it, so that the last bundle
    holds what all of them ran.
    """
    split = 'dtype = "float32" }\nout_of_profile = { batch = "split" }'
    seen = edited(
        project,
        ("schema = 1", "schema = 1\nenable_x64 = true"),
        ("range = [1, 4]", "range = [1, 8]"),
        ('dtype = "float32" }\n[entry_points.right]', f"{split}\n[entry_points.right]"),
        ('function = "right:f"', 'function = "right:f"\nfixtures.seed = 7'),
    ).build()
    assert set(ran(seen)["capture"]) == {
        "build manifest enable_x64 added: True",
        "build manifest dimensions.batch changed",
        "build manifest entry_points.left changed",
        "build manifest entry_points.right changed",
    }
    assert "reference" in ran(seen)

    tried = edited(
        project, ('function = "left:f"', 'function = "left:f"\ntolerance.rtol = 1e-4')
    ).build()
    (reason,) = ran(tried)["reference"]
    assert reason.startswith("the plan of calls to try changed")

    compared = edited(
        project, ('function = "right:f"', 'function = "right:f"\ntolerance.rtol = 1e-4')
    ).build()
    assert set(ran(compared)) == {"capture", "parity of cpu-x86-64-v3", "pack"}
    assert compared.bundle.root_digest != tried.bundle.root_digest

    with (project.root / "two.toml").open("a") as manifest:
        manifest.write("[gates]\nmax_custom_calls = 100\n")
        manifest.write('[target.cpu-x86-64-v3]\nmemory_limit = "1GB"\n')
    packed = edited(
        project, ("1.0.0", "1.0.1"), ('name = "two"', '# again\nname = "three"')
    ).build()
    assert set(ran(packed)) == {"capture", "pack"}
    assert {m.name for m in packed.bundle.manifests.values()} == {"three"}
    assert packed.bundle.root_digest == project.build(cached=False).bundle.root_digest


def test_a_gate_is_asked_of_what_the_cache_has(project: Project) -> None:
    with (project.root / "two.toml").open("a") as manifest:
        manifest.write('[gates]\nforbid_operations = ["stablehlo.tanh"]\n')
    refused = error_of(BudgetExceededError, project.build)
    assert {finding.code for finding in refused.findings} == {"AOTC-E975"}


def test_only_read_variables_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = SHARED.replace("arange(8.0)", "arange(8.0) * SCALE")
    (project.root / "shared.py").write_text(
        f"import os\nSCALE = float(os.environ.get('SCALE', '1'))\n{scaled}"
    )
    project.build()
    monkeypatch.setenv("OTHER", "1")
    assert ran(project.build()) == UNCHANGED
    monkeypatch.setenv("SCALE", "2")
    found = ran(project.build())
    assert found["capture"] == ("environment SCALE changed",)
    assert found["reference"] == ("weights params, part 1 changed",)
    assert "parity of cpu-x86-64-v3" in found


READS = """
import importlib.util, os
from pathlib import Path
HERE = Path(__file__).parent
SCALE = sum((
    float((HERE / "number").read_text()),
    len(os.listdir(HERE / "folder")) * 10,
    len(os.readlink(HERE / "link")) * 100,
    1000 if importlib.util.find_spec("optional") else 0,
))
"""


def relinked(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda root: (root / "number").write_text("2"),
    "the names in a folder": lambda root: (root / "folder" / "b").touch(),
    "where a link leads": relinked,
    "a module that was missing": lambda root: (root / "optional.py").touch(),
}


def test_whatever_the_program_reads_is_read_again(project: Project) -> None:
    (project.root / "shared.py").write_text(READS + SHARED.replace("(8.0)", "(8.0) * SCALE"))
    (project.root / "folder").mkdir()
    (project.root / "number").write_text("1")
    (project.root / "link").symlink_to("number")
    digests = [project.build().bundle.root_digest]
    for change in CHANGES.values():
        change(project.root)
        built = project.build()
        assert {"reference", "parity of cpu-x86-64-v3"} <= ran(built).keys()
        assert not any(name.startswith("executable") for name in ran(built))
        digests.append(built.bundle.root_digest)
    assert len(set(digests)) == 1 + len(CHANGES)
    assert digests[-1] == project.build(cached=False).bundle.root_digest


def test_damaged_entries_are_rebuilt(project: Project, prepared: tuple[Project, Built]) -> None:
    for path in (project.store.folder / "entries").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    built = project.build()
    assert built.bundle.root_digest == prepared[1].bundle.root_digest
    assert any("damaged entries of the cache, made anew" in note for note in built.notes)
    assert ran(project.build()) == UNCHANGED


def test_other_toolchain_compiles_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cached_backend.code_identity, "package_parts", lambda names: [("package jaxlib", "0.99.0")]
    )
    found = ran(project.build())
    for task in ("executable left[batch=1] for cpu-x86-64-v3", "reference"):
        reasons = found[task]
        assert any(r.startswith("package jaxlib") and r.endswith("-> 0.99.0") for r in reasons)


def test_uncapturable_entry_points_are_all_reported_and_others_built(project: Project) -> None:
    for name, parameters in (("left", "params, x"), ("right", "x")):
        (project.root / f"{name}.py").write_text(f"def f({parameters}):\n    return x @ {name}\n")
    caught = error_of(CaptureError, project.build, keep_going=False)
    assert [finding.where for finding in caught.findings] == ["left[batch=1]"]
    (project.root / "foreign.py").write_text(FOREIGN)
    right = MANIFEST[MANIFEST.index("[entry_points.right]") :]
    with (project.root / "two.toml").open("a") as manifest:
        manifest.write(right.replace("right", "foreign"))
    findings = error_of(CaptureError, project.build, keep_going=True).findings
    assert [f.where for f in findings[:2]] == ["left[batch=1]", "right[batch=1]"]
    codes = {(finding.where.partition("[")[0], finding.code) for finding in findings}
    assert codes == {
        ("left", "AOTC-E829"),
        ("right", "AOTC-E829"),
        ("foreign", "AOTC-E904"),
        ("foreign", "AOTC-E842"),
    }


def test_uncapturable_entry_points_leave_others_compiled_and_checked(project: Project) -> None:
    """One cannot be traced, and of another no fixtures can be made."""
    (project.root / "left.py").write_text(LEFT.replace("sum(1)", "mean(1)"))
    (project.root / "right.py").write_text("def f(x):\n    return x @ 1\n")
    (project.root / "whole.py").write_text("def f(x):\n    return x + 1\n")
    right = MANIFEST[MANIFEST.index("[entry_points.right]") :]
    with (project.root / "two.toml").open("a") as manifest:
        manifest.write(right.replace("right", "whole").replace("float32", "int32"))
    (project.root / "two.aotb").unlink()
    done: list[Done] = []
    caught = error_of(CaptureError, project.build, keep_going=True, on_done=done.append)
    traced, fixtures = caught.findings
    assert (traced.where, traced.code) == ("right[batch=1]", "AOTC-E829")
    assert "entry_points.whole.fixtures" in fixtures.where and fixtures.code == "AOTC-E831"
    names = {each.task.name for each in done}
    assert {
        "reference",
        "executable left[batch=1] for cpu-x86-64-v3",
        "executable left[batch=4] for cpu-x86-64-v3",
        "parity of cpu-x86-64-v3",
    } <= names
    assert not {"capture", "pack"} & names
    assert not (project.root / "two.aotb").exists()
    (project.root / "two.toml").write_text(MANIFEST)
    (project.root / "right.py").write_text(RIGHT)
    again = project.build()
    assert list(again.bundle.manifests["cpu-x86-64-v3"].entry_points) == ["left", "right"]
    assert "executable left[batch=1] for cpu-x86-64-v3" not in ran(again)


@pytest.fixture
def without_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No backend for TPUs, whatever is installed."""

    def backend(platform: str) -> Backend:
        if platform == "tpu":
            raise refusal("AOTC-E909", f"platform {platform}", "")
        return backend_for(platform)

    monkeypatch.setattr("aotc.pipeline.cached_backend.backend_for", backend)


@pytest.mark.usefixtures("without_tpu")
@pytest.mark.parametrize(
    ("targets", "keep_going"),
    [(("cpu-x86-64-v3", "tpu-v5e-1x1"), False), (("tpu-v5e-1x1",), True)],
    ids=["one of two", "the only one"],
)
def test_toolchain_first(project: Project, targets: tuple[str, ...], keep_going: bool) -> None:
    done: list[Done] = []
    with pytest.raises(CompileError) as caught:
        project.build(*targets, keep_going=keep_going, on_done=done.append)
    assert [finding.code for finding in caught.value.findings] == ["AOTC-E909"]
    assert done == []


@pytest.mark.usefixtures("without_tpu")
def test_every_failure_is_reported_and_independent_work_finished(project: Project) -> None:
    (project.root / "right.py").write_text(FOREIGN)
    (project.root / "two.aotb").unlink()
    done: list[Done] = []
    with pytest.raises(CompileError) as caught:
        project.build("tpu-v5e-1x1", "cpu-x86-64-v3", keep_going=True, on_done=done.append)
    codes = [finding.code for finding in caught.value.findings]
    assert codes[0] == "AOTC-E909" and "AOTC-E904" in codes
    where = {finding.where.partition(" ")[0] for finding in caught.value.findings}
    assert {"right[batch=1]", "right[batch=4]"} <= where
    assert not any(name.startswith("left") for name in where)
    assert {d.task.of for d in done if d.task.kind is Kind.EXECUTABLE} == {
        "left[batch=1] for cpu-x86-64-v3",
        "left[batch=4] for cpu-x86-64-v3",
    }
    assert not (project.root / "two.aotb").exists()


def test_rename_is_seen(prepared: tuple[Project, Built], cache: LocalStore, tmp_path: Path) -> None:
    assert prepared[1].compared == (
        "nothing: no build of this manifest, nor of a bundle named two, is known here"
    )

    def built(manifest: Path) -> Built:
        return build(manifest, tmp_path / "two.aotb", BuildOptions(cache=cache))

    shutil.copytree(prepared[0].root, tmp_path / "here")
    built(tmp_path / "here" / "two.toml")
    moved = (tmp_path / "here").rename(tmp_path / "there") / "renamed.toml"
    (moved.parent / "two.toml").rename(moved)
    (moved.parent / "left.py").write_text(f"{LEFT}# a comment\n")
    found = built(moved)
    old = tmp_path / "here" / "two.toml"
    assert found.compared == f"the last build of a bundle named two, from {old}"
    assert ran(found)["capture"] == ("source file left.py changed",)
    again = built(moved)
    assert again.compared == "the last build of this manifest"
    assert ran(again) == UNCHANGED
    moved.write_text(MANIFEST.replace('name = "two"', 'name = "three"'))
    assert built(moved).compared == "the last build of this manifest"
    other = moved.with_name("other.toml")
    other.write_text(MANIFEST.replace('name = "two"', 'name = "four"'))
    assert built(other).compared.startswith("nothing: no build of this manifest, nor of a bundle")


def test_import_decides(cache: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `pip install -e` of the first: the second one's own files are not what is built."""
    one, two = Project(tmp_path / "one"), Project(tmp_path / "two")
    for project in (one, two):
        project.store = cache
        (project.root / "src").mkdir()
        for name in ("left", "right", "shared"):
            (project.root / f"{name}.py").rename(project.root / "src" / f"{name}.py")
    monkeypatch.setenv("PYTHONPATH", str(one.root / "src"))
    first = one.build()
    assert ran(one.build()).keys() == {"capture", "pack"}
    (one.root / "src" / "right.py").write_text(RIGHT.replace("tanh", "sin"))
    assert "reference" in ran(second := two.build())
    assert second.bundle.root_digest != first.bundle.root_digest
    assert second.bundle.root_digest == two.build(cached=False).bundle.root_digest
