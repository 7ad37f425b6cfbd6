"""An engine with its kind of targets, a frontend and a command, installed beside aotc, through the
whole main line.

`abacus` is a distribution of four modules (`tests/e2e/abacus`): its entry points are all that aotc
sees of it.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command_lines import Said, run_all

from tests.conftest import Once
from tests.running import printed

ABACUS = Path(__file__).parent / "abacus"

PROGRAM = """
import jax.numpy as jnp
import numpy as np

def init():
    return {"bias": jnp.arange(3.0), "kernel": jnp.arange(12.0).reshape(4, 3) / 7}

def predict(params, image):
    return image @ params["kernel"] + params["bias"]

def other(params, image):
    return image @ params["kernel"] - params["bias"]
"""

MANIFEST = """
schema = 1
name = "sums"
version = "1.0.0"
targets = ["wooden"]

[weights.params]
init = "program:init"

[dimensions.batch]
range = [1, 8]
profiles = [1, 4]

[entry_points.predict]
function = "program:FUNCTION"
bind = { params = "params" }
inputs.image = { shape = ["batch", 4], dtype = "float32" }
out_of_profile.batch = "pad"

[entry_points.predict.fixtures]
ranges = { image = [-3.0, 3.0] }
"""

MODEL_MANIFEST = MANIFEST.replace('function = "program:FUNCTION"', 'source = "sums.beads"')
for _line in ('bind = { params = "params" }\n', '[weights.params]\ninit = "program:init"\n'):
    MODEL_MANIFEST = MODEL_MANIFEST.replace(_line, "")

BEADS = {"kernel": [[n / 7 + m for n in range(3)] for m in range(4)], "bias": [0.0, 1.0, 2.0]}

TARGET = """
schema = 1
name = "wooden"
description = "An abacus of wood"
platform = "abacus"
rods = 3
"""

SERVER = """
import json, sys
import numpy as np
import aotc_runtime

bundle, policy = sys.argv[1:]
image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load(bundle, trust=policy) as loaded:
    predict = loaded["predict"]
    kept = predict.on_device(image)
    try:
        predict(image * 10_000)
    except aotc_runtime.BackendError as error:
        refused = [error.code, error.findings[0].expected, error.findings[0].found]
    print(json.dumps({
        "image": image.tolist(),
        "exact": predict(image).tolist(),
        "padded": predict(image[:2]).tolist(),
        "on_device": np.asarray(kept).tolist(),
        "refused": refused,
        "report": loaded.report(),
        "modules": sorted(sys.modules),
    }))
"""


MODEL_SERVER = """
import json, sys
import numpy as np
import aotc_runtime

image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
with aotc_runtime.load(sys.argv[1], trust=sys.argv[2]) as loaded:
    print(json.dumps(loaded["predict"](image).tolist()))
