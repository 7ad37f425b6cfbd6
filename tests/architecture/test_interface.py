"""Interface that users rely on: commands, options, codes, exit codes, keys and names.

`interface/` holds what there was. A line may be added there when something new is offered; one that
has to change or go means that somebody's script, manifest or policy stops working.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import aotc_runtime
from aotc.base.errors import BuildManifestError, family_of
from aotc.cli.command_group import cli
from aotc.compile.target_files import read_target
from aotc.config.build_manifest import read_build_manifest
from aotc_runtime.base.codes import codes
from aotc_runtime.verification.policy_reader import read_policy
from scripts.command_reference import is_ours
from tests.hostile.authorities import authority

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "interface"
PUBLIC_KEY = ROOT / "tests" / "golden"


def options_of(name: str, command: click.Command) -> Iterator[str]:
    """A line for each parameter: its spellings, the values it takes, its environment variable."""
    yield f"aotc {name}".rstrip()
    for parameter in command.params:
        spelled = "/".join(sorted([*parameter.opts, *parameter.secondary_opts]))
        values = (
            ""
            if getattr(parameter, "is_flag", False)
            else str(parameter.make_metavar(click.Context(command)))
        )
        asked = " required" if parameter.required else ""
        many = " many" if parameter.multiple or parameter.nargs == -1 else ""
        variable = f" {parameter.envvar}" if parameter.envvar else ""
        yield f"aotc {name} {spelled} {values}{asked}{many}{variable}".rstrip()


def every_option(name: str, command: click.Command) -> Iterator[str]:
    yield from options_of(name, command)
    if isinstance(command, click.Group):
        for sub, child in command.commands.items():
            if is_ours(child):
                yield from every_option(f"{name} {sub}".strip(), child)


def keys_in(value: Any, path: str = "") -> Iterator[str]:
    """Every key of a document with its path."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield f"{path}.{key}".removeprefix(".")
            yield from keys_in(child, f"{path}.{key}")
    elif isinstance(value, list):
        for child in value:
            yield from keys_in(child, path)


def test_every_command_and_option_is_kept() -> None:
    kept = (KEPT / "commands.txt").read_text().splitlines()
    assert sorted(every_option("", cli)) == kept


def test_every_code_and_its_exit_code_is_kept() -> None:
    kept = (KEPT / "codes.txt").read_text().splitlines()
    now = [f"{code} {family_of(code).exit_code}" for code in sorted(codes())]
    assert now == kept


def test_an_option_that_was_removed_is_not_back_with_another_meaning() -> None:
    kept = (KEPT / "commands.txt").read_text().splitlines()
    for line in (KEPT / "retired_options.txt").read_text().splitlines():
        option, _, reason = line.partition(": ")
        assert reason and not [each for each in kept if f"{each} ".startswith(f"{option} ")], line


def test_a_code_that_was_removed_means_nothing_else() -> None:
    kept = {line.split()[0] for line in (KEPT / "codes.txt").read_text().splitlines()}
    assert kept.isdisjoint((KEPT / "retired_codes.txt").read_text().splitlines())


def test_every_public_name_of_the_loader_is_kept() -> None:
    kept = (KEPT / "names.txt").read_text().splitlines()
    assert sorted(aotc_runtime.__all__) == kept
    assert all(hasattr(aotc_runtime, name) for name in kept)


MANIFESTS = "arrays.toml", "files.toml", "meshes.toml"
"""Together they use every key; one program cannot."""


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_with_every_key_are_accepted(name: str, tmp_path: Path) -> None:
    for file in ("weights.safetensors", "model.jax", "recorded.npz", "results.npz"):
        (tmp_path / file).touch()
    path = tmp_path / name
    path.write_text((KEPT / name).read_text())
    read_build_manifest(path)


def test_the_keys_of_the_documentation_stand_in_the_manifest_with_every_key() -> None:
    page = (
        (ROOT / "docs" / "reference" / "build-manifest.md")
        .read_text()
        .partition("\n## Targets\n")[0]
    )
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    used = {key for name in MANIFESTS for key in keys_in(tomllib.loads((KEPT / name).read_text()))}
    last = {key.rpartition(".")[2] for key in used}
    missing = {row for row in rows if row.isidentifier()} - last - NO_KEYS
    assert not missing


NO_KEYS = {"fail", "pad", "split", "compile"}
NO_KEYS |= {"top1", "topk", "rmse", "perplexity", "cosine", "auc"}
"""Rows of values, not of keys."""


@pytest.mark.parametrize("path", sorted((ROOT / "targets").glob("*.toml")), ids=lambda p: p.stem)
def test_the_targets_that_come_along_are_read(path: Path) -> None:
    assert read_target(str(path), ROOT).name == path.stem


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_every_key_of_a_target_is_kept(platform: str, tmp_path: Path) -> None:
    lines = (KEPT / f"{platform}.toml").read_text().splitlines()
    path = tmp_path / f"{platform}.toml"
    path.write_text("\n".join(lines))
    read_target(str(path), tmp_path)
    for number, line in enumerate(lines):
        path.write_text("\n".join([*lines[:number], f"no_{line}", *lines[number + 1 :]]))
        with pytest.raises(BuildManifestError):
            read_target(str(path), tmp_path)


def test_a_policy_with_every_key_is_accepted(tmp_path: Path) -> None:
    key = next(PUBLIC_KEY.rglob("*.pub")).read_text()
    other = (
        "-----BEGIN PUBLIC KEY-----\n"
        "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
        "-----END PUBLIC KEY-----\n"
    )
    (tmp_path / "ci.pub").write_text(key)
    certificate = authority(tmp_path / "tsa").root
    (tmp_path / "tsa.pem").write_text(certificate)
    path = tmp_path / "policy.toml"
    text = (KEPT / "policy.toml").read_text().replace("KEY", other)
    text = text.replace('certificates_file = "ci.pub"', 'certificates_file = "tsa.pem"')
    path.write_text(text.replace('"PEM"', json.dumps(certificate)))
    policy = read_policy(path)
    assert (policy.name, len(policy.keys), len(policy.certifiers)) == ("arrays", 2, 1)
