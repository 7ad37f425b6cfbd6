"""Arguments of a deployment on several machines, and what it pins; nothing here needs Ray."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile.tampering import flipped
from replacing import Versions

import aotc_runtime
from aotc_runtime import AotcError
from aotc_serve.ray.pinned_deployment import Arguments, arguments_of, pin
from aotc_serve.service.bundle_repository import Repository
from tests.conftest import Bundle
from tests.refusals import error_of

BOTH = {"bundle": "a.aotb", "trust": "trust.toml"}


def test_text_and_numbers_mean_the_same() -> None:
    text = {"replicas": "2", "max_delay": "2.5", "max_body": "1M"}
    numbers = {"replicas": 2, "max_delay": 2.5, "max_body": 2**20}
    assert arguments_of({**BOTH, **text}) == arguments_of({**BOTH, **numbers})
    assert arguments_of(BOTH) == Arguments("a.aotb", "trust.toml")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"replica": "2"}, "deployment"),
        ({"replicas": "0"}, "deployment"),
        ({"replicas": "two"}, "deployment"),
        ({"call_seconds": "0"}, "deployment"),
        ({"max_body": "much"}, "max_body"),
        ({"max_tensor": "0"}, "max_tensor"),
        ({"trust": None}, "deployment"),
        ({"bundle": None}, "deployment"),
    ],
)
def test_other_arguments_are_refused(change: dict[str, Any], where: str) -> None:
    caught = error_of(AotcError, arguments_of, {**BOTH, **change})
    assert (caught.code, caught.findings[0].where) == ("AOTC-E785", where)


def test_file_pins_verified_digest(digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, policy = digits_bundle
    monkeypatch.chdir(bundle.parent)
    given = {"bundle": bundle.name, "trust": os.path.relpath(policy), "max_delay": "2"}
    what = pin(arguments_of(given))
    assert what.reference == str(bundle) and what.delay == 0.002
    assert what.settings.digest == aotc_runtime.verify(bundle, trust=policy).root_digest
    # Keys and rules, and no file that another node may not have.
    assert what.policy == aotc_runtime.read_policy(policy)


def test_rejected_bundle_is_not_deployed(digits_bundle: Bundle, tmp_path: Path) -> None:
    versions = Versions(digits_bundle[0], tmp_path)
    given = {"bundle": str(digits_bundle[0]), "trust": str(versions.trust)}
    with pytest.raises(AotcError, match="AOTC-E30"):
        pin(arguments_of(given))


def load(place: Path, what: Any) -> list[str]:
    """Load as a replica does, and return its output."""
    said: list[str] = []
    repository = Repository(
        [str(place)], [what.policy], what.settings, lambda event, _: said.append(event)
    )
    try:
        repository.load_all(strict=True)
    finally:
        assert repository.is_ready is ("serving" in said)
        repository.close()
    return said


def test_only_the_pinned_bundle_is_served(digits_bundle: Bundle, tmp_path: Path) -> None:
    versions = Versions(digits_bundle[0], tmp_path)
    place = tmp_path / "digits.aotb"
    versions.write("1.0.0", place)
    what = pin(arguments_of({"bundle": str(place), "trust": str(versions.trust)}))
    assert load(place, what) == ["serving"]
    good = place.read_bytes()
    versions.write("1.0.1", place)
    caught = error_of(AotcError, load, place, what)
    assert caught.code == "AOTC-E783"
    assert caught.findings[0].expected == what.settings.digest
    place.write_bytes(flipped(good))
    with pytest.raises(AotcError, match="AOTC-E2"):
        load(place, what)


def test_without_ray_the_import_names_the_extra() -> None:
    # As where it is not installed, whether it is here or not.
    program = (
        "import sys\nsys.modules['ray'] = None\n"
        "from aotc_runtime import AotcError\n"
        "try:\n    import aotc_serve.ray.ray_app\n"
        "except AotcError as error:\n    print(error.code, error.findings[0].hint)\n"
    )
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert said.startswith("AOTC-E406 ") and "[ray]" in said
