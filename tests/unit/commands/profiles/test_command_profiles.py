"""`aotc profiles`: from a log to profiles in the manifest, and a gate for what was built."""

import shutil
import tomllib
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import tomlkit

from aotc.config.build_manifest import read_build_manifest
from tests.conftest import Run, manifest_of

MODEL = """
import jax.numpy as jnp

def encode(tokens, mask):
    kept = jnp.where(mask, tokens, 0.0)
    return jnp.tanh(kept[:, :, None] * kept[:, None, :]).sum(axis=2)

def double(x):
    return x * 2
"""

ENCODER = """\
schema = 1
name = "encoder"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]  # the fleet

[dimensions.batch]
range = [1, 8]
profiles = [8]               # a guess

[dimensions.seq]
range = [1, 64]
profiles = [64]

[entry_points.encode]
function = "text.model:encode"
inputs.tokens = { shape = ["batch", "seq"], dtype = "float32" }
inputs.mask = { shape = ["batch", "seq"], dtype = "bool" }

[entry_points.encode.out_of_profile]
batch = "pad"
seq = "pad"

[entry_points.encode.fixtures]
seed = 0
"""

DOUBLE = manifest_of("""\
name = "double"

[dimensions.batch]
range = [1, 64]
profiles = [1, 64]  # one and all

# What is served.
[entry_points.double]
function = "text.model:double"
inputs.x = { shape = ["batch", 4], dtype = "float32" }
out_of_profile = { batch = "pad" }
fixtures = { seed = 0 }
""")

PADDED = 'out_of_profile = { batch = "pad" }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "__init__.py").touch()
    (tmp_path / "text" / "model.py").write_text(MODEL)
    (tmp_path / "encoder.toml").write_text(ENCODER)
    (tmp_path / "double.toml").write_text(DOUBLE)
    (tmp_path / "batches.jsonl").write_text(
        '{"batch": 1}\n' * 50 + '{"batch": 9}\n' * 30 + '{"batch": 30}\n' * 5 + '{"batch": 65}\n'
    )
    return tmp_path


def suggest(manifest: str, log: str) -> tuple[str, ...]:
    return ("profiles", "suggest", manifest, "--traffic", log)


def write_log(path: Path, requests: int) -> None:
    """A generated log with a long tail, in batches and in lengths."""
    random = np.random.default_rng(5)
    batch = np.minimum(random.geometric(0.4, requests), 8)
    seq = np.clip(random.lognormal(2.5, 0.8, requests).astype(np.int64), 1, 64)
    rows = zip(batch.tolist(), seq.tolist(), strict=True)
    path.write_text("".join(f'{{"batch": {b}, "seq": {s}}}\n' for b, s in rows), "utf-8")


def test_the_text_encoder_gets_profiles_from_100_000_requests(aotc: Run, folder: Path) -> None:
    write_log(folder / "shapes.jsonl", 100_000)
    done = aotc("profiles", "suggest", "encoder.toml", "--traffic", "shapes.jsonl", "--json")
    document = done.document
    assert document["traffic"]["requests"] == 100_000
    suggested, today = document["suggested"], document["today"]
    assert len(suggested["profiles"]) == 8
    assert len(today["profiles"]) == 1
    assert suggested["coverage"] == today["coverage"] == 1.0
    assert suggested["cost"] < today["cost"] / 4
    assert document["optimal"] is False
    assert sum(profile["calls"] for profile in suggested["profiles"]) == 100_000


def test_the_best_sizes_of_one_dimension_are_exact_and_end_as_toml(aotc: Run, folder: Path) -> None:
    arguments = (*suggest("double.toml", "batches.jsonl"), "--max", "3")
    document = aotc(*arguments, "--json").document
    assert (document["method"], document["optimal"]) == ("dynamic programming", True)
    assert document["traffic"]["outside"] == {"batch above 64": 1}
    assert document["suggested"]["coverage"] == pytest.approx(85 / 86)
    wanted = [{"batch": 1}, {"batch": 9}, {"batch": 30}]
    assert [profile["sizes"] for profile in document["suggested"]["profiles"]] == wanted
    text = aotc(*arguments).stdout
    table = text[text.index("\n[entry_points.") :]
    assert tomllib.loads(table) == {"entry_points": {"double": {"profiles": wanted}}}
    (folder / "double.toml").write_text(DOUBLE + table.partition("]\n")[2])
    assert list(read_build_manifest(folder / "double.toml").profiles("double", "")) == wanted


