"""The bundles that a server has: loading them, looking them up by name, replacing and unloading."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError, Finding, refusal
from aotc_runtime.base.rendering import sentence, warn_of
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.serving.bundle_slot import BundleSlot, Calling
from aotc_runtime.serving.loaded_bundle import LoadedBundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_serve.inference.inference_requests import NAME_MAX
from aotc_serve.inference.served_models import Model
from aotc_serve.oci.oci_references import is_reference
from aotc_serve.service.policy_recheck import is_refused_by_policy, revocations
from aotc_serve.service.served_loading import Settings, Trust, is_tag, load_bundle, tag_digest
from aotc_serve.service.served_sources import (
    Release,
    ServedSource,
    Standing,
    file_state_of,
    newest_first,
    references_in,
)

Tell = Callable[[str, dict[str, object]], None]
"""Says what happened: a word for it, and what belongs to it."""


class IndexEntry(Struct, frozen=True):
    """A row of the protocol's index."""

    name: str
    version: str
    state: str
    reason: str = ""


class Repository:
    """Every bundle of a server. Loading is done by one thread at a time; looking up by any.

    Nothing is loaded that the policy of its place refuses. What served before then serves on,
    unless the policy refuses that, too: then `on_revoked` is called, in the thread that loads.
    """

    def __init__(
        self,
        references: Sequence[str],
        policies: Sequence[Trust],
        settings: Settings,
        tell: Tell,
        on_revoked: Callable[[], None] = lambda: None,
    ) -> None:
        """Take one policy for all, or one for each. Raises ServerError (AOTC-E780)."""
        if len(policies) not in (1, len(references)):
            found = f"{len(policies)} policies for {len(references)} bundles"
            cause = "number-of-policies-does-not-match"
            raise refusal("AOTC-E780", "--trust", found, cause=cause)
        every = list(policies) * (len(references) if len(policies) == 1 else 1)
        self._given = list(zip(references, every, strict=True))
        self._settings, self._tell, self._on_revoked = settings, tell, on_revoked
        self._lock = threading.Lock()
        self._places: dict[str, ServedSource] = {}
        self._named: dict[str, list[ServedSource]] = {}
        self._is_ready = False

    # Loading

    def load_all(self, *, strict: bool) -> tuple[Finding, ...]:
        """Load new and changed bundles, and return the errors of the others.

        With `strict`, raises the first AotcError instead.
        """
        with self._lock:
            findings = self._look_around(strict=strict)
            known = [place for place in self._places.values() if not place.is_unloaded]
            findings += self._load_each(known, strict=strict, is_start=strict)
            self._is_ready = self._is_ready or strict
        return tuple(findings)

    def load_model(self, name: str) -> None:
        """Load new bundles, then the bundle of a model, again if it was changed.

        Raises the first AotcError when all of them were tried.
        """
        with self._lock:
            self._look_around(strict=False)
            every = self._places.values()
            appeared = [place for place in every if not place.was and not place.is_unloaded]
            try:
                self._load_each(appeared, strict=True)
            finally:
                self._load_each(self._places_of(name), strict=True)

    def unload_model(self, name: str) -> None:
        """Unload all versions of a model, each after its last call (AOTC-E762)."""
        with self._lock:
            for place in self._places_of(name):
                slot = place.slot
                place.slot, place.standing, place.was = None, Standing.UNAVAILABLE, ()
                place.refused, place.revoked, place.is_unloaded = (), (), True
                self._index()
                if slot is not None:
                    slot.close()
                    place.releases.clear()
                    self._tell("unloaded", {"bundle": place.reference})

    def withdraw_revoked(self) -> None:
        """Serve what its policy has revoked no more, and close it when its last call has ended."""
        with self._lock:
            for place in list(self._places.values()):
                slot = place.slot
                if not place.revoked or slot is None:
                    continue
                place.slot, place.standing, place.was = None, Standing.UNAVAILABLE, ()
                self._index()
                slot.close()
                place.releases.clear()
                self._tell("withdrawn", {"bundle": place.reference})

    def _look_around(self, *, strict: bool) -> list[Finding]:
        """Add new sources of bundles, and return errors of unreadable folders.

        With `strict`, raises the first AotcError instead.
        """
        findings: list[Finding] = []
        for given, trust in self._given:
            try:
                with _as_refusal(given):
                    references = references_in(given)
            except AotcError as error:
                if strict:
                    raise
                self._tell("refused", {"bundle": given, **_reasons(error)})
                findings += error.findings
                continue
            for reference in references:
                if reference not in self._places:
                    self._places[reference] = ServedSource(reference, trust)
        return findings

    def _load_each(
        self, places: Sequence[ServedSource], *, strict: bool, is_start: bool = False
    ) -> list[Finding]:
        """Load each source independently, and return the errors.

        With `strict`, raises the first AotcError instead. With `is_start`, the caller ends with
        that error, so no event reports it.
        """
        findings: list[Finding] = []
        failed: AotcError | None = None
        for place in places:
            try:
                self._load(place, tells=failed is not None or not is_start)
            except AotcError as error:
                failed = failed or error
                findings += error.findings
        if strict and failed is not None:
            raise failed
        return findings

    def _is_unchanged(self, place: ServedSource, state: tuple[object, ...]) -> bool:
        """Return whether files, now `state`, and the tag are unchanged (RegistryError)."""
        served = place.release
        if served is None or place.was != state:
            return False
        return not is_tag(place.reference) or (
            tag_digest(place.reference, self._settings) == served.bundle.root_digest
        )

    def _tell_refused(self, place: ServedSource, error: AotcError) -> None:
        served = place.release
        serving = served.bundle.version if served is not None else "nothing"
        facts = {"bundle": place.reference, "serving": serving, **_reasons(error)}
        self._tell("refused", facts)

    def _load(self, place: ServedSource, *, tells: bool) -> None:
        """Load a new or changed bundle beside the served one, and replace that when ready.

        With `tells`, an event reports an error. Raises an AotcError.
        """
        if place.slot is None:
            place.standing = Standing.LOADING
        if is_reference(place.reference):
            # A registry may take its time, and is asked again where it does not answer.
            self._tell("looking", {"bundle": place.reference})
        state: tuple[object, ...] = ()
        try:
            with _as_refusal(place.reference):
                state = file_state_of(place)
                if self._is_unchanged(place, state):
                    place.refused = place.revoked = ()
                    self._tell("unchanged", {"bundle": place.reference})
                    return
                bundle = load_bundle(place.reference, place.trust, self._settings)
                try:
                    release = self._release(place, bundle)
                except BaseException:
                    bundle.close()
                    raise
        except AotcError as error:
            place.refused = error.findings
            served = place.release
            if served is None:
                place.standing = Standing.UNAVAILABLE
            if tells:
                self._tell_refused(place, error)
            if served is not None:
                self._check_revocation(place, served, state, error)
            raise
        self._take(place, release, state)

    def _check_revocation(
        self, place: ServedSource, served: Release, state: tuple[object, ...], error: AotcError
    ) -> None:
        """Note whether the policy rejects what serves, after a load failed with `error`."""
        bundle = served.bundle
        is_same_file = not is_tag(place.reference) and place.was[1:] == state[1:]
        try:
            trust = place.trust
            policy = read_policy(trust) if isinstance(trust, Path) else trust
            place.revoked = tuple(revocations(bundle, policy))
        except AotcError:
            return
        if not place.revoked and is_same_file and is_refused_by_policy(error):
            place.revoked = error.findings
        if place.revoked:
            facts = {"version": bundle.version, "digest": bundle.root_digest}
            codes = [found.code for found in place.revoked]
            self._tell("revoked", {"bundle": place.reference, **facts, "codes": codes})
            self._on_revoked()

    def _release(self, place: ServedSource, bundle: LoadedBundle) -> Release:
        """Raises ServerError (AOTC-E780) for names that another bundle has."""
        release = Release(bundle)
        for other in self._places.values():
            theirs = other.release
            if other is place or theirs is None:
                continue
            both = release.models.keys() & theirs.models.keys()
            is_one_bundle = theirs.bundle.name == bundle.name
            if both and not (is_one_bundle and theirs.bundle.version != bundle.version):
                found = f"{min(both)} {bundle.version}, also in {other.reference}"
                raise refusal("AOTC-E780", place.reference, found)
        return release

    def _take(self, place: ServedSource, release: Release, state: tuple[object, ...]) -> None:
        bundle = release.bundle
        place.releases[bundle] = release
        place.refused, place.was, place.standing = (), state, Standing.READY
        place.revoked = ()
        place.is_unloaded = False
        place.names = {bundle.name, *release.models}
        self._tell(
            "serving",
            {
                "bundle": place.reference,
                "name": bundle.name,
                "version": bundle.version,
                "digest": bundle.root_digest,
                "models": sorted({model.name for model in release.models.values()}),
            },
        )
        if place.slot is None:
            place.slot = BundleSlot(bundle)
            self._index()
            return
        old = place.slot.bundle
        # Under its new names before it serves, under its old ones until then.
        self._index(arriving=(place, release))
        place.slot.replace(bundle)
        self._index()
        del place.releases[old]

    # Looking up

    def _index(self, arriving: tuple[ServedSource, Release] | None = None) -> None:
        """Name the places by what they serve; one dictionary takes the other's place at once."""
        named: dict[str, list[ServedSource]] = {}
        for place in self._places.values():
            served = [place.release, arriving[1] if arriving and arriving[0] is place else None]
            for name in {name for release in served if release for name in release.models}:
                named.setdefault(name, []).append(place)
        for places in named.values():
            places.sort(key=newest_first, reverse=True)
        self._named = named

    def serving(self, name: str, version: str = "") -> Serving:
        """Return the model for one request, for `with`.

        Its bundle stays open until the request has ended; `version` "" is the highest. Entering
        raises ServerError: AOTC-E762, E766.
        """
        return Serving(self, name, version)

    def enter(self, name: str, version: str) -> tuple[Model, Calling]:
        """Return the model, and the call to leave when the request has ended.

        Raises ServerError: AOTC-E762, E766.
        """
        for _ in range(3):
            for place in self._named.get(name, ()):
                slot = place.slot
                if slot is None:
                    continue
                calling = slot.calling()
                release = place.releases.get(calling.__enter__())
                model = release.models.get(name) if release is not None else None
                if model is not None and version in ("", model.version):
                    return model, calling
                calling.__exit__()
        raise self._unknown(name, version)

    def find(self, name: str, version: str = "") -> Model:
        """Return a model for inspection. Raises ServerError: AOTC-E762, E766."""
        with self.serving(name, version) as model:
            return model

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model that serve, the highest first."""
        releases = [place.release for place in self._named.get(name, ())]
        return [release.bundle.version for release in releases if release is not None]

    def index(self) -> list[IndexEntry]:
        """Return a row for each model and version; a source that never served has its reference."""
        rows = []
        for place in list(self._places.values()):
            release = place.release
            reason = "; ".join(f"{f.code} {f.where}: {f.found}" for f in place.refused)
            if release is None:
                rows.append(IndexEntry(place.reference, "", place.standing.value, reason))
                continue
            rows += [
                IndexEntry(name, release.bundle.version, Standing.READY.value, reason)
                for name in sorted({model.name for model in release.models.values()})
            ]
        return rows

    def bundles(self) -> list[LoadedBundle]:
        """Return every bundle that serves."""
        releases = [place.release for place in list(self._places.values())]
        return [release.bundle for release in releases if release is not None]

    @property
    def is_ready(self) -> bool:
        """Return whether everything requested at the start has been loaded.

        A later error changes nothing, unless a policy rejects a bundle that serves, or served.
        """
        return self._is_ready and not self.revoked

    @property
    def revoked(self) -> int:
        """The number of bundles that serve, or did, and that their policy has revoked since."""
        return sum(bool(place.revoked) for place in list(self._places.values()))

    def is_model_ready(self, name: str, version: str = "") -> bool:
        """Return whether a model serves and is not revoked (AOTC-E762, E766, E786)."""
        bundle = self.find(name, version).bundle
        return not any(
            place.revoked and place.release is not None and place.release.bundle is bundle
            for place in list(self._places.values())
        )

    @property
    def is_loading(self) -> bool:
        """Return whether a thread loads or checks for changes, which can take minutes."""
        return self._lock.locked()

    def close(self) -> None:
        """Close every bundle, calls or not."""
        for bundle in self.bundles():
            bundle.close()

    def _places_of(self, name: str) -> list[ServedSource]:
        """Return the places that serve a bundle or model of that name, or did."""
        found = [place for place in self._places.values() if name in place.names]
        if not found:
            raise self._unknown(name, "")
        return found

    def _unknown(self, name: str, version: str) -> AotcError:
        if name not in self._named and any(
            place.standing is Standing.LOADING for place in list(self._places.values())
        ):
            return refusal("AOTC-E766", name[:NAME_MAX], "", cause="model-is-still-loading")
        for place in list(self._places.values()):
            if place.revoked and place.slot is None and name in place.names:
                codes = ", ".join(found.code for found in place.revoked)
                return refusal("AOTC-E786", f"model {name[:NAME_MAX]}", codes)
        known = sorted(self._named)
        name, version = name[:NAME_MAX], version[:NAME_MAX]
        if name in self._named:
            expected, cause = "one of: " + ", ".join(self.versions(name)), "model-version-not-found"
            return refusal("AOTC-E762", f"model {name}", version, cause=cause, expected=expected)
        expected = "one of: " + (", ".join(known) or "no models are loaded")
        hint = did_you_mean(name, known, "list the models with `POST /v2/repository/index`")
        return refusal("AOTC-E762", "model", name, expected=expected, hint=hint)


def _reasons(error: AotcError) -> dict[str, object]:
    """Return the facts of an event about an error: one line of text, and the codes in it."""
    reason = " | ".join(map(sentence, error.findings))
    return {"reason": reason, "codes": [each.code for each in error.findings]}


@contextmanager
def _as_refusal(where: str) -> Iterator[None]:
    """Turn an exception of loading that is not an AotcError into one (AOTC-E781)."""
    try:
        yield
    except AotcError:
        raise
    except Exception as error:
        warn_of(error)
        raise refusal("AOTC-E781", where, f"{type(error).__name__}: {first_line(error)}") from error


class Serving:
    """One request, and the model that serves it."""

    __slots__ = ("_calling", "_name", "_repository", "_version")

    def __init__(self, repository: Repository, name: str, version: str) -> None:
        self._repository, self._name, self._version = repository, name, version

    def __enter__(self) -> Model:
        model, self._calling = self._repository.enter(self._name, self._version)
        return model

    def __exit__(self, *_: object) -> None:
        self._calling.__exit__()
