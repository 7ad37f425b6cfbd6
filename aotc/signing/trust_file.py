"""Writing trust policies."""

from __future__ import annotations

import json
from collections.abc import Sequence


def policy_text(name: str, public_keys: Sequence[str], threshold: int = 1) -> str:
    """The TOML of a policy that trusts these PEM public keys for bundles of this name."""
    lines = ["schema = 1", f"name = {json.dumps(name)}", f"threshold = {threshold}"]
    for pem in public_keys:
        lines += ["", "[[keys]]", f'public_key = """\n{pem.strip()}\n"""']
    return "\n".join(lines) + "\n"
