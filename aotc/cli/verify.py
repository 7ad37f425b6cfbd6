"""`aotc verify`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command, report_findings


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--trust", required=True, type=click.Path(path_type=Path), help="The trust policy.")
@click.option(
    "--target", default="host", help="A target of the bundle; default: best for this host."
)
@command
def verify(out: Output, bundle: Path, trust: Path, target: str) -> int:
    """Say whether a bundle may be loaded here, and if not, every reason why.

    Checks signatures, every digest, the trust policy, the runtime, the processor and memory,
    without loading anything.

    \b
    aotc verify digits-1.0.0.aotb --trust trust.toml
    """
    from aotc_runtime.errors import family_of
    from aotc_runtime.system import host
    from aotc_runtime.system.store import open_bundle
    from aotc_runtime.verification.trust import read_policy
    from aotc_runtime.verification.verify import examine

    policy = read_policy(trust)
    source = open_bundle(bundle)
    facts = host.detect()
    verdict = examine(source, policy, facts, target=None if target == "host" else target)
    document = {
        "bundle": str(bundle),
        "name": verdict.manifest.name if verdict.manifest else None,
        "version": verdict.manifest.version if verdict.manifest else None,
        "root_digest": verdict.root_digest or None,
        "signers": list(verdict.signers),
        "target": verdict.target or None,
        "gates": list(verdict.gates),
        "host": {"cpu": facts.cpu, "jaxlib": facts.jaxlib, "memory_bytes": facts.memory_bytes},
        "built_with": {"jaxlib": verdict.manifest.built_with.jaxlib} if verdict.manifest else None,
    }
    if verdict.findings:
        exit_code = family_of(verdict.findings[0].code).exit_code
        report_findings(out, verdict.findings, exit_code, **document)
        return exit_code

    def text() -> None:
        from aotc.report.text import print_verdict

        print_verdict(verdict, facts)

    out.result({**document, "findings": []}, text)
    return 0
