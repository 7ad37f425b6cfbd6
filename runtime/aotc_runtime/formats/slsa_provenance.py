"""The parsed fields of SLSA provenance v1: https://slsa.dev/spec/v1.0/provenance."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

BUILD_TYPE = "https://aotc.dev/build/v1"
SIGN_TYPE = "https://aotc.dev/sign/v1"
MERGE_TYPE = "https://aotc.dev/merge/v1"
"""Build types of our provenance. The second is that of `aotc sign`, which built nothing; the third
that of `aotc merge`, whose sources are bundles."""


class Resource(Struct, frozen=True):
    """A source (a file, a repository, a package) with optional digests in hex by algorithm."""

    name: str = ""
    uri: str = ""
    digest: dict[str, str] = {}


class Parameters(Struct, frozen=True):
    """The build's parameters: the build manifest, among others that other builders may state."""

    manifest: Resource = Resource()


class BuildDefinition(Struct, frozen=True):
    """The inputs of a build."""

    buildType: str
    externalParameters: Parameters = Parameters()
    resolvedDependencies: tuple[Resource, ...] = ()


class Builder(Struct, frozen=True):
    """The builder; `id` is a URI."""

    id: str


class Metadata(Struct, frozen=True):
    """End of the build, by the builder's account."""

    finishedOn: Annotated[datetime, Meta(tz=True)] | None = None


class RunDetails(Struct, frozen=True):
    """This run of the build."""

    builder: Builder
    metadata: Metadata = Metadata()


class Provenance(Struct, frozen=True):
    """The predicate."""

    buildDefinition: BuildDefinition
    runDetails: RunDetails

    def sources(self) -> list[Resource]:
        """Return the build manifest and the dependencies, those that state a digest."""
        stated = (
            self.buildDefinition.externalParameters.manifest,
            *self.buildDefinition.resolvedDependencies,
        )
        return [resource for resource in stated if resource.digest]
