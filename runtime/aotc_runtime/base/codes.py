"""What each code of the runtime means, what to do about it, and what its findings usually say.

errors.md is made of these rows (`make docs`). This module is imported when there is something
to refuse, and not by a load that succeeds: `aotc_runtime.base.errors` asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aotc_runtime.base.errors import (
    AotcError,
    BackendError,
    BundleFormatError,
    Finding,
    IncompatibleHostError,
    IncompatibleRuntimeError,
    IntegrityError,
    ReadinessError,
    RegistryError,
    ResourceError,
    ShapeError,
    TrustError,
)


class ServerError(AotcError):
    """AOTC-E76x, E78x: what a server refuses: requests, or to start.

    Here, and not beside the others, because nothing that loads a bundle raises it.
    """

    exit_code = 2


class Code(NamedTuple):
    """A row of the catalogue. meaning, remedy: for readers of the documentation, in Markdown.
    expected: what findings say where nothing else is said, `{name}` being a value that is given;
    empty if each place says something of its own.  hint: likewise; empty for the remedy.
    """

    meaning: str
    remedy: str
    expected: str = ""
    hint: str = ""


class Family(NamedTuple):
    """Codes that one exception stands for, which also has their exit code. codes: how all of them
    are written at once.
    """

    error: type[AotcError]
    codes: str
    title: str
    rows: Mapping[str, Code]

    def finding(
        self,
        code: str,
        where: str,
        found: str,
        expected: str | None,
        hint: str | None,
        values: Mapping[str, object],
    ) -> Finding:
        """A finding in the words of its row, except where it has its own."""
        row = self.rows[code]
        return Finding(
            code=code,
            where=where,
            expected=row.expected.format_map(values) if expected is None else expected,
            found=found,
            hint=(row.hint.format_map(values) or row.remedy) if hint is None else hint,
        )


BUNDLE_FORMAT = {
    "AOTC-E101": Code(
        "a document is not valid JSON of the expected type",
        "it is damaged, or not aotc's: rebuild it with `aotc build`",
    ),
    "AOTC-E102": Code(
        "a document is not in canonical form",
        "it was rewritten after the build: use the bytes `aotc build` wrote",
        expected="canonical JSON: sorted keys, no white space, no duplicate keys",
    ),
    "AOTC-E103": Code(
        "not a tar archive, or a truncated one",
        "the file is damaged, or not written by `aotc build`: fetch or build it again",
        expected="a tar archive with its end mark",
    ),
    "AOTC-E104": Code(
        "an archive member that has no business in a bundle: a link, another kind, a name twice, "
        "too many",
        "the file is damaged, or not written by `aotc build`: fetch or build it again",
    ),
    "AOTC-E105": Code(
        "bytes in an archive that belong to no member",
        "the file is damaged, or not written by `aotc build`: fetch or build it again",
    ),
    "AOTC-E106": Code(
        "JSON that other tools may rewrite is malformed, or has a key twice",
        "the bundle is damaged: fetch or build it again",
        expected="JSON that is a valid {type}",
    ),
    "AOTC-E107": Code(
        "text in a signature is not canonical base64",
        "the signature is damaged: sign the bundle again with `aotc sign`",
        expected="canonical base64",
    ),
    "AOTC-E108": Code(
        "the bundle, or a file or folder of it, cannot be opened",
        "check the path and the permissions",
        expected="a readable bundle: an .aotb file or an OCI layout folder",
    ),
    "AOTC-E109": Code(
        "a folder that is no OCI layout, or holds links or other files",
        "pass the `.aotb` file, or what `aotc build --layout` wrote",
    ),
    "AOTC-E110": Code(
        "`oci-layout` or `index.json` is missing",
        "the bundle is damaged, or not aotc's: fetch or build it again",
    ),
    "AOTC-E111": Code(
        "a document or all attestations are larger, or a list longer, than any real one",
        "the bundle is damaged, or not aotc's: fetch or build it again",
    ),
    "AOTC-E112": Code(
        "another version of the OCI layout",
        "the bundle is damaged, or not aotc's: fetch or build it again",
    ),
    "AOTC-E113": Code(
        "`index.json` or the root index does not describe exactly one bundle, or lists something "
        "twice",
        "the bundle is damaged, not aotc's, or of a later format: fetch or build it again, or "
        "update aotc-runtime",
    ),
    "AOTC-E114": Code(
        "an attestation is not one envelope about this root, or has that of another one",
        "the bundle is damaged, or not aotc's: fetch or build it again",
    ),
    "AOTC-E115": Code(
        "a bundle format that this runtime does not read",
        "update aotc-runtime here, or build with the aotc that it came with",
    ),
    "AOTC-E116": Code(
        "targets of one bundle contradict each other",
        "the bundle is damaged, or not aotc's: fetch or build it again",
    ),
    "AOTC-E117": Code(
        "a tensor file is not what the bundle manifest says about it",
        "the bundle was put together wrongly: build it again",
    ),
    "AOTC-E118": Code(
        "a bundle manifest contradicts itself",
        "the bundle was put together wrongly: build it again",
    ),
    "AOTC-E119": Code(
        "an envelope without signatures, with too many or with one twice; or more to try with a "
        "policy's keys than any real bundle has",
        "sign the bundle that was built again with `aotc sign`",
    ),
    "AOTC-E131": Code(
        "a tensor file without a valid header",
        "the file is damaged or not safetensors: write it again",
    ),
    "AOTC-E132": Code(
        "a tensor of impossible dtype, shape or size",
        "the file is damaged or not safetensors: write it again",
    ),
    "AOTC-E133": Code(
        "tensors that overlap, leave holes or reach past the end",
        "the file is damaged or not safetensors: write it again",
    ),
}

INTEGRITY = {
    "AOTC-E201": Code(
        "bytes do not have the digest that was signed",
        "the bundle was changed after it was signed: fetch or build it again",
    ),
    "AOTC-E202": Code(
        "a blob is missing", "the bundle was changed after it was signed: fetch or build it again"
    ),
    "AOTC-E203": Code(
        "a blob has another size than was signed",
        "the bundle was changed after it was signed: fetch or build it again",
    ),
    "AOTC-E204": Code(
        "a blob that nothing signed refers to",
        "the bundle was changed after it was signed: fetch or build it again",
    ),
    "AOTC-E205": Code(
        "layers of an image are not the blobs its bundle manifest refers to",
        "the bundle was put together wrongly: build it again",
    ),
    "AOTC-E206": Code(
        "somebody wrote into a file of the bundle after it was verified",
        "verify it again; replace bundles by renaming a new one over them, or pass `sealed=True` "
        "to `verify`",
        expected="the file as it was when it was verified",
    ),
}

TRUST = {
    "AOTC-E301": Code("the bundle is not signed", "sign it with `aotc sign BUNDLE --key KEY`"),
    "AOTC-E302": Code(
        "signed, but by none of the policy's keys",
        "sign with a trusted key, or add the signer's key to the policy",
    ),
    "AOTC-E303": Code(
        "a signature under a trusted key's id does not verify",
        "the attestation was changed: fetch the bundle again, or sign it again",
    ),
    "AOTC-E304": Code(
        "signed by keys of fewer distinct holders than the threshold",
        "have another key holder run `aotc sign BUNDLE --key KEY`",
    ),
    "AOTC-E305": Code(
        "a trusted signature about something else: another bundle, or of a type that is not known",
        "the signature is about something else: sign this bundle with `aotc sign`",
    ),
    "AOTC-E306": Code(
        "the bundle's name is not one the policy is for",
        "load the right bundle, or write a policy for this one",
    ),
    "AOTC-E307": Code(
        "the version is older than the policy allows",
        "deploy the newer version; lowering `minimum_version` allows rollback",
    ),
    "AOTC-E308": Code(
        "the trust policy or a key file cannot be read",
        "check the path; write one with `aotc trust init`",
    ),
    "AOTC-E309": Code(
        "the trust policy is not valid", "correct it ([trust.md](trust.md) lists the keys)"
    ),
    "AOTC-E310": Code(
        "a key in the policy is no Ed25519 or ECDSA P-256 public key, is one that is nobody's (of "
        "small order), or has something else beside it",
        "use the `.pub` file that `aotc keygen` wrote",
    ),
    "AOTC-E311": Code(
        "too few signatures count, because a key is past its `not_after` or before its "
        "`not_before`",
        "sign with a key that is valid now",
    ),
    "AOTC-E312": Code(
        "too few signatures count, because a key is revoked",
        "sign with another key of the policy; a revoked key never counts, listed under `keys` or "
        "not",
        expected="a signature by a key that is not revoked",
    ),
    "AOTC-E313": Code(
        "the policy has revoked this root digest",
        "deploy another build; ask whoever revoked this one for the reason",
        expected="a bundle that the policy does not list under revoked.roots",
    ),
    "AOTC-E314": Code(
        "the policy has revoked a blob of this bundle",
        "deploy a build without it; ask whoever revoked it for the reason",
        expected="a blob that the policy does not list under revoked.blobs",
    ),
    "AOTC-E315": Code(
        "built before `minimum_build_time`, at no stated time, or in the future",
        "deploy a newer build; an earlier minimum_build_time allows rollback",
    ),
    "AOTC-E316": Code(
        "built by a builder that the policy does not accept, or by none that says so",
        "deploy what an accepted builder built",
    ),
    "AOTC-E317": Code(
        "built from a source that the policy does not accept, or from none that it names",
        "deploy a build of accepted sources",
    ),
    "AOTC-E318": Code(
        "the policy does not accept the jaxlib or aotc-runtime that runs here",
        "install one that it accepts",
    ),
    "AOTC-E319": Code(
        "an entry point falls back further than `furthest_fallback`",
        "build it with another policy, or move the limit",
    ),
    "AOTC-E320": Code(
        "a blob, the bundle or the number of blobs exceeds the policy's `limits`",
        "deploy a smaller bundle, or raise the limit in the policy",
    ),
    "AOTC-E322": Code(
        "executables of an engine that is not among the policy's `engines`",
        "build a target with an accepted engine, or add this one to the policy's engines",
    ),
    "AOTC-E323": Code(
        "a build described by a key that may not speak for its builder",
        "have the builder's own key sign its provenance (`aotc build --key`), or add the builder "
        "to this key's builders in the policy; other keys endorse with `aotc sign`",
    ),
    "AOTC-E324": Code(
        "a timestamp of a trusted signature that is damaged, of something else or of the future",
        "fetch the bundle again; or sign it anew with `aotc sign --timestamp`",
        expected="an RFC 3161 timestamp of this signature",
    ),
    "AOTC-E325": Code(
        "a policy with timestamp authorities where rfc3161-client is not installed",
        "in a clone, `pip install './runtime[timestamps]'`",
        expected="rfc3161-client, which verifies timestamps for the policy's timestamp_authorities",
    ),
    "AOTC-E326": Code(
        "a reference by a tag, or by no name at all, where the policy takes digests alone",
        "write …@sha256:…: `aotc push` printed it",
        expected='a digest, as the policy\'s references = "digest" has it',
    ),
    "AOTC-E327": Code(
        "a bundle of a name that the channel does not have",
        "correct the channel's `name` in the policy, or `aotc channel publish` the bundle there",
        expected="a bundle that the channel names",
    ),
    "AOTC-E328": Code(
        "metadata of a channel that are older than what this host saw before, or of several "
        "states mixed: a rollback",
        "copy the mirror again, or find out who serves old metadata",
        expected="metadata at least as new as those that this host saw last, of one state",
    ),
    "AOTC-E329": Code(
        "metadata of a channel that have expired: nobody says any more what is deployed",
        "copy the mirror again; its owner renews it with `aotc channel publish`",
        expected="metadata that have not expired, by the clock of this host",
    ),
    "AOTC-E330": Code(
        "metadata of a channel that are damaged, too large, or not signed by enough keys of their "
        "role",
        "check `root_file` in the policy's `[channel]`, and who serves the metadata",
        expected="TUF metadata signed by as many keys as their role asks for",
    ),
    "AOTC-E331": Code(
        "metadata of a channel that cannot be had: no answer, or one that takes too long",
        "check `source` in the policy's `[channel]`",
        expected="the channel's metadata, within a minute",
    ),
    "AOTC-E332": Code(
        "what this host saw last of a channel is damaged, of another channel, or cannot be read "
        "or written",
        "make the folder's parent, and let whoever verifies write there",
        expected="a folder with what this host saw last, or one to keep it in",
    ),
    "AOTC-E333": Code(
        "a channel is asked where python-tuf is not installed",
        "in a clone, `pip install ./runtime './runtime/serve[channel]'`",
        expected="python-tuf, which verifies channels",
    ),
    "AOTC-E334": Code(
        "a signature by Sigstore and a policy with identities, where sigstore is not installed",
        "in a clone, `pip install './runtime[sigstore]'`",
        expected="sigstore, which verifies signatures for the policy's identities",
    ),
    "AOTC-E335": Code(
        "a bundle that is not the one that the channel names",
        "deploy that one; or `aotc channel publish` this one, if it is to be deployed",
    ),
    "AOTC-E336": Code(
        "an entry point that states finite numbers, under a policy that asks for IEEE numerics",
        'build it without `numerics = "finite"`, or remove `numerics` from the policy',
        expected='NaN and infinities compared at build, as the policy\'s numerics = "ieee" has it',
    ),
}

RUNTIME = {
    "AOTC-E401": Code(
        "built by a jaxlib that does not match the one that runs",
        "install the accepted version, or rebuild with the running one",
    ),
    "AOTC-E402": Code(
        "a host whose `aotc-runtime` does not read this bundle format",
        "update it there, or rebuild the bundle",
    ),
    "AOTC-E403": Code(
        "no plugin for the accelerator, no package of the engine, or one of a version that the "
        "bundle does not accept",
        "install the accepted version",
    ),
    "AOTC-E404": Code(
        "a module that other sizes are compiled from, in a newer StableHLO than the running "
        "jaxlib reads",
        "install a newer jaxlib, or build with an older one",
    ),
    "AOTC-E405": Code(
        "what runs the bundle's executables is not installed; it was verified without",
        "install the extra that the message names: in a clone, `pip install './runtime[xla]'`",
    ),
    "AOTC-E406": Code(
        "what fetches or serves bundles over the network is not installed",
        "install it: in a clone, `pip install ./runtime './runtime/serve[serve]'`",
        expected="aotc-serve, and to serve also its extra `serve`",
    ),
    "AOTC-E411": Code(
        "beside E401 or E403: a certificate for this version by a key that has expired, is not "
        "yet valid or is revoked",
        "`aotc certify BUNDLE --with PACKAGE==VERSION --key KEY`, by one of the certifiers",
        expected="a certifier's key that counts now",
    ),
    "AOTC-E412": Code(
        "beside E401 or E403: the policy names certifiers, and none of their certificates is "
        "about this root, target and version; it says what they are about",
        "`aotc certify BUNDLE --with PACKAGE==VERSION --key KEY`, by one of the certifiers",
    ),
    "AOTC-E413": Code(
        "beside E401 or E403: a certificate says that this target did not pass under this version",
        "run the version that the bundle was built with, or build with this one",
    ),
    "AOTC-E414": Code(
        "beside E401 or E403: a certificate of other fixtures or executables than the bundle's, "
        "or not of all",
        "`aotc certify BUNDLE --with PACKAGE==VERSION --key KEY`, by one of the certifiers",
    ),
}

HOST = {
    "AOTC-E501": Code(
        "another platform, processor architecture, operating system or C library",
        "deploy elsewhere, or build for a target of this host",
    ),
    "AOTC-E502": Code(
        "the processor lacks features that the executables use",
        "build for a lower target too, or run on a host that has them",
    ),
    "AOTC-E503": Code(
        "fewer devices than the bundle needs; of a processor: than XLA was started with in this "
        "process",
        "run where that many are visible; load the bundle that needs the most first, or pass "
        "`devices` to the first load",
    ),
    "AOTC-E504": Code(
        "custom calls that this runtime cannot serve", "use an `aotc-runtime` that serves them"
    ),
    "AOTC-E505": Code("the bundle has no such target", "pass one that it has, or none"),
    "AOTC-E506": Code(
        "the installed jaxlib, or numpy, cannot run on this processor; found out before either is "
        "loaded",
        "use a host with these features",
    ),
    "AOTC-E507": Code(
        "a C library older than jaxlib needs", "run on a newer system, or in a container of one"
    ),
    "AOTC-E508": Code(
        "accelerators of another kind or compute capability",
        "build for a target of these devices, or run on the expected ones",
    ),
    "AOTC-E509": Code("a driver older than the executables need", "update it"),
    "AOTC-E510": Code(
        "a Python package is missing that custom calls need: scipy, for LAPACK", "install it"
    ),
}

RESOURCES = {
    "AOTC-E551": Code(
        "less free memory than the bundle needs",
        "raise the limit of the process, or build smaller profiles",
    ),
    "AOTC-E552": Code(
        "another number of XLA threads than this process was started with, or no number of at "
        "least 1",
        "pass `threads` to the first load of the process",
    ),
    "AOTC-E553": Code(
        "no memory for padded inputs, or for results that are cut or joined",
        "the bundle stays usable; free some, or call with sizes of a profile",
        expected="memory for padded inputs, and for results that are cut or joined",
    ),
    "AOTC-E554": Code(
        "less free memory on an accelerator than the bundle needs",
        "free some, or build smaller profiles",
    ),
    "AOTC-E555": Code(
        "another number of devices was asked for than XLA was started with in this process, or an "
        "impossible one",
        "pass `devices` to the first load of the process",
    ),
    "AOTC-E556": Code(
        "`load(memory_limit=…)` that is no number of bytes", "pass an int, such as `2 * 2**30`"
    ),
}

STORES = {
    "AOTC-E560": Code(
        "a store of bundles, or what is fetched, cannot be written: full, read-only, or no folder",
        "check the folder, its permissions and free space; what was there is as it was",
        expected="a folder that can be written, with room",
    ),
    "AOTC-E561": Code(
        "a bundle that is larger than the limit of the store",
        "raise the limit, or fetch one target alone",
    ),
}

CALLS = {
    "AOTC-E601": Code(
        "arguments do not fit the entry point's signature",
        "pass its parameters by position or by name",
    ),
    "AOTC-E602": Code("no such entry point", "use one that `aotc inspect` lists"),
    "AOTC-E604": Code(
        "an argument's structure (dicts, lists, tuples) is another",
        "pass the structure that the entry point was built with (`aotc inspect`)",
    ),
    "AOTC-E605": Code("an argument is no array", "pass `np.asarray(value, dtype)`"),
    "AOTC-E606": Code(
        "an array of another dtype; nothing is cast silently", "convert it with `.astype`"
    ),
    "AOTC-E611": Code(
        "no profile was compiled for these sizes",
        "call with a profile's sizes, or add the profile and rebuild",
    ),
    "AOTC-E612": Code(
        "shapes that no profile could serve: another number of axes, a fixed axis of another "
        "size, inputs that disagree",
        "pass what the program was captured with",
    ),
    "AOTC-E613": Code(
        "sizes that the bundle does not accept: outside of a dimension's range, no multiple, or "
        "against a relation",
        "call with sizes that the build manifest states, or widen it and build again",
    ),
    "AOTC-E614": Code(
        "no executable for these sizes yet: it is being compiled, beside the calls",
        "call again later, or with sizes of a profile; sizes that are asked for often should be "
        "`profiles`",
        expected="an executable that was compiled for these sizes",
    ),
    "AOTC-E615": Code(
        "compiling for these sizes failed, or took longer than the policy allows",
        "add them to `profiles` and rebuild",
        expected="an executable that was compiled for these sizes",
        hint="add these sizes to `profiles` and build again",
    ),
    "AOTC-E616": Code(
        "a size that no profiles add up to, under the policy `split`",
        "call with a sum of the profiles' sizes",
    ),
    "AOTC-E631": Code(
        "an array that an earlier call used up, because it donates that input",
        "use the call's result instead, or keep a copy with `np.asarray` before",
        expected="an array that is still there",
    ),
    "AOTC-E632": Code(
        "one array passed twice in a call that donates it",
        "pass a copy for the other argument: `np.asarray(x)`",
        expected="a donated array passed once",
    ),
    "AOTC-E633": Code("the bundle was closed, or is no bundle that is ready", "load it again"),
    "AOTC-E634": Code(
        "an array that lies on several devices was asked for through DLPack",
        "copy it to the host: `np.asarray(x)`",
        expected="an array on one device, which DLPack describes",
    ),
}

READINESS = {
    "AOTC-E701": Code(
        "a fixture's result differs from the one recorded at build",
        "do not serve from this host: rebuild for it, or raise the tolerance if the difference is "
        "harmless",
    ),
    "AOTC-E702": Code(
        "a recorded fixture is not what the manifest says about it",
        "the bundle was put together wrongly: build it again",
    ),
    "AOTC-E703": Code(
        "something was compiled while loading",
        "this is a bug in aotc-runtime: please report it",
        expected="0 compilations",
    ),
    "AOTC-E704": Code(
        "an executable gives another result in a second call with the same inputs",
        "do not serve this bundle: build for another engine, and report it with the engine's "
        "version",
        expected="the same bytes in every call with the same inputs",
    ),
}

BACKEND = {
    "AOTC-E750": Code(
        "XLA refuses the `XLA_FLAGS` of this process; left to itself it would end the process",
        "correct the variable or unset it: executables of bundles do not depend on it",
    ),
    "AOTC-E751": Code(
        "jaxlib lacks a private name that the runtime uses",
        "install a jaxlib that this `aotc-runtime` supports",
        expected="the private names of jaxlib 0.11.2 to 0.12.0 (aotc_runtime/engines/xla)",
    ),
    "AOTC-E752": Code(
        "jaxlib does not describe this processor",
        "install a jaxlib that this `aotc-runtime` supports",
        expected="a description in jaxlib's topology",
    ),
    "AOTC-E753": Code(
        "the engine cannot load an executable",
        "rebuild with the release of the engine that is installed here",
        expected="an executable that XLA loads",
    ),
    "AOTC-E754": Code(
        "a bundle used in a fork of the process that loaded it",
        "load after forking (gunicorn: in post_fork), or start processes with spawn",
        expected="bundles loaded in the process that uses them",
    ),
    "AOTC-E755": Code(
        "XLA failed while running an executable", "the message is XLA's; the bundle stays usable"
    ),
    "AOTC-E756": Code(
        "XLA failed to compile the bundled module for a call's sizes, the module compiled here "
        "gives other results than recorded, or there is no memory for a call; told to calls as "
        "E615",
        "call with sizes of a profile, or add these to `profiles` and build again",
    ),
    "AOTC-E757": Code(
        "an executable over several devices is not cut as the manifest says",
        "the bundle was put together wrongly: build it again",
    ),
    "AOTC-E758": Code(
        "XLA finds no device of the bundle's platform, although the host seemed to have one; or "
        "bundles for another platform run in this process",
        "look at the driver with its own tools; load it in a process of its own",
    ),
}

SERVER = {
    "AOTC-E761": Code(
        "a request that is not what the protocol says: malformed JSON, a size that lies, a tensor "
        "that is missing, unknown or there twice (HTTP 400, INVALID_ARGUMENT)",
        "send what the model's metadata describe",
    ),
    "AOTC-E762": Code(
        "no such model, version or address (HTTP 404, NOT_FOUND)",
        "use one that `/v2/repository/index` lists",
    ),
    "AOTC-E763": Code(
        "a request that is larger than the server accepts (HTTP 413, RESOURCE_EXHAUSTED)",
        "send less at once, or start the server with a higher limit",
    ),
    "AOTC-E764": Code(
        "a body that did not arrive in time (HTTP 408)",
        "send it faster, or start the server with a longer `--body-seconds`",
    ),
    "AOTC-E765": Code(
        "a call that took longer than the server waits (HTTP 504, DEADLINE_EXCEEDED)",
        "ask for less at once, or start the server with a longer `--call-seconds`",
    ),
    "AOTC-E766": Code(
        "a server that is starting, ending, or has too much to do (HTTP 503, UNAVAILABLE)",
        "try again later, or elsewhere",
        expected="a server with room for this request",
    ),
    "AOTC-E767": Code(
        "a part of the protocol that this server does not offer (HTTP 501, UNIMPLEMENTED)",
        "leave it out of the request",
    ),
    "AOTC-E768": Code(
        "loading and unloading over the network, which was not allowed when the server was "
        "started (HTTP 403, PERMISSION_DENIED)",
        "start the server with `--control`, or send it SIGHUP",
    ),
    "AOTC-E769": Code(
        "a result with NaN or an infinity, which JSON cannot hold (HTTP 400)",
        "ask for binary data: `binary_data_output`",
    ),
    "AOTC-E780": Code(
        "bundles that would be served under the same name and version, or policies that do not "
        "fit them",
        "pass one of them",
    ),
    "AOTC-E781": Code(
        "a fault of the server itself; its log has the details (HTTP 500, INTERNAL)",
        "the log of the server has the details; please report it",
        expected="an answer",
    ),
    "AOTC-E782": Code(
        "an address that the server cannot listen at",
        "pass another `--host`, `--port` or `--grpc-port`",
        expected="an address to listen at",
    ),
    "AOTC-E783": Code(
        "a replica that finds another bundle than the one that its deployment was made with",
        "put that bundle back on this node, or deploy again",
    ),
    "AOTC-E785": Code(
        "an argument of a deployment that is unknown, missing or of the wrong kind",
        "docs/guides/serve.md lists the arguments",
    ),
    "AOTC-E786": Code(
        "a model whose bundle the policy has revoked since it was loaded (HTTP 503, UNAVAILABLE)",
        "deploy a bundle that the policy accepts, and send the server SIGHUP",
        expected="a bundle that the policy accepts",
    ),
}

REGISTRY = {
    "AOTC-E770": Code(
        "`--ca` names no file of certificates",
        "name the PEM file of whoever signed the registry's certificate",
        expected="a file of PEM certificates",
    ),
    "AOTC-E771": Code(
        "a reference that names no place in a registry",
        "write it as `oci://HOST/REPOSITORY:TAG` or `oci://HOST/REPOSITORY@sha256:…`; who asks is "
        "told by `docker login`, and never in it",
        expected="oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]",
        hint="write it so; passwords come from `docker login`",
    ),
    "AOTC-E772": Code(
        "a registry cannot be reached, breaks off again and again, or has no time",
        "try again later: what has arrived is not sent or fetched again where there is a store",
        expected="an answer of the registry",
        hint="look at the network and the registry, and run it again",
    ),
    "AOTC-E773": Code(
        "a registry does not let this user in, or the credentials cannot be read",
        "`docker login HOST`, as a user who may read, or write, the repository",
        expected="to be let in",
    ),
    "AOTC-E774": Code(
        "a registry has no such repository, tag, digest or blob",
        "look at the reference, and whether this user may see it",
        expected="what the reference names",
    ),
    "AOTC-E775": Code(
        "a registry refuses a request, or says what registries do not say: other ranges, too "
        "much, redirects without TLS, documents that are none of a bundle",
        "report it to whoever runs the registry; nothing of it was used",
        expected="what the OCI distribution specification says",
    ),
}

FAMILIES: tuple[Family, ...] = (
    Family(BundleFormatError, "E1xx", "bundle format", BUNDLE_FORMAT),
    Family(IntegrityError, "E2xx", "integrity", INTEGRITY),
    Family(TrustError, "E3xx", "trust", TRUST),
    Family(IncompatibleRuntimeError, "E4xx", "runtime", RUNTIME),
    Family(IncompatibleHostError, "E50x, E51x", "host", HOST),
    Family(ResourceError, "E55x", "resources", RESOURCES),
    Family(ResourceError, "E56x", "stores", STORES),
    Family(ShapeError, "E6xx", "calls", CALLS),
    Family(ReadinessError, "E70x", "readiness", READINESS),
    Family(BackendError, "E75x", "backend", BACKEND),
    Family(ServerError, "E76x, E78x", "server", SERVER),
    Family(RegistryError, "E77x", "registries", REGISTRY),
)

FAMILY_OF: dict[str, Family] = {code: family for family in FAMILIES for code in family.rows}
