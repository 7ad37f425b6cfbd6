"""Tests that the files of examples/docker/Dockerfile exist and its images' commands work."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np

from tests.conftest import ROOT, Bundle
from tests.examples.started import EXAMPLES, copied, program, server

Line = tuple[str, str]


def stages() -> dict[str, list[Line]]:
    """Instructions by stage: the word, and what follows it."""
    found: dict[str, list[Line]] = {}
    text = (EXAMPLES / "docker" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            stage = found.setdefault(rest.rpartition(" AS ")[2], [])
        if word and not word.startswith("#"):
            stage.append((word, rest))
    return found


def only(stage: str, word: str) -> str:
    (found,) = [rest for each, rest in stages()[stage] if each == word]
    return found


def test_what_the_server_is_installed_from_is_in_this_repository() -> None:
    copied_ = [rest.split()[:-1] for word, rest in stages()["serve"] if word == "COPY"]
    assert all((ROOT / source).exists() for sources in copied_ for source in sources)
    installed = re.findall(r"'/src/([a-z/]+)\[([a-z]+)\]'", only("serve", "RUN"))
    assert installed == [("runtime", "xla"), ("runtime/serve", "serve")]
    for folder, extra in installed:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        assert extra in project["optional-dependencies"]
    loader = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text("utf-8"))["project"]
    assert json.loads(only("serve", "ENTRYPOINT"))[0] in loader["scripts"]


def test_nothing_in_it_runs_as_root() -> None:
    user = int(only("serve", "USER"))
    manifests = [*EXAMPLES.glob("kubernetes/*.yaml"), *EXAMPLES.glob("kserve/*.yaml")]
    assert user > 0 and all(f"runAsUser: {user}" in p.read_text("utf-8") for p in manifests)


def test_without_arguments_it_says_what_it_can() -> None:
    command = program(sys.executable, json.loads(only("serve", "CMD")), {"/src": ROOT})
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serve" in done.stdout and "verify" in done.stdout


def test_with_a_bundle_it_serves_that(digits_bundle: Bundle, tmp_path: Path) -> None:
    assert only("with-bundle", "COPY") == "digits.aotb trust.toml /models/"
    places = copied(digits_bundle, tmp_path)
    (tmp_path / "policy" / "trust.toml").rename(tmp_path / "models" / "trust.toml")
    command = program(sys.executable, json.loads(only("with-bundle", "CMD")), places)
    with server([*command, "--port", "0"]) as served:
        served.wait_for("ready")
        assert served.infer("digits", {"image": ("FP32", np.ones((1, 64), np.float32))})[0] == 200
