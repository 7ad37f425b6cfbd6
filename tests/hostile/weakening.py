"""Removing one check from the code under test, to show that an attack is stopped by exactly it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle

from .tampering import ACCEPTED, Documents, MemoryBundle, code_of, policy_for, signed, take_apart


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
class Check:
    """A check and its attack. without: the check's text and what stands there instead when it is
    removed.  then: the outcome without it ("accepted", the next check's code, or the name of the
    exception that a reader without it would die of)."""

    function: Callable[..., Any]
    without: tuple[str, str]
    attack: Attack
    code: str
    then: str = ACCEPTED

    @property
    def label(self) -> str:
        return f"{self.code[5:]} {self.function.__name__} {self.without[0]}"


def outcome(attack: Attack, arms: Arms) -> str:
    try:
        result = attack(arms)
    except AotcError as error:
        return error.code
    except Exception as error:  # noqa: BLE001 - without its check, a reader may die of anything
        return type(error).__name__
    return result if isinstance(result, str) else ACCEPTED


def remove(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the function without the check, for everybody who calls it."""
    function = check.function
    assert isinstance(function, FunctionType)
    path = Path(function.__code__.co_filename)
    module = path.read_text("utf-8")
    part = next(
        ast.get_source_segment(module, node) or ""
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__
    )
    old, new = check.without
    assert part.count(old) == 1, f"{old!r} stands once in {function.__name__}"
    code = compile(module.replace(part, part.replace(old, new)), str(path), "exec")
    found = [c for c in inside(code) if c.co_qualname == function.__qualname__]
    assert len(found) == 1
    monkeypatch.setattr(function, "__code__", found[0])


def shows_that_it_matters(check: Check, arms: Arms, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack is stopped by the check, and gets as far as the check says without it."""
    assert outcome(check.attack, arms) == check.code
    arms.documents = take_apart(arms.genuine)
    remove(check, monkeypatch)
    assert outcome(check.attack, arms) == check.then


def inside(code: CodeType) -> Iterator[CodeType]:
    """The code of every function in this code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inside(constant)


def codes_in(*modules: Any) -> set[str]:
    """Every code that these modules can refuse with."""
    return {
        code
        for module in modules
        for code in re.findall(r'"(AOTC-E\d{3})"', Path(module.__file__).read_text("utf-8"))
    }
