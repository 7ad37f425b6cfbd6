"""What a deployment on several machines is told, whatever carries it there: its arguments, the
bundle they name, pinned by its digest, and how many replicas a queue wants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.suggestions import did_you_mean
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

QUEUE = "aotc_server_requests"
"""What replicas report: inference requests under way, those that wait for a thread or for others
to be joined with among them. The gauge of this name is the same number.
"""


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """bundle, trust, store, target, threads, workers, max_delay, max_…, call_seconds: as the
    options of `serve`.

    replicas: how many, or the fewest if max_replicas is more.  target_requests: of the queue, for
    each replica.  routes: processes that take requests from clients and have them answered.
    """

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
    max_replicas: Count | None = None
    target_requests: Positive = 4.0
    routes: Count = 2


class Pinned(Struct, frozen=True):
    """What every process of a deployment gets. reference: a path, or `oci://…@sha256:…`.

    policy: read where the deployment was made, so that all nodes judge by the same rules.
    settings: with the digest that was verified there; each process verifies it again.
    delay: seconds that requests wait to be joined; None to join none.
    """

    reference: str
    policy: TrustPolicy
    settings: Settings
    limits: Limits
    workers: int | None
    delay: float | None


def arguments_of(given: Mapping[str, Any]) -> Arguments:
    """From a command line, where all values are text, or from YAML.

    Raises ServerError (AOTC-E785).
    """
    known = list(Arguments.__struct_fields__)
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, "docs/serving.md lists the arguments")
            raise refusal("AOTC-E785", name, "it", expected="one of " + ", ".join(known), hint=hint)
    values = dict(given)
    for name in ("max_body", "max_json", "max_tensor", "max_memory"):
        if isinstance(values.get(name), str):
            try:
                values[name] = size_of(values[name])
            except ValueError:
                raise _unfit(name, values[name], "bytes, or with K, M or G behind it") from None
    try:
        found = msgspec.convert(values, Arguments, strict=False)
    except msgspec.ValidationError as error:
        raise _unfit("deployment", str(error), "its arguments") from None
    if found.max_replicas is not None and found.max_replicas < found.replicas:
        expected = f"at least {found.replicas}, the replicas that there are always"
        raise _unfit("max_replicas", str(found.max_replicas), expected)
    return found


def _unfit(where: str, found: str, expected: str) -> AotcError:
    hint = "docs/serving.md lists the arguments"
    return refusal("AOTC-E785", where, found, expected=expected, hint=hint)


def pinned(asked: Arguments) -> Pinned:
    """Verify the bundle and name it by what was verified: a tag by its digest, a file with it.

    Raises what `aotc_runtime.verify` raises; nothing has been deployed then.
    """
    policy = read_policy(Path(asked.trust))
    store = Path(asked.store).absolute() if asked.store is not None else None
    digest = verify(asked.bundle, trust=policy, store=store, target=asked.target).root_digest
    if is_reference(asked.bundle):
        reference = str(parse(asked.bundle).at(digest))
    else:
        reference = str(Path(asked.bundle).absolute())
    limits = Limits(
        body=asked.max_body,
        json=asked.max_json,
        tensor=asked.max_tensor,
        memory=asked.max_memory,
        requests=asked.max_requests,
        call_seconds=asked.call_seconds,
    )
    settings = Settings(asked.target, asked.threads, store, digest)
    delay = asked.max_delay / 1000 if asked.max_delay is not None else None
    return Pinned(reference, policy, settings, limits, asked.workers, delay)


class Queues(Protocol):
    """What is known of a deployment's queues: a part of Ray Serve's `AutoscalingContext`."""

    config: Any
    aggregated_metrics: Mapping[str, Mapping[Any, float]] | None
    total_num_requests: float
    total_queued_requests: float


def by_queue(queues: Queues) -> tuple[int, dict[str, Any]]:
    """How many replicas there should be: the requests of all queues, shared out so that each has
    what `target_ongoing_requests` says. What waits for a replica counts, too.
    """
    reported = (queues.aggregated_metrics or {}).get(QUEUE)
    if reported:
        waiting = sum(reported.values()) + queues.total_queued_requests
    else:
        # No replica has said anything yet; what was sent to them is known.
        waiting = queues.total_num_requests
    return math.ceil(waiting / queues.config.target_ongoing_requests), {}