def test_profiles_are_written_into_the_manifest(aotc: Run, folder: Path) -> None:
    override = "\n[target.cpu-x86-64-v3.dimensions.batch]\nprofiles = [64]  # here\n"
    for more, target in (("", ""), (override, "cpu-x86-64-v3")):
        (folder / "double.toml").write_text(DOUBLE + more)
        arguments = (*suggest("double.toml", "batches.jsonl"), "--max", "2")
        done = aotc(*arguments, "--write")
        assert f"wrote {'target.' * bool(more)}" in done.stdout
        assert "# What is served." in (folder / "double.toml").read_text()
        manifest = read_build_manifest(folder / "double.toml")
        assert list(manifest.profiles("double", target)) == [{"batch": 9}, {"batch": 30}]


@pytest.mark.parametrize(
    "broken", [lambda document: "[", lambda document: 'schema = 1\nname = "other"\n']
)
def test_a_manifest_that_would_say_something_else_is_not_written(
    refused: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, broken: Callable[..., str]
) -> None:
    before, dumps = (folder / "double.toml").read_text(), tomlkit.dumps
    texts = cycle([dumps, broken])  # read, then written; once more for --json
    monkeypatch.setattr(tomlkit, "dumps", lambda document: next(texts)(document))
    done = refused(
        [*suggest("double.toml", "batches.jsonl"), "--max", "2", "--write"], 2, "AOTC-E024"
    )
    assert "build manifest is not editable in place" in done.stderr
    assert (folder / "double.toml").read_text() == before


def test_a_dimension_that_two_entry_points_share_needs_a_name(aotc: Run, folder: Path) -> None:
    second = DOUBLE.split("# What is served.")[1].replace(".double]", ".again]")
    (folder / "double.toml").write_text(DOUBLE + second)
    arguments = suggest("double.toml", "batches.jsonl")
    assert aotc(*arguments, "--json").document["findings"][0]["code"] == "AOTC-E042"
    done = aotc(*arguments, "--entry", "again", "--max", "2")
    assert "[entry_points.again]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (["--traffic", "none.jsonl"], 2, "AOTC-E040"),
        (["--traffic", "double.toml"], 2, "AOTC-E041"),
        (["--traffic", "batches.jsonl", "--entry", "other"], 2, "AOTC-E042"),
        (["--traffic", "batches.jsonl", "--target", "arm"], 3, "AOTC-E811"),
        (["--traffic", "large.jsonl"], 2, "AOTC-E041"),
        (["--traffic", "batches.jsonl", "--write"], 3, "AOTC-E807"),
    ],
)
def test_what_cannot_be_suggested_is_refused(
    refused: Run, folder: Path, arguments: list[str], exit_code: int, code: str
) -> None:
    (folder / "large.jsonl").write_text('{"batch": 1000}\n')
    text = DOUBLE
    if "--write" in arguments:
        text = DOUBLE.replace("[1, 64]  # one and all", '"range"').replace(PADDED, "")
        text = text.replace("schema = 1\n", 'schema = 1\nengines = ["onnxruntime"]\n')
    (folder / "double.toml").write_text(text)
    refused(["profiles", "suggest", "double.toml", *arguments], exit_code, code)
    assert (folder / "double.toml").read_text() == text


def test_the_text_fits_a_terminal_and_shows_profiles(aotc: Run, folder: Path) -> None:
    write_log(folder / "shapes.jsonl", 3000)
    (folder / "shapes.jsonl").open("a").write("not a line\n")
    done = aotc(*suggest("encoder.toml", "shapes.jsonl"))
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "line 3001 left out: not JSON" in done.stdout
    assert "batch=8,seq=64" in done.stdout and "{ batch = 8, seq = 64 }," in done.stdout
    assert "by greedy and exchange" in done.stdout


def test_without_a_policy_that_pads_only_exact_sizes_count(aotc: Run, folder: Path) -> None:
    (folder / "double.toml").write_text(DOUBLE.replace('out_of_profile = { batch = "pad" }\n', ""))
    done = aotc(*suggest("double.toml", "batches.jsonl"), "--max", "2")
    assert "not padded, so that only exact sizes serve: batch" in done.stdout
    assert "93.02 %" in done.stdout