"""


def write_program(folder: Path, function: str) -> None:
    (folder / "targets").mkdir(parents=True)
    (folder / "targets" / "wooden.toml").write_text(TARGET)
    (folder / "program.py").write_text(PROGRAM)
    (folder / "sums.toml").write_text(MANIFEST.replace("FUNCTION", function))


TRUST = "trust init -o sums.trust.toml --name sums --key release.pub"
LINES = {
    "keygen": ("good", "keygen release --plain"),
    "trust": ("good", TRUST),
    "build": ("good", "build sums.toml --key release.key -o sums.aotb --json"),
    "model": ("good", "build model.toml --key release.key -o model.aotb --json"),
    "rods": ("good", "rods model.aotb"),
    "help": ("good", "--help"),
    "list": ("good", "targets list --json"),
    "show": ("good", "targets show wooden --toml --json"),
    "check": ("good", "targets check wooden --json"),
    "verify": ("good", "verify sums.aotb --trust sums.trust.toml --json"),
    "show the bad one": ("bad", "targets show wooden --json"),
    "build the wrong one": ("wrong", "build sums.toml --json"),
}
"""Commands that have the distribution on their path, and the folders that they run in."""

LINES_WITHOUT = {
    "verify": ("good", "verify sums.aotb --trust sums.trust.toml --json"),
    "show": ("good", "targets show wooden --json"),
    "inspect": ("good", "inspect sums.aotb"),
    "rods": ("good", "rods sums.aotb --json"),
}


@pytest.fixture(scope="module")
def root(once: Once) -> Path:
    """Programs: a good one, one that the engine computes wrongly, and one with a bad target; and
    what commands say of them with the distribution on their path, and without.
    """

    def fill(root: Path) -> None:
        for name in ("good", "wrong", "bad"):
            write_program(root / name, "other" if name == "wrong" else "predict")
        (root / "good" / "model.toml").write_text(MODEL_MANIFEST)
        (root / "good" / "sums.beads").write_text(json.dumps(BEADS))
        bad = TARGET.replace("rods = 3", 'rods = "3"')
        (root / "bad" / "targets" / "wooden.toml").write_text(bad)
        said = []
        for lines, variables in ((LINES, {"PYTHONPATH": str(ABACUS)}), (LINES_WITHOUT, {})):
            every = [(root / name, line.split()) for name, line in lines.values()]
            said.append(dict(zip(lines, run_all(every, variables), strict=True)))
        (root / "said.json").write_text(json.dumps(said))

    return once("engines", fill)


def read_said(root: Path, which: int) -> dict[str, Said]:
    read = json.loads((root / "said.json").read_text())[which]
    return {name: Said(*each) for name, each in read.items()}


@pytest.fixture(scope="module")
def said(root: Path) -> dict[str, Said]:
    """Return the output of commands with the distribution on their path."""
    return read_said(root, 0)


@pytest.fixture(scope="module")
def folder(root: Path, said: dict[str, Said]) -> Path:
    """sums.aotb with sums.trust.toml, signed."""
    for each in ("keygen", "trust", "build"):
        assert said[each].exit_code == 0, said[each]
    return root / "good"


@pytest.fixture(scope="module")
def without(root: Path) -> dict[str, Said]:
    """Return the output of commands without the distribution on their path."""
    return read_said(root, 1)


def test_its_target_files_are_read_and_listed(said: dict[str, Said]) -> None:
    listed = {each["name"]: each for each in said["list"].document["targets"]}
    assert (listed["wooden"]["platform"], listed["wooden"]["platform_checked"]) == ("abacus", "run")
    shown = said["show"].document["toml"]
    assert "rods = 3\n" in shown and 'platform = "abacus"\n' in shown
    checked = said["check"].document
    assert checked["compiles_here"] and checked["runs_here"], checked


def test_a_key_that_its_target_files_lack_is_told_with_its_line(said: dict[str, Said]) -> None:
    (finding,) = said["show the bad one"].document["findings"]
    assert finding["code"] == "AOTC-E805"
    assert finding["where"].endswith("wooden.toml:6 rods")


def test_its_bundles_are_verified(folder: Path, said: dict[str, Said]) -> None:
    verified = said["verify"].document
    assert verified["ok"] and verified["target"] == "wooden", verified
    assert verified["gates"][-1] == "host"


def test_people_are_told_its_version_instead_of_jaxlibs(without: dict[str, Said]) -> None:
    told = without["inspect"].out
    assert "abacus 1.0" in told and "jaxlib" not in told


def test_executables_ran_and_matched_plain_jax_at_build(folder: Path) -> None:
    from aotc_runtime.schema.bundle_manifest import ParityRan
    from aotc_runtime.system.bundle_files import open_bundle
    from aotc_runtime.verification.bundle_examination import read_unverified

    contents, _ = read_unverified(open_bundle(folder / "sums.aotb"))
    (manifest,) = contents.manifests.values()
    assert manifest.target.platform == manifest.requires.platform == "abacus"
    for profile in manifest.entry_points["predict"].profiles:
        assert isinstance(profile.parity, ParityRan)
        assert float(profile.parity.max_abs) < 1e-5


def test_a_server_answers_with_it_and_never_starts_xla(folder: Path) -> None:
    paths = [str(ABACUS), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    served = printed(SERVER, "sums.aotb", "sums.trust.toml", folder=folder, PYTHONPATH=path)
    answer = json.loads(served)
    image = np.array(answer["image"], np.float32)
    expected = image @ (np.arange(12, dtype=np.float32).reshape(4, 3) / 7) + np.arange(3)
    for name in ("exact", "on_device"):
        np.testing.assert_allclose(answer[name], expected, atol=1e-5)
    np.testing.assert_allclose(answer["padded"], expected[:2], atol=1e-5)
    assert answer["refused"] == ["AOTC-E755", "", "abacus: a first number of more than 3 digits"]
    report = answer["report"]
    assert len(report["fixtures"]) == 2 and report["compilations"] == 0
    assert not {"jax", "aotc"} & {name.partition(".")[0] for name in answer["modules"]}
    assert "jaxlib.xla_client" not in answer["modules"]


def test_its_model_files_are_built_with_it(folder: Path, said: dict[str, Said]) -> None:
    assert said["model"].exit_code == 0, said["model"]
    model = ("model.aotb", "sums.trust.toml")
    served = printed(MODEL_SERVER, *model, folder=folder, PYTHONPATH=str(ABACUS))
    image = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    expected = image @ np.array(BEADS["kernel"], np.float32) + np.array(BEADS["bias"], np.float32)
    np.testing.assert_allclose(json.loads(served), expected, atol=1e-5)


def test_its_command_runs_and_stands_in_the_help(said: dict[str, Said]) -> None:
    assert said["rods"].out == "wooden: 3 rods\n", said["rods"]
    section = said["help"].out.partition("\nAbacus:\n")[2].partition("\n\n")[0]
    assert section.split() == ["rods", "Show", "how", "many", "rods", "each", "target", "needs."]


def test_without_the_distribution_there_is_no_such_command(without: dict[str, Said]) -> None:
    assert without["rods"].exit_code == 2
    assert without["rods"].document["findings"][0]["code"] == "AOTC-E001"


def test_a_program_that_it_computes_wrongly_does_not_pass(said: dict[str, Said]) -> None:
    built = said["build the wrong one"].document
    assert {finding["code"][:7] for finding in built["findings"]} == {"AOTC-E9"}, built
    assert "wooden" in built["findings"][0]["where"]


def test_bundle_without_its_engine_is_incompatible(without: dict[str, Said]) -> None:
    refused, shown = (without[name].document for name in ("verify", "show"))
    assert [finding["code"] for finding in refused["findings"]] == ["AOTC-E501", "AOTC-E405"]
    (finding,) = shown["findings"]
    assert finding["code"] == "AOTC-E805" and finding["where"].endswith("wooden.toml:5 platform")
