"""Which engines a target is compiled for, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from msgspec.structs import replace

from aotc.base.errors import CompileError, refusal
from aotc.base.evidence import EngineRefusal
from aotc.base.stages import Executable
from aotc.compile.compiler_registry import kind_of, platforms
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc.config.manifest_problem import spell
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target, engine_name

REFUSALS = frozenset(["AOTC-E901", "AOTC-E902", "AOTC-E903", "AOTC-E904", "AOTC-E916"])
"""What a compiler finds wrong with a program, for which the next engine of a list is asked. A
toolchain that is missing is none of it."""


@dataclass(frozen=True, slots=True)
class Fallen:
    """A target that an engine could not compile, so that the next one did. findings: about the
    first executable that it could not make.
    """

    target: str
    engine: str
    taken: str
    findings: tuple[Finding, ...]

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        first = self.findings[0]
        found = first.found.splitlines()[0]
        return (
            f"{self.target} is compiled by {self.taken}, because {self.engine} cannot compile "
            f"{first.where} ({first.code}: {found})"
        )

    @property
    def refusal(self) -> EngineRefusal:
        """The refusal as evidence for reviewers: its first finding."""
        first = self.findings[0]
        return EngineRefusal(
            engine=self.engine, where=first.where, code=first.code, found=first.found
        )


def candidates(target: Target, engines: Sequence[str], where: str) -> tuple[Target, ...]:
    """The target as each of these engines compiles it, in their order, without those that have no
    code for it; as its file says where no engines are named.

    Raises BuildManifestError (AOTC-E816) for an unknown engine, and where none is left.
    """
    if not engines:
        return (target,)
    known = dict(_known(target))
    unknown = [name for name in engines if name not in known]
    if unknown:
        raise refusal(
            "AOTC-E816",
            where,
            ", ".join(map(spell, unknown)),
            expected=f"engines that are installed here: {', '.join(sorted(known))}",
            hint="correct the name, or install the package that brings it",
        )
    found: list[Target] = []
    reasons: list[str] = []
    for name in engines:
        try:
            found.append(_as_for(target, known[name]))
        except ValueError as error:
            reasons.append(f"{name}: {error}")
    if not found:
        able = sorted(name for name in known if _serves(target, known[name]))
        raise refusal(
            "AOTC-E816",
            where,
            "; ".join(reasons),
            expected=f"an engine with code for {target.name}: {', '.join(able) or 'none is here'}",
            hint=f"engines = {able}".replace("'", '"') if able else "name another target",
        )
    return tuple(found)


def first_refusal(futures: Sequence[Future[Executable]]) -> tuple[Finding, ...]:
    """Why an engine cannot compile a target, once all its executables are made or refused; empty if
    nothing kept it from that, or something else than the program.
    """
    wait(futures)
    for future in futures:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, CompileError) and error.findings[0].code in REFUSALS:
            return error.findings
    return ()


def _known(target: Target) -> Iterator[tuple[str, str]]:
    """Every installed engine that targets can be compiled for, and a platform of it; the target's
    own for its engine.
    """
    for platform in platforms():
        yield engine_name(replace(target, platform=platform)), platform
    for platform in platforms():
        if isinstance(kind_of(platform), ProcessorKind):
            yield engine_name(replace(target, platform=platform)), platform
    if not isinstance(kind_of(target.platform), ProcessorKind):
        yield engine_name(target), target.platform


def _as_for(target: Target, platform: str) -> Target:
    """The target for a platform of the same machine. Raises ValueError: why there is no code."""
    if platform == target.platform:
        return target
    kind, own = kind_of(platform), kind_of(target.platform)
    if not isinstance(own, ProcessorKind):
        raise ValueError(f"it has no code for {target.platform}")
    if not isinstance(kind, ProcessorKind):
        raise ValueError("it has no code for processors")
    return kind.for_processor(target)


def _serves(target: Target, platform: str) -> bool:
    try:
        _as_for(target, platform)
    except ValueError:
        return False
    return True
