"""`aotc init` on model files."""

import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from tests.conftest import Run
from tests.unit.frontends.test_tensorflow_files import document, module, packed


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of jax.export that takes images of any number and a table of fixed size."""
    (n,) = export.symbolic_shape("images")
    made = export.export(jax.jit(lambda image, table: image @ table))
    shapes = [jax.ShapeDtypeStruct((n, 8), jnp.float32), jax.ShapeDtypeStruct((8, 3), jnp.float32)]
    path = tmp_path_factory.mktemp("model") / "my model.jax"
    path.write_bytes(made(*shapes).serialize())
    return path


def test_model_file_gets_a_manifest(aotc: Run, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "deploy" / "x.toml"
    path.parent.mkdir()
    done = aotc("init", str(model), "-o", str(path))
    assert done.exit_code == 0, done.stderr
    written = tomllib.loads(path.read_text())
    assert written["name"] == "my-model"
    assert written["dimensions"]["images"] == {"range": [1, 64], "profiles": [1, 8, 64]}
    (entry,) = written["entry_points"].values()
    assert entry["source"] == str(model) and "function" not in entry
    assert entry["inputs"] == {
        "arg0": {"shape": ["images", 8], "dtype": "float32"},
        "arg1": {"shape": [8, 3], "dtype": "float32"},
    }


def test_structures_of_a_file_are_inputs(aotc: Run, tmp_path: Path) -> None:
    (n,) = export.symbolic_shape("n")
    call = jax.jit(lambda x: x["pair"][0] + x["pair"][1] * x["scale"])
    pair = [jax.ShapeDtypeStruct((n, 4), jnp.int32)] * 2
    made = export.export(call)({"pair": pair, "scale": jax.ShapeDtypeStruct((n, 1), jnp.int32)})
    (tmp_path / "net.jax").write_bytes(made.serialize())
    named, path = "--input=arg0/pair/1=[rows,4]", tmp_path / "net.toml"
    done = aotc("init", str(tmp_path / "net.jax"), named, "-o", str(path))
    assert done.exit_code == 0, done.stderr
    (entry,) = tomllib.loads(path.read_text())["entry_points"].values()
    leaf = {"shape": ["rows", 4], "dtype": "int32"}
    assert entry["inputs"]["arg0"] == {"pair": [leaf, leaf], "scale": leaf | {"shape": ["rows", 1]}}


@pytest.mark.parametrize(("name", "code"), [("none.jax", "AOTC-E080"), ("bad.jax", "AOTC-E843")])
def test_invalid_model_file_writes_nothing(aotc: Run, tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "bad.jax").write_bytes(b"no model")
    done = aotc("init", str(tmp_path / name), "-o", str(tmp_path / "x.toml"))
    assert done.codes == [code] and not (tmp_path / "x.toml").exists()


def test_what_a_model_changes_is_donated_and_needs_no_input(aotc: Run, tmp_path: Path) -> None:
    files = Path(__file__).parents[2] / "frontends" / "pytorch" / "files"
    done = aotc("init", str(files / "cache.pt2"), "-o", str(tmp_path / "x.toml"))
    assert done.exit_code == 0, done.stderr
    (entry,) = tomllib.loads((tmp_path / "x.toml").read_text())["entry_points"].values()
    assert entry["donate"] == ["state"]
    assert entry["inputs"].keys() == {"x", "position"}
    assert "int64 in the file: pass 32 bits" in (tmp_path / "x.toml").read_text()
    assert "eval()" not in done.stderr
    done = aotc("init", str(files / "trained.pt2"), "-o", str(tmp_path / "y.toml"))
    assert "running_mean: was the model exported without `eval()`?" in done.stderr


def test_sizes_that_a_file_alone_has_are_the_profiles(aotc: Run, tmp_path: Path) -> None:
    told = document()
    told["modules"] = [
        {"shapes": [[n, 4]], "weights": ["dense/kernel"], "file": f"modules/{n}.mlirbc"}
        for n in (3, 8)
    ]
    data = packed(told, **{"modules/3.mlirbc": module(3)})
    (tmp_path / "scale.tfhlo").write_bytes(data)
    done = aotc("init", str(tmp_path / "scale.tfhlo"), "-o", str(tmp_path / "scale.toml"))
    assert done.exit_code == 0, done.stderr
    manifest = tomllib.loads((tmp_path / "scale.toml").read_text())
    assert manifest["dimensions"]["batch"] == {"range": [3, 8], "profiles": [3, 8]}


@pytest.mark.parametrize("name", ["x_1", "seq"])
def test_pytorch_file_keeps_range_and_batch_axis(aotc: Run, tmp_path: Path, name: str) -> None:
    files = Path(__file__).parents[2] / "frontends" / "pytorch" / "files"
    path = tmp_path / "x.toml"
    named = ["--input=x=[batch,seq]"] if name == "seq" else []
    done = aotc("init", str(files / "sizes.pt2"), *named, "-o", str(path))
    assert done.exit_code == 0, done.stderr
    assert "batch is 2 or more, as the file's export states: it refuses 1" in done.stderr
    written = tomllib.loads(path.read_text())
    assert written["dimensions"] == {
        "batch": {"range": [2, 20], "profiles": [2, 8, 20]},
        name: {"range": [2, 9], "profiles": [2, 8, 9]},
    }
    (entry,) = written["entry_points"].values()
    assert {name: leaf["shape"] for name, leaf in entry["inputs"].items()} == {
        "x": ["batch", name],
        "y": ["batch", name],
    }
    stated = ["--dimension=batch=2:4", "-o", str(tmp_path / "y.toml")]
    assert "state the range" not in aotc("init", str(files / "sizes.pt2"), *stated).stderr


def test_recorded_inputs_become_the_fixtures(aotc: Run, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", arg0=np.ones((5, 8), "f4"), arg1=np.ones((8, 3), "f4"))
    np.savez(tmp_path / "out.npz", result=np.full((5, 3), 8, "f4"))
    path = tmp_path / "deploy" / "x.toml"
    path.parent.mkdir()
    recorded = [f"--inputs={tmp_path / 'in.npz'}", f"--expected={tmp_path / 'out.npz'}"]
    done = aotc("init", str(model), *recorded, "-o", str(path))
    assert done.exit_code == 0, done.stderr
    (entry,) = tomllib.loads(path.read_text())["entry_points"].values()
    assert entry["fixtures"] == {
        "file": str(tmp_path / "in.npz"),
        "expected": str(tmp_path / "out.npz"),
    }


def test_recorded_function(aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scorer.py").write_text(
        "def score(x, ids):\n    return x * ids[:, None]\n", encoding="utf-8"
    )
    np.savez("in.npz", x=np.ones((5, 8), "f4"), ids=np.arange(2, 7, dtype="i4"))
    np.savez("scalar.npz", x=np.float32(1), ids=np.arange(2, dtype="i4"))
    done = aotc("init", "scorer:score", "--inputs", "scalar.npz", "-o", "scalar.toml")
    assert done.exit_code == 0 and "[dimensions" not in done.stdout, "no axis is shared"
    done = aotc("init", "scorer:score", "--inputs", "in.npz")
    assert done.exit_code == 0, done.stderr
    text = Path("scorer.toml").read_text(encoding="utf-8")
    assert "ranges = { ids = [2, 6] }  # as seen: widen to" in text
    written = tomllib.loads(text)
    assert written["dimensions"]["batch"]["profiles"] == [1, 5, 8, 64]
    (entry,) = written["entry_points"].values()
    assert entry["inputs"] == {
        "x": {"shape": ["batch", 8], "dtype": "float32"},
        "ids": {"shape": ["batch"], "dtype": "int32"},
    }
    assert entry["fixtures"] == {"file": "in.npz", "ranges": {"ids": [2, 6]}}


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("--expected in.npz", "AOTC-E080", "add --inputs"),
        ("--inputs none.npz", "AOTC-E012", "none.npz"),
        ("--inputs in.npz --expected none.npz", "AOTC-E012", "none.npz"),
        ("--inputs in.npz", "AOTC-E083", "labels belong to `evaluation`"),
        ("--inputs two.npz --input=x=[n] --input=y=[n]", "AOTC-E083", "n=5, as in x"),
        ("--inputs deep.npz", "AOTC-E083", "name the array `z_a`"),
    ],
)
def test_recorded_calls_that_cannot_be_used_are_refused(
    options: str, code: str, says: str, aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scorer.py").write_text("def score(x, y=0, z_a=0):\n    return x\n", encoding="utf-8")
    np.savez("in.npz", x=np.ones(5, "f4"), z=np.ones(5, "f4"))
    np.savez("two.npz", x=np.ones(5, "f4"), y=np.ones(4, "f4"))
    np.savez("deep.npz", **{"x": np.ones(5, "f4"), "z/a": np.ones(5, "f4")})
    done = aotc("init", "scorer:score", *options.split())
    assert done.codes == [code] and says in done.stderr and not Path("scorer.toml").exists()
