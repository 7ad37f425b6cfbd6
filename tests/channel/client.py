#!/usr/bin/env python
"""`aotc channel status` as the client under test of tuf-conformance (its CLIENT-CLI.md).

Nothing of TUF is done here: a policy is written that names the repository, the command is run, and
what it kept is laid out as the suite wants to see it. Channels download no targets.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from aotc.bundle.sign.signer import LocalSigner
from aotc.cli.command_group import run_command
from aotc.cli.stop_signals import Stops
from aotc_serve.channel.channel_state import STATE


def init(metadata: Path, root: Path) -> int:
    """Return what the suite gives its client at the beginning: the root to trust."""
    shutil.copy(root, metadata / "root.json")
    shutil.copy(root, metadata.parent / "first.json")
    return 0


def refresh(metadata: Path, url: str) -> int:
    """Ask the repository, and show what is kept now."""
    folder = metadata.parent
    policy = folder / "trust.toml"
    (folder / "any.pub").write_text(LocalSigner.ephemeral().public_pem(), "utf-8")
    policy.write_text(
        f'schema = 1\nname = "any"\n[[keys]]\npublic_key_file = "any.pub"\n[channel]\n'
        f'name = "any"\nsource = {json.dumps(url)}\nroot_file = "first.json"\nstate = "seen"\n',
        "utf-8",
    )
    exit_code = run_command(["channel", "status", "--trust", str(policy)], Stops())
    kept = folder / "seen" / STATE
    if kept.exists():
        files = json.loads(kept.read_bytes().partition(b"\n")[2])
        for name, text in files.items():
            if "/" not in name:
                (metadata / name).write_bytes(text.encode())
        roots = {
            int(name.split("/")[1].split(".")[0]): text
            for name, text in files.items()
            if "/" in name
        }
        (metadata / "root.json").write_bytes(roots[max(roots)].encode())
    return 1 if exit_code else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("metadata-url", "metadata-dir", "target-dir", "target-base-url"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--target-name", action="append")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init").add_argument("root", type=Path)
    commands.add_parser("refresh")
    commands.add_parser("download")
    given = parser.parse_args()
    metadata = Path(given.metadata_dir)
    if given.command == "init":
        return init(metadata, given.root)
    if given.command == "refresh":
        return refresh(metadata, given.metadata_url)
    sys.stderr.write("channels download no targets\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
