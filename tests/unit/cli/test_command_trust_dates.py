"""`aotc trust revoke --since`: a key that is revoked from a time on."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from tests.conftest import Run
from tests.hostile.authorities import authority

REVOKE = ("trust", "revoke", "trust.toml", "--key", "ci.pub")


@pytest.fixture
def key(aotc: Run) -> str:
    """The id of ci.pub, which trust.toml trusts."""
    made: str = aotc("keygen", "ci", "--plain", "--json").document["key_id"]
    aotc("trust", "init", "--key", "ci.pub", "--name", "digits")
    return made


@pytest.mark.parametrize("table", ["", "[revoked]\nroots = []\n", "revoked = { blobs = [] }\n"])
def test_a_key_is_revoked_from_a_time_on(aotc: Run, key: str, table: str) -> None:
    text = Path("trust.toml").read_text("utf-8")
    front = table.startswith("revoked")
    Path("trust.toml").write_text(f"{table}{text}" if front else f"{text}{table}", "utf-8")
    done = aotc(*REVOKE, "--since", "2999-01-01", "--json")
    assert done.document["revoked"] == {"keys": [key], "roots": [], "blobs": []}
    assert read_policy(Path("trust.toml")).revoked.since == {key: datetime(2999, 1, 1, tzinfo=UTC)}
    again = aotc(*REVOKE, "--since", "2999-01-01T00:00:00Z", "--json").document
    assert (again["revoked"]["keys"], again["already"]) == ([], [key])
    earlier = aotc(*REVOKE, "--since", "1999-01-01", "--json").document
    assert earlier["revoked"]["keys"] == [key] and "too few keys count now" in earlier["notes"][0]
    (found,) = policy_keys(read_policy(Path("trust.toml"))).values()
    assert found.revoked_since == datetime(1999, 1, 1, tzinfo=UTC)
    assert f"revoked.since  {key} 1999-01-01T00:00:00" in aotc("trust", "show", "trust.toml").stdout


def test_show_names_authorities(aotc: Run, refused: Run, key: str, tmp_path: Path) -> None:
    text = Path("trust.toml").read_text("utf-8")
    more = '[[timestamp_authorities]]\nname = "tsa"\ncertificates_file = "tsa.pem"\n'
    Path("trust.toml").write_text(f"{text}{more}", "utf-8")
    Path("tsa.pem").write_text("no certificate", "utf-8")
    for command in ("show", "check"):
        refused(["trust", command, "trust.toml"], 5, "AOTC-E309")
    Path("tsa.pem").write_text(authority(tmp_path / "tsa").root, "utf-8")
    assert "timestamps by tsa\n" in aotc("trust", "show", "trust.toml").stdout
    shown = aotc("trust", "show", "trust.toml", "--json").document
    assert shown["timestamp_authorities"] == ["tsa"]
    assert aotc("trust", "check", "trust.toml").exit_code == 0
