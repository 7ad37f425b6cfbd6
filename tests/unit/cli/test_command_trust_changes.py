"""`aotc trust add-key | revoke | show | check`: policies changed in place, shown and judged."""

import json
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.schema.trust_policy import Revoked
from aotc_runtime.verification.certificate_rules import certifier_keys
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from tests.conftest import Bundle, Run
from tests.hostile.authorities import authority

COMMENTED = """\
# whom we believe
schema = 1   # the only one
name = "digits"

[[keys]]
name = "ci"      # the build server
public_key = '''
{pem}'''

[accepts]
jaxlib = ["0.12.0"]   # approved in May
"""
ZEROS = "sha256:" + "0" * 64


@pytest.fixture
def pems(aotc: Run, tmp_path: Path) -> dict[str, str]:
    """Ids of the keys ci, new and lost; trust.toml trusts ci, and has comments."""
    ids = {name: aotc("keygen", name, "--plain", "--json").document["key_id"] for name in KEYS}
    text = COMMENTED.format(pem=(tmp_path / "ci.pub").read_text())
    (tmp_path / "trust.toml").write_text(text)
    return ids


KEYS = ("ci", "new", "lost")
ADD = ("trust", "add-key", "trust.toml", "--key", "new.pub")


def in_days(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_added_key_leaves_the_rest(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    before = (tmp_path / "trust.toml").read_text()
    window = ("--not-before", "2026-01-01", "--not-after", "2027-01-01T02:00:00+02:00")
    done = aotc(*ADD, "--name", "next", *window, "--json")
    assert done.document == {
        "ok": True,
        "policy": "trust.toml",
        "key": pems["new"],
        "name": "next",
        "table": "keys",
        "holder": None,
        "builders": None,
        "notes": [],
    }
    after = (tmp_path / "trust.toml").read_text()
    head, tail = before.split("\n[accepts]")
    assert after.startswith(head) and after.endswith("\n[accepts]" + tail)
    policy = read_policy(tmp_path / "trust.toml")
    keys = policy_keys(policy)
    assert list(keys) == [pems["ci"], pems["new"]]
    added = keys[pems["new"]]
    assert added.name == "next"
    assert added.not_before == datetime(2026, 1, 1, tzinfo=UTC)
    assert added.not_after == datetime(2027, 1, 1, tzinfo=UTC)
    assert policy.accepts.jaxlib == ("0.12.0",)


REFUSED = [
    (
        "add-key trust.toml --key new.pub --not-before 2027-01-01 --not-after 2026-01-01",
        "AOTC-E309",
    ),
    ("add-key trust.toml --key new.key", "AOTC-E310"),
    ("add-key gone.toml --key new.pub", "AOTC-E308"),
    ("revoke trust.toml --root gone.aotb", "AOTC-E108"),
    ("add-key trust.toml --key ci.pub", "AOTC-E023"),
    ("add-key trust.toml --key lost.pub", "AOTC-E023"),
    ("add-key trust.toml --key gone.pub", "AOTC-E006"),
    ("revoke trust.toml --key gone.pub", "AOTC-E023"),
    (f"revoke trust.toml --key {'0' * 16}", "AOTC-E023"),
    ("revoke trust.toml --key 00", "AOTC-E023"),
    (f"revoke trust.toml --blob {'0' * 64}", "AOTC-E023"),
    ("revoke trust.toml --blob trust.toml", "AOTC-E023"),
]


@pytest.mark.parametrize(("line", "code"), REFUSED)
def test_a_change_that_cannot_be_made_is_refused_and_nothing_is_written(
    aotc: Run, refused: Run, tmp_path: Path, pems: dict[str, str], line: str, code: str
) -> None:
    assert aotc("trust", "revoke", "trust.toml", "--key", "lost.pub").exit_code == 0
    before = (tmp_path / "trust.toml").read_bytes()
    refused(["trust", *line.split()], 2 if code in ("AOTC-E006", "AOTC-E023") else 5, code)
    assert (tmp_path / "trust.toml").read_bytes() == before


def test_revocations_are_written_once(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    aotc(*ADD)
    before = (tmp_path / "trust.toml").read_text()
    revoke = ("trust", "revoke", "trust.toml", "--json")
    unlisted = ("--key", pems["lost"])  # in full
    first = aotc(*revoke, "--key", "ci.pub", "--key", pems["ci"], *unlisted, "--root", ZEROS)
    first, keys = first.document, (pems["ci"], pems["lost"])
    assert first["revoked"] == {"keys": [*keys], "roots": [ZEROS], "blobs": []}
    assert (first["already"], first["notes"]) == ([], [])
    assert (tmp_path / "trust.toml").read_text().startswith(before)
    second = aotc(*revoke, "--key", pems["ci"][:16], "--blob", ZEROS).document
    assert second["revoked"] == {"keys": [], "roots": [], "blobs": [ZEROS]}
    assert second["already"] == [pems["ci"]]
    policy = read_policy(tmp_path / "trust.toml")
    assert policy.revoked == Revoked(keys=keys, roots=(ZEROS,), blobs=(ZEROS,))


def test_changed_policy_keeps_its_mode(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    (tmp_path / "trust.toml").rename(tmp_path / "real.toml")
    (tmp_path / "real.toml").chmod(0o640)
    (tmp_path / "trust.toml").symlink_to("real.toml")
    assert aotc(*ADD).exit_code == 0
    assert (tmp_path / "trust.toml").is_symlink()
    assert stat.S_IMODE((tmp_path / "real.toml").stat().st_mode) == 0o640
    assert len(read_policy(tmp_path / "real.toml").keys) == 2
    assert {path.name for path in tmp_path.glob("*.toml")} == {"real.toml", "trust.toml"}


def test_rules_are_shown_with_key_states(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    aotc(*ADD, "--not-after", in_days(-1))
    aotc("keygen", "later", "--plain")
    for name, window in (("later", ("--not-before", in_days(1))), ("lost", ())):
        aotc("trust", "add-key", "trust.toml", "--key", f"{name}.pub", "--name", name, *window)
    aotc("trust", "revoke", "trust.toml", "--key", "lost.pub")
    _, later, lost = aotc("trust", "check", "trust.toml", "--json").document["warnings"]
    assert "does not count before " in later and "revoked.keys: it never" in lost
    document = aotc("trust", "show", "trust.toml", "--json").document
    states = [key["state"] for key in document["keys"]]
    assert states == ["valid", "expired", "not yet valid", "revoked"]
    assert document["keys"][0]["id"] == pems["ci"]
    assert (document["threshold"], document["valid"]) == (1, 1)
    assert document["accepts"]["jaxlib"] == ["0.12.0"]
    text = aotc("trust", "show", "trust.toml").stdout
    assert all(word in text for word in (*states, pems["ci"][:16], "accepts.jaxlib", "0.12.0"))


def test_check_warns_early(aotc: Run, refused: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    path = tmp_path / "trust.toml"
    ending = f'name = "ci"\nnot_after = {in_days(20)}'
    path.write_text(path.read_text().replace('name = "ci"', ending))
    check = ["trust", "check", "trust.toml"]
    failed = refused(check, 5, "AOTC-E321")
    assert "in 30 days" in failed.stderr and pems["ci"][:16] in failed.stderr
    sound = aotc(*check, "--within", "10", "--json")
    assert sound.exit_code == 0 and sound.document["warnings"] == []
    aotc(*ADD)
    warned = aotc(*check)
    assert warned.exit_code == 0 and "expires on" in warned.stdout
    assert len(aotc(*check, "--json").document["warnings"]) == 1
    soon = (datetime.now(UTC) + timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path.write_text(re.sub(r"not_after = \S+", f"not_after = {soon}", path.read_text()))
    for days, said in (("1", "within 1 day"), ("2", "within 2 days")):
        (warning,) = aotc(*check, "--within", days, "--json").document["warnings"]
        assert warning.endswith(said)


def test_check_fails_keyless(aotc: Run, refused: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    done = aotc("trust", "revoke", "trust.toml", "--key", pems["ci"])
    assert done.exit_code == 0 and "every bundle is refused" in done.stderr
    assert "revoked" in refused(["trust", "check", "trust.toml"], 5, "AOTC-E321").stderr
    aotc(*ADD, "--not-after", in_days(-1))
    found = refused(["trust", "check", "trust.toml"], 5, "AOTC-E321").stderr
    assert "expired" in found and "valid now" in found
    # At the edge of the calendar.
    path = tmp_path / "trust.toml"
    path.write_text(re.sub(r"(?<=not_after = )\S+", "0001-01-01T00:00:00+14:00", path.read_text()))
    refused(["trust", "check", "trust.toml"], 5, "AOTC-E321")


def test_check_names_a_rule(aotc: Run, refused: Run, tmp_path: Path, digits_bundle: Bundle) -> None:
    bundle, policy = digits_bundle[0], tmp_path / "trust.toml"
    check = ["trust", "check", "trust.toml", str(bundle)]
    genuine = digits_bundle[1].read_text()
    policy.write_text(genuine)
    accepted = aotc(*check, "--json").document["bundle"]
    assert accepted["accepted"] and accepted["root_digest"] in aotc(*check).stdout
    blobs: dict[str, str] = aotc("inspect", str(bundle), "--json").document["blobs"]
    executable = next(digest for digest, role in blobs.items() if role.startswith("executable"))
    for revoked, code in ((["--root", bundle], "AOTC-E313"), (["--blob", executable], "AOTC-E314")):
        policy.write_text(genuine)
        assert aotc("trust", "revoke", "trust.toml", *revoked).exit_code == 0
        said = refused(check, 5, code).stderr
    assert blobs[executable] in said
    other = genuine.replace('"digits"', '"vision"')
    for text, code in ((f"limits.blobs = 3\n{other}", "AOTC-E320"), (other, "AOTC-E306")):
        policy.write_text(text)
        refused(check, 5, code)


def test_check_says_what_ended_key_counts(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    path = tmp_path / "trust.toml"
    aotc(*ADD)
    sound, root = path.read_text(), authority(tmp_path / "authority").root
    stamped = f"\n[[timestamp_authorities]]\ncertificates = '''{root}'''\n"
    expired = sound.replace('name = "ci"', f'name = "ci"\nnot_after = {in_days(-1)}')

    def warning(text: str) -> str:
        path.write_text(text)
        (told,) = aotc("trust", "check", "trust.toml", "--json").document["warnings"]
        return str(told)

    still = ": what it signed before counts where a timestamp says so"
    assert warning(expired).endswith(": it may be removed")
    assert warning(expired + stamped).endswith(still)
    path.write_text(sound)
    aotc("trust", "revoke", "trust.toml", "--key", "ci.pub", "--since", in_days(-1))
    dated = path.read_text()
    assert warning(dated).endswith(": it no longer counts")
    assert warning(dated + stamped).endswith(still)
    path.write_text(sound + stamped)
    aotc("trust", "revoke", "trust.toml", "--key", "ci.pub")
    assert warning(path.read_text()).endswith("revoked.keys: it never counts")
    left = aotc("trust", "revoke", "trust.toml", "--key", pems["new"])
    assert "every bundle is refused that no timestamp dates back" in left.stderr


def test_build_satisfies_its_rules(aotc: Run, tmp_path: Path, digits_bundle: Bundle) -> None:
    """The provenance of `aotc build` itself, as `aotc inspect` shows it."""
    bundle, genuine = digits_bundle
    claim, _ = aotc("inspect", str(bundle), "--json").document["signatures"]
    sources, builder, finished = [*claim["sources"]], claim["builder"], claim["finished_on"]
    assert "digits.toml" in claim["sources"].values()
    rules = f"minimum_build_time = {finished}\naccepts.builders = [{builder!r}]\n"

    def verified(listed: list[str]) -> Any:
        policy = f"{rules}accepts.sources = {json.dumps(listed)}\n{genuine.read_text()}"
        (tmp_path / "trust.toml").write_text(policy)
        return aotc("verify", str(bundle), "--trust", "trust.toml")

    assert verified(sources).exit_code == 0
    for left_out in sources:
        done = verified([source for source in sources if source != left_out] or [ZEROS])
        assert (done.exit_code, done.codes) == (5, ["AOTC-E317"])


def test_certifier_is_added_and_is_no_key(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    done = aotc(*ADD, "--certifier", "--name", "fleet", "--not-after", in_days(10), "--json")
    assert (done.document["table"], done.document["key"]) == ("certifiers", pems["new"])
    policy = read_policy(tmp_path / "trust.toml")
    assert set(policy_keys(policy)) == {pems["ci"]}
    assert set(certifier_keys(policy)) == {pems["new"]}
    shown = aotc("trust", "show", "trust.toml", "--json").document
    assert [(key["id"], key["name"]) for key in shown["certifiers"]] == [(pems["new"], "fleet")]
    assert [key["id"] for key in shown["keys"]] == [pems["ci"]]
    assert "certifier" in aotc("trust", "show", "trust.toml").stdout
    checked = aotc("trust", "check", "trust.toml", "--json").document
    (warning,) = checked["warnings"]
    assert warning.startswith("certifier fleet") and "expires on" in warning
    assert aotc(*ADD, "--certifier").codes == ["AOTC-E023"]


def test_check_finds_invalid_certifier(aotc: Run, tmp_path: Path, pems: dict[str, str]) -> None:
    policy = tmp_path / "trust.toml"
    policy.write_text(policy.read_text() + "\n[[certifiers]]\npublic_key = 'no key'\n")
    done = aotc("trust", "check", "trust.toml")
    assert (done.exit_code, done.codes) == (5, ["AOTC-E310"])
    assert "certifiers[0]" in done.stderr