def test_a_split_that_no_call_could_take_is_noted_at_build(aotc: Run, folder: Path) -> None:
    text = DOUBLE.replace('batch = "pad"', 'batch = "split"')
    second = text.split("# What is served.")[1].replace(".double]", ".again]")
    (folder / "double.toml").write_text(f"{text}profiles = [{{ batch = 64 }}]\n{second}")
    done = aotc("build", "double.toml", "-o", "double.aotb")
    assert done.exit_code == 0
    assert "note: no call of double is split along batch for cpu-x86-64-v3" in done.stderr
    assert "no call of again" not in done.stderr


@pytest.fixture
def built(once: Callable[..., Path], aotc: Run, folder: Path) -> Path:
    """A copy of the bundle, to be changed."""

    def fill(place: Path) -> None:
        assert aotc("build", "double.toml", "-o", place / "double.aotb").exit_code == 0

    return Path(shutil.copyfile(once("double", fill) / "double.aotb", folder / "double.aotb"))


def test_a_bundle_is_held_to_its_traffic(aotc: Run, folder: Path, built: Path) -> None:
    command = ("profiles", "check", "double.aotb", "--traffic", "batches.jsonl")
    padding = (30 * (64 - 9) + 5 * (64 - 30)) / (50 + 30 * 9 + 5 * 30)
    limits = ("--min-coverage", "0.98", "--max-padding", f"{padding + 1e-6}")
    enough = aotc(*command, *limits, "--json")
    assert (enough.exit_code, enough.document["ok"]) == (0, True)
    assert enough.document["signatures_verified"] is False
    (checked,) = enough.document["checked"]
    assert checked["coverage"] == pytest.approx(85 / 86)
    assert checked["padding"] == pytest.approx(padding)
    assert checked["uncovered"][0]["sizes"] == {"batch": 65}
    assert [o["sizes"]["batch"] for o in checked["padded"]] == [9, 30]
    assert aotc(*command).exit_code == 0
    assert aotc(*command, "--target", "cpu-x86-64-v3").exit_code == 0
    failed = aotc(*command, "--min-coverage", "0.999", "--max-padding", "0.15")
    assert (failed.exit_code, failed.codes) == (9, ["AOTC-E971", "AOTC-E972"])
    assert "batch=9  30 times to batch=64" in failed.stdout
    document = aotc(*command, "--min-coverage", "0.999", "--json").document
    assert (document["ok"], document["exit_code"]) == (False, 9)
    assert document["checked"] == [checked]


def test_what_cannot_be_checked_is_refused(refused: Run, folder: Path, built: Path) -> None:
    command = ["profiles", "check", "double.aotb", "--traffic"]
    refused([*command, "batches.jsonl", "--target", "arm"], 2, "AOTC-E045")
    refused([*command, "batches.jsonl", "--entry", "other"], 2, "AOTC-E042")
    done = refused([*command, "batches.jsonl", "--entry", "doubel"], 2, "AOTC-E042")
    assert "did you mean `double`?" in done.stderr
    refused([*command, "none"], 2, "AOTC-E040")
    data = bytearray(built.read_bytes())
    data[len(data) // 2] ^= 1
    built.write_bytes(data)
    refused([*command, "batches.jsonl"], 5, "AOTC-E201")


def test_profile_beyond_memory_limit_is_named(aotc: Run, refused: Run, folder: Path) -> None:
    def limited(limit: str) -> None:
        text = f"{DOUBLE}\n[target.cpu-x86-64-v3]\nmemory_limit = {limit}\n"
        (folder / "double.toml").write_text(text)

    # 64 rows of 4 floats go in and out.
    limited(str(2 * 64 * 4 * 4))
    cached = ("--cache", "cache")  # what is compiled does not depend on the limit
    assert aotc("build", "double.toml", "-o", "double.aotb", *cached).exit_code == 0
    limited('"2 kB"')
    done = refused(["build", "double.toml", "-o", "other.aotb", *cached], 9, "AOTC-E973")
    assert "double[batch=64] needs 2048" in done.stderr
    assert "double[batch=1]" not in done.stderr
    assert "double.toml:18 target.cpu-x86-64-v3.memory_limit" in done.stderr
    assert not (folder / "other.aotb").exists()
    limited('"two"')
    refused(["build", "double.toml"], 3, "AOTC-E805")
