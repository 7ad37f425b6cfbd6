"""Arguments of a deployment on several machines, and its bundle, pinned by digest."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.loader.verified import verify
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.inference.server_options import Limits, size_of
from aotc_serve.oci.oci_references import is_reference, parse
from aotc_serve.service.served_loading import Settings

Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]

LIMITS = Limits()


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `serve` for each replica, and the number of replicas."""

    bundle: str
    trust: str
    store: str | None = None
    target: str | None = None
    threads: Count | None = None
    workers: Count | None = None
    max_delay: Annotated[float, Meta(ge=0)] | None = None
    max_body: Size = LIMITS.body
    max_json: Size = LIMITS.json
    max_tensor: Size = LIMITS.tensor
    max_memory: Size = LIMITS.memory
    max_requests: Count = LIMITS.requests
    call_seconds: Positive = LIMITS.call_seconds
    replicas: Count = 1


class Pinned(Struct, frozen=True):
    """The configuration of every replica.

    `reference` is a path or `oci://…@sha256:…`. `policy` was read where the deployment was made, so
    that all nodes apply the same rules. `settings` have the digest that was verified there; each
    replica verifies it again. Requests wait `delay` seconds for a batch; None disables batches.
    """

    reference: str
    policy: TrustPolicy
    settings: Settings
    limits: Limits
    workers: int | None
    delay: float | None


def arguments_of(given: Mapping[str, Any]) -> Arguments:
    """Parse arguments of a command line, which are all texts, or of YAML.

    Raises ServerError (AOTC-E785).
    """
    values = dict(given)
    for name in ("max_body", "max_json", "max_tensor", "max_memory"):
        if isinstance(values.get(name), str):
            try:
                values[name] = size_of(values[name])
            except argparse.ArgumentTypeError:
                raise _unfit(name, values[name], "a size such as 64M") from None
    try:
        return msgspec.convert(values, Arguments, strict=False)
    except msgspec.ValidationError as error:
        raise _unfit("deployment", str(error), "") from None


def _unfit(where: str, found: str, expected: str) -> AotcError:
    cause = "unknown-deployment-argument" if "unknown field" in found else ""
    return refusal("AOTC-E785", where, found, cause=cause, expected=expected)


def pin(asked: Arguments) -> Pinned:
    """Verify the bundle and pin its digest.

    Raises what `aotc_runtime.verify` raises; nothing has been deployed then.
    """
    policy = read_policy(Path(asked.trust))
    store = Path(asked.store).absolute() if asked.store is not None else None
    digest = verify(asked.bundle, trust=policy, store=store, target=asked.target).root_digest
    if is_reference(asked.bundle):
        reference = str(parse(asked.bundle).at(digest))
    else:
        reference = str(Path(asked.bundle).absolute())
    limits = msgspec.convert(msgspec.structs.asdict(asked), Limits)
    settings = Settings(asked.target, asked.threads, store, digest)
    delay = asked.max_delay / 1000 if asked.max_delay is not None else None
    return Pinned(reference, policy, settings, limits, asked.workers, delay)
