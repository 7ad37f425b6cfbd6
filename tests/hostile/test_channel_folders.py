"""An attacker who can write into a channel's folder cannot make others sign something unseen."""

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tuf", reason="pip install ./runtime './runtime/serve[channel]'")

from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from aotc.bundle.sign.signer import LocalSigner
from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops
from aotc.commands.channel.channel_host import Host
from aotc.commands.channel.channel_repository import WAITING, Named, Repository
from aotc_runtime.base.errors import AotcError
from tests.refusals import error_of

from .channels import INDEX, NEVER, Deployed, now

FRAUD = "production/fraud"
OLDER = TargetFile.from_data(FRAUD, b"an older bundle, genuine, with a known hole")

Change = Callable[[Any], None]
Attack = Callable[[Deployed, Path], object]


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    """Two people say what is deployed: two bundles."""
    two = [LocalSigner.ephemeral(), LocalSigner.ephemeral()]
    made = Deployed(tmp_path / "deployed", release=two)
    made.publish()
    made.publish(FRAUD, "2.0.0", b"fraud 2.0.0")
    return made


def sign(deployed: Deployed, *signers: LocalSigner, first: Path | None = None) -> Any:
    """Return the outcome of signing that digits 1.1.0 is deployed, or the code of a refusal."""
    named = Named("production/digits", "1.1.0", b"digits 1.1.0")
    try:
        repository = Repository(deployed.served, first)
        return repository.publish(named, signers, None, now(), 7)
    except AotcError as error:
        return error.code


def signed_for(deployed: Deployed) -> Targets:
    found: Metadata[Targets] = Metadata.from_file(str(deployed.served / WAITING))
    return found.signed


def names_an_older_bundle(signed: Any) -> None:
    signed.targets[FRAUD] = OLDER


def names_one_less(signed: Any) -> None:
    del signed.targets[FRAUD]


def lets_another_speak(signed: Any) -> None:
    thief = DelegatedRole("thief", [], 1, True, paths=["production/*"])
    signed.delegations = Delegations({}, {"thief": thief})


def lasts(signed: Any) -> None:
    signed.expires += timedelta(days=3650)


def test_what_waits_gets_a_second_signature_as_it_is(deployed: Deployed) -> None:
    one, two = deployed.release
    assert sign(deployed, one).missing == 1
    assert {*signed_for(deployed).targets} == {"production/digits", FRAUD}
    done = sign(deployed, two)
    assert (done.missing, done.gone) == (0, ())


@pytest.mark.parametrize("change", [names_an_older_bundle, lets_another_speak])
def test_slipped_in_published_metadata_is_not_signed(change: Change, deployed: Deployed) -> None:
    thief = LocalSigner.ephemeral()
    deployed.change("2.targets.json", change, thief, deployed.release[0])
    assert sign(deployed, *deployed.release) == "AOTC-E027"
    deployed.lead_to(2)
    done = sign(deployed, *deployed.release)
    assert {*signed_for(deployed).targets} == {"production/digits"}
    assert signed_for(deployed).delegations is None
    assert (done.missing, done.gone) == (0, (FRAUD,))


@pytest.mark.parametrize("change", [names_an_older_bundle, names_one_less])
def test_signer_is_told_what_else_waits(change: Change, deployed: Deployed) -> None:
    """Slipped in, or proposed by the other signer."""
    one, two = deployed.release
    sign(deployed, one)
    deployed.change(WAITING, change, one)
    before = (deployed.served / WAITING).read_bytes()
    assert sign(deployed, two) == "AOTC-E028"
    assert (deployed.served / WAITING).read_bytes() == before


def test_a_folder_with_a_pipe_in_it_keeps_nobody_waiting(deployed: Deployed) -> None:
    os.mkfifo(deployed.served / WAITING)
    assert sign(deployed, *deployed.release) == "AOTC-E027"


@pytest.mark.parametrize("change", [lets_another_speak, lasts])
def test_changed_waiting_metadata_is_remade(change: Change, deployed: Deployed) -> None:
    one, two = deployed.release
    sign(deployed, one)
    before = signed_for(deployed)
    deployed.change(WAITING, change, one)
    assert sign(deployed, two).missing == 1
    after = signed_for(deployed)
    assert (after.targets, after.delegations) == (before.targets, None)
    assert after.expires - before.expires < timedelta(days=1)


def test_other_proposal_for_same_bundle_replaces_the_first(deployed: Deployed) -> None:
    one, two = deployed.release
    another = Named("production/digits", "1.0.1", b"digits 1.0.1")
    Repository(deployed.served).publish(another, [one], None, now(), 7)
    assert sign(deployed, two).missing == 1
    named = TargetFile.from_data("production/digits", b"digits 1.1.0")
    assert signed_for(deployed).targets["production/digits"].hashes == named.hashes


def test_the_keys_of_a_channel_are_those_that_its_roots_say(deployed: Deployed) -> None:
    """Each root is signed by the keys of the one before; the first is the policy's."""
    first = shutil.copyfile(deployed.served / "1.root.json", deployed.folder / "first.root.json")
    thief = LocalSigner.ephemeral()
    theirs = Deployed(deployed.folder / "theirs", [thief], deployed.release)
    for number in (1, 2):
        shutil.copyfile(theirs.served / "1.root.json", deployed.served / f"{number}.root.json")
        assert sign(deployed, *deployed.release, first=first) == "AOTC-E027"
        shutil.copyfile(first, deployed.served / "1.root.json")
    theirs.rotate()
    shutil.copyfile(theirs.served / "2.root.json", deployed.served / "2.root.json")
    assert sign(deployed, *deployed.release) == "AOTC-E027"
    shutil.copyfile(deployed.served / "timestamp.json", deployed.served / "2.root.json")
    assert sign(deployed, *deployed.release) == "AOTC-E027"
    (deployed.served / "2.root.json").unlink()
    deployed.change("1.root.json", lambda signed: None, thief)
    assert sign(deployed, *deployed.release) == "AOTC-E027"
    shutil.copyfile(first, deployed.served / "1.root.json")
    deployed.rotate()
    assert sign(deployed, *deployed.release, first=first).missing == 0
    assert sign(deployed, *deployed.release, first=deployed.served / "2.root.json").missing == 0


