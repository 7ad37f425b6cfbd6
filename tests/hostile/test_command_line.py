"""What a person and a script see: exit code 5, one JSON document, and nothing is ever loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aotc_runtime
from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from aotc_runtime.errors import AotcError

from .archives import archive, entries_of, entry, on_disk
from .tampering import (
    MemoryBundle,
    digest_of,
    flipped,
    put_together,
    roles,
    signed,
    take_apart,
    write_folder,
)

Attack = Callable[[MemoryBundle, Path], Path]


def flip(role: str, form: str = "archive") -> Attack:
    def attack(genuine: MemoryBundle, folder: Path) -> Path:
        digest = roles(genuine)[role]
        bad = genuine.with_blob(digest, flipped(genuine.blobs[digest]))
        return on_disk(bad, form, folder)

    return attack


def cut(genuine: MemoryBundle, folder: Path) -> Path:
    path = on_disk(genuine, "archive", folder)
    path.write_bytes(path.read_bytes()[:100_000])
    return path


def with_link(genuine: MemoryBundle, folder: Path) -> Path:
    path = folder / "bundle.aotb"
    path.write_bytes(archive([*entries_of(genuine), entry("x", b"", b"2", "/etc/passwd")]))
    return path


def with_surplus(genuine: MemoryBundle, folder: Path) -> Path:
    return on_disk(genuine.with_blob(digest_of(b"x"), b"x"), "archive", folder)


def unsigned(genuine: MemoryBundle, folder: Path) -> Path:
    return on_disk(signed(take_apart(genuine)), "archive", folder)


def signed_by_a_stranger(genuine: MemoryBundle, folder: Path) -> Path:
    return on_disk(signed(take_apart(genuine), LocalSigner.ephemeral()), "folder", folder)


def repacked(genuine: MemoryBundle, folder: Path) -> Path:
    documents = take_apart(genuine)
    documents.manifest["version"] = "1.0.1"
    return on_disk(put_together(documents), "archive", folder)


def bad_name(genuine: MemoryBundle, folder: Path) -> Path:
    layout = write_folder(folder / "layout", genuine)
    Path(os.fsdecode(os.fsencode(layout) + b"/\xff\x1b[2J")).write_bytes(b"")
    return layout


def bomb(genuine: MemoryBundle, folder: Path) -> Path:
    return on_disk(genuine.with_file("index.json", b"[" * 2**20), "archive", folder)


ATTACKS: dict[str, tuple[Attack, str]] = {
    "executable": (flip("executable"), "AOTC-E201"),
    "weights in a folder": (flip("weights", "folder"), "AOTC-E201"),
    "root index": (flip("root index"), "AOTC-E201"),
    "envelope": (flip("envelope"), "AOTC-E201"),
    "cut": (cut, "AOTC-E103"),
    "link": (with_link, "AOTC-E104"),
    "surplus": (with_surplus, "AOTC-E204"),
    "unsigned": (unsigned, "AOTC-E301"),
    "stranger": (signed_by_a_stranger, "AOTC-E302"),
    "repacked": (repacked, "AOTC-E305"),
    "bad name": (bad_name, "AOTC-E109"),
    "bomb": (bomb, "AOTC-E106"),
}


def aotc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    code = "from aotc.cli.main import main\nmain()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", ATTACKS)
def test_verify_exits_with_5_and_says_why_in_one_json_document(
    name: str, genuine: MemoryBundle, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    attack, code = ATTACKS[name]
    done = aotc("verify", attack(genuine, tmp_path), "--trust", digits_bundle[1], "--json")
    assert done.returncode == 5, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["ok"] is False and document["exit_code"] == 5
    assert document["findings"][0]["code"] == code
    assert done.stderr == ""


@pytest.mark.parametrize("name", ATTACKS)
def test_load_raises_and_nothing_is_loaded(
    name: str, genuine: MemoryBundle, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    attack, code = ATTACKS[name]
    with pytest.raises(AotcError) as refused:
        aotc_runtime.load(attack(genuine, tmp_path), trust=digits_bundle[1])
    assert refused.value.code == code
    assert refused.value.exit_code == 5


def test_verify_tells_people_on_stderr_without_steering_their_terminal(
    genuine: MemoryBundle, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    done = aotc("verify", bad_name(genuine, tmp_path), "--trust", digits_bundle[1])
    assert done.returncode == 5
    assert done.stdout == "" and "AOTC-E109" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text.replace('name = "digits"', 'name = "vision"'), "AOTC-E306"),
        (lambda text: 'minimum_version = "1.0.1"\n' + text, "AOTC-E307"),
        (lambda text: text.replace("threshold = 1", "threshold = 2"), "AOTC-E309"),
        (lambda text: text.replace("PUBLIC KEY", "PRIVATE KEY"), "AOTC-E310"),
        (lambda text: policy_text("digits", [LocalSigner.ephemeral().public_pem()]), "AOTC-E302"),
        (lambda text: text + "\nunknown = 1\n", "AOTC-E309"),
        (lambda text: "schema = ", "AOTC-E309"),
    ],
    ids=["name", "version", "threshold", "key", "another key", "unknown field", "no TOML"],
)
def test_verify_exits_with_5_where_the_policy_does_not_accept_the_bundle(
    change: Callable[[str], str], code: str, digits_bundle: tuple[Path, Path], tmp_path: Path
) -> None:
    policy = tmp_path / "trust.toml"
    policy.write_text(change(digits_bundle[1].read_text()))
    done = aotc("verify", digits_bundle[0], "--trust", policy, "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["findings"][0]["code"] == code


def test_verify_accepts_the_genuine_bundle(digits_bundle: tuple[Path, Path]) -> None:
    done = aotc("verify", digits_bundle[0], "--trust", digits_bundle[1], "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["gates"][-1] == "host"
