"""Attacks on verification, each with the code that refuses it.

`make mutate` shows that each check is needed: it removes them in turn and runs these attacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle

from .tampering import ACCEPTED, Documents, MemoryBundle, code_of, policy_for, signed


@dataclass(slots=True)
class Arms:
    """What an attack may use; `documents` are its own copy."""

    genuine: MemoryBundle
    documents: Documents
    policy: TrustPolicy
    ours: LocalSigner
    stranger: LocalSigner
    host: HostFacts
    folder: Path
    more: dict[str, Any] = field(default_factory=dict)

    def signed(self) -> str:
        """The outcome for the documents as they are, signed by a trusted key."""
        return code_of(signed(self.documents, self.ours), policy_for(self.ours), self.host)

    def opened(self, data: bytes) -> str:
        """The outcome for an archive."""
        path = self.folder / "bundle.aotb"
        path.write_bytes(data)
        return code_of(open_bundle(path), self.policy, self.host)


Attack = Callable[[Arms], Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """An attack and the code of its refusal, or "refused" where the attack judges by itself."""

    attack: Attack
    code: str

    @property
    def label(self) -> str:
        return f"{self.code.removeprefix('AOTC-')} {getattr(self.attack, '__name__', 'attack')}"


def outcome(attack: Attack, arms: Arms) -> str:
    try:
        result = attack(arms)
    except AotcError as error:
        return error.code
    return result if isinstance(result, str) else ACCEPTED


def codes_in(*modules: Any) -> set[str]:
    """Every code that these modules can refuse with."""
    return {
        code
        for module in modules
        for code in re.findall(r'"(AOTC-E\d{3})"', Path(module.__file__).read_text("utf-8"))
    }