def leads_to_the_old_snapshot(deployed: Deployed, old: Path) -> None:
    meta = Metadata[Timestamp].from_file(str(old / "timestamp.json")).signed.snapshot_meta

    def change(signed: Any) -> None:
        signed.version, signed.snapshot_meta = 10**9, meta

    deployed.change("timestamp.json", change, LocalSigner.ephemeral())


def is_another_snapshot(deployed: Deployed, old: Path) -> None:
    meta = Metadata[Snapshot].from_file(str(old / "1.snapshot.json")).signed.meta
    deployed.change("2.snapshot.json", lambda signed: setattr(signed, "meta", meta))


def is_by_its_name(role: str) -> Attack:
    """The old file under the new one's name."""
    return lambda deployed, old: shutil.copy(
        old / f"1.{role}.json", deployed.served / f"2.{role}.json"
    )


@pytest.mark.parametrize(
    "attack",
    [
        leads_to_the_old_snapshot,
        is_another_snapshot,
        is_by_its_name("snapshot"),
        is_by_its_name("targets"),
    ],
    ids=["a timestamp", "a snapshot", "a name of a snapshot", "a name of targets"],
)
def test_nothing_is_signed_on_unsigned_metadata(attack: Attack, tmp_path: Path) -> None:
    """Whoever writes into the folder would have an older state signed as the newest, of any
    version.
    """
    deployed = Deployed(tmp_path / "deployed")
    deployed.publish(FRAUD, "1.0.0", b"fraud 1.0.0")
    old = deployed.kept("old")
    deployed.publish(FRAUD, "2.0.0", b"fraud 2.0.0")
    attack(deployed, old)
    before = {path.name: path.read_bytes() for path in deployed.served.iterdir()}
    assert sign(deployed, *deployed.release) == "AOTC-E027"
    assert error_of(AotcError, deployed.renew).code == "AOTC-E027"
    assert {path.name: path.read_bytes() for path in deployed.served.iterdir()} == before


def puts_all_back(deployed: Deployed, old: Path) -> None:
    shutil.rmtree(deployed.served)
    shutil.copytree(old, deployed.served)


def signs_another_of_the_same_version(deployed: Deployed, old: Path) -> None:
    deployed.change("timestamp.json", lambda s: setattr(s, "expires", now()), deployed.online)


PUTS_BACK: dict[str, Attack] = {
    "all": puts_all_back,
    "the timestamp": lambda deployed, old: shutil.copy(old / "timestamp.json", deployed.served),
    "roots": lambda deployed, old: (deployed.served / "2.root.json").unlink(),
    "nothing": lambda deployed, old: (deployed.served / "timestamp.json").unlink(),
    "another of the same version": signs_another_of_the_same_version,
}


@pytest.mark.parametrize("attack", PUTS_BACK.values(), ids=PUTS_BACK)
def test_host_with_seen_state_rejects_older_state(attack: Attack, tmp_path: Path) -> None:
    """The old state is genuine: only somebody who has seen the new one can tell."""
    deployed = Deployed(tmp_path / "deployed")
    first = shutil.copy(deployed.first_root, deployed.folder / "first.json")
    host = Host(deployed.channel(root_file=str(first)), deployed.folder)
    deployed.publish(FRAUD, "1.0.0", b"fraud 1.0.0")
    old = deployed.kept("old")
    deployed.rotate()
    deployed.publish(FRAUD, "2.0.0", b"fraud 2.0.0")
    host.require_newest(Repository(deployed.served))
    host.keep(deployed.served)
    host.require_newest(Repository(deployed.served))
    deployed.renew()
    host.require_newest(Repository(deployed.served))
    host.keep(deployed.served)
    attack(deployed, old)
    assert error_of(AotcError, host.require_newest, Repository(deployed.served)).code == "AOTC-E027"


def test_foreign_names_are_escaped(deployed: Deployed, capfd: pytest.CaptureFixture[str]) -> None:
    sign(deployed, deployed.release[0])
    path = "production/\x1b[2K\nproduction/fraud  9.0.0"
    deployed.change(WAITING, lambda signed: signed.targets.update({path: OLDER}))
    assert run_command(["channel", "status", str(deployed.served)], Stops()) == 0
    told = capfd.readouterr().out
    assert "\x1b" not in told
    assert "production/fraud  9.0.0" not in [line[:23] for line in told.splitlines()]
    assert "[2K" in told


def test_what_is_signed_is_what_hosts_find(deployed: Deployed) -> None:
    sign(deployed, *deployed.release)
    deployed.renew()
    assert deployed.answer() == NEVER
    named = {each.path: each.described for each in deployed.ask().listed}
    assert named[FRAUD].hashes == TargetFile.from_data(FRAUD, b"fraud 2.0.0").hashes
    assert named["production/digits"].hashes != TargetFile.from_data("x", INDEX).hashes
