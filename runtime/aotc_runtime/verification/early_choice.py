"""Choice of a load's target by a bundle's documents alone: what a registry is asked for.

Nothing is decided here that a load does not decide again, of what was fetched; nothing that is made
here can be used.
"""

from collections.abc import Callable, Iterable

from aotc_runtime.base.errors import raise_if
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.oci_layout import ImageManifest
from aotc_runtime.schema.host_facts import HostFacts, Wanted
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification import policy_rules
from aotc_runtime.verification.bundle_contents import Contents, bundle_manifest, check_layers
from aotc_runtime.verification.host_compatibility import choose_target, wanted_facts
from aotc_runtime.verification.manifest_consistency import check_consistency
from aotc_runtime.verification.verify_bundle import attribute, certificates_of, check_policy

type AskHost = Callable[[Wanted], HostFacts]
"""Says what a host is, as a bundle wants to know."""


def choose(
    source: BlobSource,
    documents: Iterable[tuple[ImageManifest, bytes]],
    absent: tuple[str, ...],
    policy: TrustPolicy,
    now: float,
    ask: AskHost,
) -> str:
    """Return the best target of a bundle for a host: verification steps 1 to 4, 7, and 8 to 10.

    `source` has the root and attestations, `documents` the image manifest and bundle manifest of
    each target, with checked digests. `absent` has the root's names of the other targets. `now` is
    the time of checking, in seconds since the epoch. `ask` is called once the policy accepts the
    bundle.

    Raises BundleFormatError, TrustError, and every reason why no target fits.
    """
    signed = attribute(source, policy, now)
    manifests, images = {}, {}
    sizes: dict[str, int] = {}
    for image, data in documents:
        where = f"{source.name} bundle manifest {image.config.digest[7:19]}"
        manifest = bundle_manifest(data, where)
        raise_if(check_consistency(manifest, where))
        raise_if(check_layers(image, manifest, sizes, source.name))
        manifests[manifest.target.name], images[manifest.target.name] = manifest, image
    raise_if(
        check_policy(signed, Contents(signed.parsed.root_digest, manifests, {}, images, absent))
    )
    facts = ask(wanted_facts(manifests, None))
    accepted, findings = policy_rules.accepted_targets(manifests, facts, policy, None)
    raise_if(findings)
    choice = choose_target(accepted, facts, None, absent, certificates_of(signed))
    raise_if(choice.findings)
    return choice.target
