"""What each code of the toolchain means, what to do about it, and what its findings usually say.

docs/errors.md is made of these rows and those of `aotc_runtime.base.codes` (`make docs`). This
module is imported when there is something to refuse: `aotc.base.errors` asks for it.
"""

from __future__ import annotations

import aotc_runtime.base.codes
from aotc.base.errors import (
    AbortedError,
    BudgetExceededError,
    BuildManifestError,
    CaptureError,
    CompileError,
    FleetError,
    HungUpError,
    ParityError,
    ReproducibilityError,
    TerminatedError,
    UsageError,
)
from aotc_runtime.base.codes import Code, Family
from aotc_runtime.base.errors import BackendError, ResourceError, TrustError

USAGE = {
    "AOTC-E001": Code(
        "the command line cannot be understood",
        "`aotc COMMAND --help` shows its arguments and options",
    ),
    "AOTC-E003": Code(
        "a place cannot be written: a folder, the temporary one, stdout",
        "check the folder, its permissions and free space; what was there is as it was",
        expected="a place that can be written",
    ),
    "AOTC-E004": Code(
        "the place holds something else than an older result of the same kind",
        "name another place, or move away what is there; nothing was written",
    ),
    "AOTC-E005": Code(
        "the file exists already; keys and policies are never overwritten",
        "choose another name, or move the old file away",
        expected="a file that does not exist yet",
    ),
    "AOTC-E006": Code(
        "not a readable private key (PKCS#8 PEM, Ed25519 or ECDSA P-256), or a file with more in "
        "it than one",
        "make one with `aotc keygen`",
    ),
    "AOTC-E007": Code(
        "the key's passphrase is missing or wrong",
        "set `AOTC_KEY_PASSPHRASE`, pass `--passphrase-file`, or run in a terminal",
        expected="the passphrase of the key",
    ),
    "AOTC-E008": Code(
        "a passphrase cannot be used, or its file not be read",
        "correct the path or the file, or set AOTC_KEY_PASSPHRASE",
        expected="a passphrase in the first line, at most {most} bytes",
    ),
    "AOTC-E009": Code(
        "no passphrase for a new key",
        "set one, or ask for an unencrypted key with `--plain`",
        expected="a passphrase for the private key",
    ),
    "AOTC-E010": Code(
        "a trust policy with fewer keys than its threshold",
        "add another --key, or lower --threshold",
        expected="as many keys as the threshold",
    ),
    "AOTC-E011": Code(
        "an `--input` or `--expect` cannot be understood",
        "write `NAME=@file.npy`, `NAME=8x64xf32` or `@file.npz`",
    ),
    "AOTC-E012": Code(
        "an array file cannot be read",
        "write it with numpy.save",
        expected="a readable .npy or .npz file",
    ),
    "AOTC-E013": Code(
        "an input or a result that does not exist, or is missing",
        "name them as `aotc inspect` shows them",
    ),
    "AOTC-E014": Code(
        "`aotc bench --profile`, `aotc explain --profile`: not sizes by name, or none of the "
        "bundle's profiles",
        "write it as `aotc inspect` shows it: `batch=8`",
    ),
    "AOTC-E015": Code(
        "`SOURCE_DATE_EPOCH` is no time",
        "write whole seconds since 1970, or unset it",
        expected="whole seconds since 1970-01-01T00:00:00Z",
    ),
    "AOTC-E016": Code(
        "a signer from another package failed, or signs with another key than it says",
        "this comes from the package that serves the scheme; -v shows its traceback",
    ),
    "AOTC-E017": Code(
        "a PKCS#11 URI that cannot be understood, or one with a PIN in it",
        'write it as in --key "pkcs11:token=NAME;object=KEY?module-path=/path/to/module.so"',
    ),
    "AOTC-E018": Code(
        "a PKCS#11 library, token or key that is not there, or does not sign",
        "correct the URI; `pip install ./runtime ./runtime/serve '.[pkcs11]'` if the package is "
        "missing",
    ),
    "AOTC-E019": Code(
        "the PIN of a PKCS#11 token is missing or refused",
        "set AOTC_PKCS11_PIN, add pin-source=FILE to the URI, or run in a terminal",
        expected="the PIN of the token",
    ),
    "AOTC-E022": Code(
        "no signer, or more than one, for the scheme of a key URI",
        "install the package that serves it; spell the path of a file `./NAME`",
    ),
    "AOTC-E023": Code(
        "`aotc trust`: a key that stands in the policy already, or something to revoke that is "
        "no key, bundle or digest",
        "`aotc trust show` lists the keys and what is revoked",
    ),
    "AOTC-E024": Code(
        "a policy that cannot be changed in place",
        "change the policy in an editor (docs/trust.md lists its keys); nothing was written",
        expected="TOML that can be changed in place",
    ),
    "AOTC-E025": Code(
        "`aotc trust`: a key without `--holder`, where the threshold is above 1 or others have one",
        "name who holds it, such as ci; for a key that takes another's place, the same "
        "holder as that one",
        expected="--holder with each key: a threshold of {threshold} counts holders, and two keys "
        "of one holder count once",
    ),
    "AOTC-E026": Code(
        "`aotc sign --timestamp`: the authority gave no timestamp of this signature",
        "check the URL, or that the command reads a query and writes the answer; it needs "
        "from a clone: `pip install ./runtime ./runtime/serve '.[timestamps]'`",
        expected="an RFC 3161 timestamp of the signature",
    ),
    "AOTC-E027": Code(
        "`aotc channel`: a folder that holds no channel, a damaged one, or an older one than was "
        "seen last",
        "correct the path, or make one with `aotc channel init`",
        expected="a folder that `aotc channel init` made",
    ),
    "AOTC-E028": Code(
        "`aotc channel`: a key that has no such role, too few keys, one that is given twice, or "
        "something else that waits for signatures",
        "`aotc channel status FOLDER` shows the keys of each role",
        expected="keys of the role that signs, each once, as many as its threshold",
    ),
    "AOTC-E029": Code(
        "`aotc attach`: a file that is no Sigstore bundle with provenance of this bundle",
        "sign provenance of the bundle's root digest with a client of Sigstore",
        expected="a Sigstore bundle (v0.3) whose statement is SLSA provenance of this root digest",
        hint="docs/signing.md shows how to make one",
    ),
    "AOTC-E030": Code(
        "not a readable tuning file",
        "correct the path, or tune again",
        expected="a tuning file, as `aotc build --tune --save-tuning` writes it",
    ),
    "AOTC-E031": Code(
        "a tuning file of another program, target, jaxlib or engine",
        "tune again: `aotc build --tune --save-tuning`",
    ),
    "AOTC-E032": Code(
        "this process has no file or no address space left, or no current folder, or a name is "
        "not UTF-8",
        "raise the limit (`ulimit -n`, `ulimit -v`), change to a folder that is there, or rename "
        "the file",
    ),
    "AOTC-E040": Code(
        "a traffic log that cannot be read",
        "write JSON lines, CSV with a header, or a report of a bundle "
        "([profiles.md](profiles.md#logs))",
        expected="a log of sizes: JSON lines, CSV with a header, or a report of a bundle",
        hint='write a line such as {{"batch": 3, "seq": 117}} for each call',
    ),
    "AOTC-E041": Code(
        "a traffic log without calls that the entry point could serve",
        "check `--entry`, the names of the dimensions, and their ranges",
    ),
    "AOTC-E042": Code(
        "several entry points have dimensions, or the named one has none", "pass `--entry NAME`"
    ),
    "AOTC-E045": Code(
        "`aotc profiles check`: the bundle has no such target", "pass one that it has, or none"
    ),
    "AOTC-E050": Code(
        "`aotc merge`: bundles of different programs",
        "build them from the same manifest, sources, weights and fixtures, with one version of jax",
    ),
    "AOTC-E051": Code(
        "`aotc merge`: two different targets of one name",
        "extract the ones that are wanted, or rename one of the target files",
        expected="another target, or exactly {digest} as in {bundle}",
        hint="extract the targets that are wanted (`aotc extract --target {target}`), or rename "
        "one of the two target files",
    ),
    "AOTC-E052": Code(
        "`aotc sign`: a copy from which targets were left out",
        "sign the whole bundle, then extract from it; a copy keeps its signatures",
        expected="a bundle that holds every target of its root",
    ),
    "AOTC-E053": Code(
        "`aotc compat`: a file that does not describe a host",
        "write it on that host: `aotc host-info > NAME.json`, or `aotc-runtime host-info`",
    ),
    "AOTC-E054": Code(
        "the output of `aotc extract` or `aotc merge` is a bundle that it reads, whose targets "
        "or signatures would be lost",
        "name a new file or folder; nothing was written",
        expected="another place than that of a bundle that is read",
    ),
    "AOTC-E055": Code(
        "`aotc explain`: an entry point, target or profile that the bundle does not have",
        "name one that it has",
    ),
    "AOTC-E056": Code(
        "`aotc diff --fail-on`: no rule",
        "write it as [commands.md](commands.md#diff) has it: `flops>+5%`, `module`",
        hint="write it as module, flops, flops>+5% or temp_memory>+64kB",
    ),
    "AOTC-E057": Code(
        "a module or executable cannot be shown as text",
        "use the jaxlib that the bundle was built with; "
        "`pip install ./runtime ./runtime/serve '.[explain]'` for executables of accelerators",
    ),
    "AOTC-E058": Code(
        "attestations that no reader would take: too many, or too large "
        "([bundle-format.md](bundle-format.md#limits))",
        "build from fewer files; add fewer signatures and certificates",
    ),
    "AOTC-E060": Code(
        "the folder of the cache cannot be used, or others may write to it",
        "take the others' right to write away (chmod go-w), name another folder with "
        "--cache, or build with --cache off; to share entries, there is --remote-cache",
        expected="a folder that only you can write to, since executables are taken from it",
    ),
    "AOTC-E061": Code(
        "`--cache-size` is no size",
        "write it as `500 MB` or `20 GiB`",
        expected="a size: 500 MB, 20 GiB",
        hint="units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB",
    ),
    "AOTC-E062": Code(
        "`--remote-cache`: a URL that nothing installed serves",
        "correct it, or install the package that the hint names",
        expected="a URL that http or an installed package of fsspec serves",
    ),
    "AOTC-E063": Code(
        "`--remote-cache` without a key whose entries count",
        "pass --cache-trust KEY.pub to read, --cache-key KEY to read and write",
        expected="a key whose entries are used, since executables are taken from there",
    ),
    "AOTC-E064": Code(
        "`--executor`: not a URL of a Dask scheduler, or Dask is not installed",
        "write it as `dask://HOST:PORT`; `pip install ./runtime ./runtime/serve '.[dask]'`",
        expected="an executor: dask://HOST:PORT, dask+tls://HOST:PORT",
    ),
    "AOTC-E065": Code(
        "`--executor`: the scheduler does not answer",
        "start one with `dask scheduler`, and workers with `dask worker`",
        expected="the scheduler of a Dask cluster",
    ),
    "AOTC-E066": Code(
        "`aotc reproduce --install`: no policy that accepts the bundle whose packages it would "
        "install",
        "pass --trust POLICY; or --untrusted, if you know who made this bundle and where "
        "it has been",
        expected="--trust, a policy that accepts the bundle before what it names is installed",
    ),
    "AOTC-E080": Code(
        "`aotc init`: an option that cannot be understood, or two for one parameter",
        "write it as the message shows",
    ),
    "AOTC-E081": Code(
        "`aotc init`: a parameter of which nothing is known",
        "describe it with an option, an example or an annotation",
        expected="what it is: an array, weights, or a fixed value",
    ),
    "AOTC-E082": Code(
        "`aotc init`: an example that raises, does not fit the function, or holds what a "
        "manifest cannot write",
        "correct it, or let a function return the structure (`--like`)",
    ),
    "AOTC-E083": Code(
        "`aotc init`: an option for a parameter, array or axes that the function or its example "
        "does not have",
        "correct the name or the axes",
    ),
    "AOTC-E084": Code(
        "`aotc init`: the file exists",
        "name another with `--output`",
        expected="the name of a new file",
    ),
    "AOTC-E085": Code(
        "`aotc init`: something to call that no manifest can: a class, a method that is named on "
        "its class, a generator, a coroutine, arguments without names",
        "name an object's method, or write a function around it",
        expected="a function that takes arrays by name and returns arrays",
    ),
    "AOTC-E092": Code(
        "`--builder-id` or `AOTC_BUILDER_ID` is no URI",
        "name who builds as `https://ci.example.org/builder/7`",
        expected="a URI that names who builds",
        hint="such as https://ci.example.org/builder/7; policies name it in accepts.builders",
    ),
}

TRUST = {
    "AOTC-E321": Code(
        "`aotc trust check`: the threshold cannot be reached, or not for as long as was asked",
        "add a key (`aotc trust add-key`), or move a not_after that is still right",
        expected="{threshold} or more keys that count {when}",
    ),
}

RESOURCES = {
    "AOTC-E557": Code(
        "`aotc certify`: the package index cannot be reached, and the version is not cached",
        "connect to it, or configure another index for pip or uv (PIP_INDEX_URL, "
        "UV_INDEX_URL); environments that exist already need none",
    ),
    "AOTC-E558": Code(
        "`aotc certify`: the index has no wheels of this version, or of what the runtime needs, "
        "for this Python; or it spells the version otherwise (0.12 for 0.12.0)",
        "choose a version that it has, or certify with another Python",
    ),
    "AOTC-E559": Code(
        "`aotc certify`: an environment cannot be made, or what runs in it was replaced",
        "read what the installer said; free some space",
    ),
}

BACKEND = {
    "AOTC-E759": Code(
        "a process of `aotc bench` ended early",
        "if memory ran out, measure fewer threads: --threads 1; else report it",
        expected="the executables to run for as long as they are measured",
    ),
}

BUILD_MANIFEST = {
    "AOTC-E801": Code("the file cannot be read", "check the path"),
    "AOTC-E802": Code("not TOML", "correct the syntax on that line"),
    "AOTC-E803": Code("an unknown key", "correct its name, or remove it"),
    "AOTC-E804": Code("a missing key", "add it"),
    "AOTC-E805": Code("a value of the wrong type, or outside what is allowed", "correct the value"),
    "AOTC-E806": Code(
        "a name that nothing has: a dimension, weights set, input, parameter",
        "correct the name, or declare it",
    ),
    "AOTC-E807": Code(
        "keys that contradict each other, or something given twice", "remove one of the two"
    ),
    "AOTC-E808": Code(
        "a file that the manifest names is not there", "create it, or correct the path"
    ),
    "AOTC-E809": Code("something declared that nothing uses", "use it, or remove it"),
    "AOTC-E810": Code(
        "another schema version", "use the aotc the file was written for, or rewrite the file"
    ),
    "AOTC-E811": Code("no such target", "`aotc targets list` shows them all"),
    "AOTC-E812": Code(
        "a target names a processor, feature or option that is not known", "correct the name"
    ),
    "AOTC-E813": Code(
        "two target files with one name",
        "rename one of the two target files' `name`",
        expected="targets with distinct names",
    ),
    "AOTC-E814": Code(
        "a sharding does not fit an array: another number of axes, or a size that the devices do "
        "not divide",
        "write one item for each axis, `[]` for one that is not cut; change the size",
    ),
    "AOTC-E815": Code(
        "a target has another number of devices than the mesh, or than its TPU topology",
        "set `devices` in `[target.NAME]`, name another target, or change the mesh",
    ),
    "AOTC-E816": Code(
        "an engine that is not known, or none of those asked for compiles for the target",
        "correct `engines` in the manifest or in its `[target.NAME]`, or install what brings it",
    ),
}

CAPTURE = {
    "AOTC-E820": Code(
        "the function's module cannot be imported, or the function is not there",
        "correct the name; modules are found from the manifest's folder. If Keras lacks a "
        "backend, set `KERAS_BACKEND=jax`",
    ),
    "AOTC-E821": Code(
        "the function's parameters and the manifest do not match, or one would land in `**kwargs`",
        "bind, pass or fix each parameter, and only those; name them in the signature",
    ),
    "AOTC-E822": Code(
        "a call back into Python",
        "remove it: callbacks cannot be shipped. Where a library makes it, [a "
        "setting](build-manifest.md#libraries-that-call-back-into-python) may help",
        expected="a function that runs on the device alone",
    ),
    "AOTC-E823": Code(
        "an ordered or other side effect",
        "remove the operation that has this effect",
        expected="a function without side effects",
    ),
    "AOTC-E824": Code(
        "a mutable reference that the function closes over",
        "pass the state in as an argument and return the new state",
        expected="a pure function",
    ),
    "AOTC-E825": Code("a result that is no array, or holds none", "return arrays, and arrays only"),
    "AOTC-E826": Code(
        "control flow, a shape or an index that depends on array values, or numpy on a traced "
        "array",
        "use `lax.cond`, `lax.while_loop` or `jnp.where`, or make it `static`; `jnp` instead of "
        "numpy",
    ),
    "AOTC-E827": Code(
        "results whose structure changes from profile to profile",
        "return the same structure and dtypes at every size; split the function into two "
        "entry points otherwise",
    ),
    "AOTC-E828": Code(
        "64-bit types while 64-bit types are off",
        "set `enable_x64 = true`, or ask for 32-bit types",
    ),
    "AOTC-E829": Code(
        "the function, or one the manifest names, raised an exception",
        "`-v` shows its traceback and what it printed",
    ),
    "AOTC-E830": Code(
        "weights: not a tree of arrays, no safetensors file, or not what `init` describes",
        "write the file from the tree that `init` returns",
    ),
    "AOTC-E831": Code(
        "fixtures cannot be made, or do not fit the inputs or the results",
        "correct the file, or give `seed` and `ranges`",
    ),
    "AOTC-E832": Code(
        "a dtype that cannot be shipped, or random keys that are bound as weights or that the "
        "function closes over",
        "convert it, for keys with `jax.random.key_data`",
    ),
    "AOTC-E833": Code(
        "a tree whose leaves cannot be named, or that a caller would read otherwise than jax does",
        "use string or integer keys that do not collide; register classes under the names of "
        "their attributes",
    ),
    "AOTC-E834": Code(
        "a dtype that weights and fixtures cannot store",
        "use another dtype at the boundary",
        hint="store it as one of these and convert inside the function",
    ),
    "AOTC-E835": Code(
        "the capture process, or one that reads weights for it, ended early",
        "it says what was traced or read, and the lines printed last",
    ),
    "AOTC-E836": Code(
        "the reference process ended early", "it says what ran, and the lines printed last"
    ),
    "AOTC-E837": Code(
        "a donated input that no output can take the place of",
        "return the updated value with the same shape and dtype, or remove the input from `donate`",
    ),
    "AOTC-E838": Code(
        "a policy for a dimension by whose size the program decides in Python",
        "do not decide by the size in Python: jnp.where, jax.lax.cond and jnp.arange "
        "work at any size; or split the function into two entry points, or leave the "
        "policy at fail",
    ),
    "AOTC-E839": Code(
        "a policy that the function's inputs, outputs or operations do not allow",
        "change the function, or leave the policy at fail",
    ),
    "AOTC-E840": Code(
        "a file that the build is made from was changed while it was read, or between two "
        "processes that read it",
        "build again when nobody writes it; replace files that a build may be reading by "
        "renaming a new one over them",
        expected="a file that stays as it is during the build",
    ),
    "AOTC-E841": Code(
        "an operation that jax cannot lower for a platform of the targets",
        "leave out these targets, or choose another operation there with "
        "`jax.lax.platform_dependent`",
    ),
    "AOTC-E842": Code(
        "plain JAX cannot run the program on the build host, so that there is nothing to compare "
        "executables with",
        "[record its results](build-manifest.md#programs-that-do-not-run-here) where it runs",
        expected="a program that plain JAX runs on this host, to have results to compare with",
        hint="record its results where it runs, and name the file as `results` in its "
        "`fixtures`; or choose what runs here with jax.lax.platform_dependent",
    ),
    "AOTC-E843": Code(
        "a model file is damaged, of another kind, or of a version that is not known",
        "export the model anew; [frontends.md](frontends.md) says with what",
        hint="export the model anew; docs/frontends.md says with what",
    ),
    "AOTC-E844": Code(
        "a model file holds operators, types or states that its frontend does not have",
        "[frontends.md](frontends.md) lists what each one has",
        expected="a model of what its frontend has",
        hint="leave it out of what is exported; docs/frontends.md lists what each frontend has",
    ),
    "AOTC-E845": Code(
        "a model file does not have the signature that the manifest names, or has several",
        "name one of those in the file as `signature`",
    ),
    "AOTC-E846": Code(
        "the inputs in the manifest are not those of the model file",
        "write them as the file has them",
    ),
    "AOTC-E848": Code(
        "an array without values in a program for accelerators",
        "write jnp.zeros in place of jnp.empty",
        expected="arrays that have the same values on every platform",
    ),
}

COMPILE = {
    "AOTC-E901": Code(
        "XLA refused the program",
        "the message is XLA's; it names the operation",
        expected="a program that XLA compiles for this target",
        hint="the message is XLA's; the operation it names is in the entry point",
    ),
    "AOTC-E902": Code(
        "the compiler process crashed",
        "try another target, and report it",
        expected="the compiler process to finish",
        hint="a crash of XLA or LLVM: try another target, and report it with these lines",
    ),
    "AOTC-E903": Code(
        "compilation took too long",
        "simplify the program, or report it to XLA",
    ),
    "AOTC-E904": Code(
        "custom calls that no runtime can serve, with the program's line if it makes them by "
        "`jax.ffi` or Pallas",
        "use other operations",
    ),
    "AOTC-E905": Code(
        "code that is not for the target",
        "leave out of the target what this jaxlib does not know, or build with a newer one",
    ),
    "AOTC-E906": Code(
        "jaxlib is not as expected",
        "install a jaxlib that this aotc supports: `pip install 'jaxlib>=0.11.2,<0.13'`",
    ),
    "AOTC-E907": Code(
        "what compiles for an accelerator is not installed, or not of jaxlib's version",
        "install it; the hint says what",
    ),
    "AOTC-E908": Code(
        "an accelerator that the installed plugin does not know, or a description or an option "
        "of a target that is not understood",
        "correct the target file",
    ),
    "AOTC-E909": Code(
        "no backend for the target's platform", "correct the platform, or install its package"
    ),
    "AOTC-E910": Code(
        "jax is not as expected",
        "install a jax version that this aotc supports: `pip install 'jax>=0.11.2,<0.13'`",
    ),
    "AOTC-E911": Code(
        "`--tune`, but this host cannot run the target",
        "tune on such a host with --save-tuning, and build here with --tuning",
        expected="a host that runs the target, to measure on",
    ),
    "AOTC-E912": Code(
        "the process that measures candidates crashed",
        "build without `--tune`, and report it",
        expected="every executable to run on the inputs of its fixture",
        hint="build without --tune, and report this with the lines above",
    ),
    "AOTC-E913": Code(
        "a worker of `--executor` with another toolchain",
        "install the same versions of aotc, jaxlib, numpy and msgspec on all workers, "
        "and start them anew",
        expected="the toolchain of this build: its bundle says what it was built with",
    ),
    "AOTC-E914": Code(
        "the executor lost a task: its workers are gone, crashed, or raised something",
        "look at the workers: they need this version of aotc, and enough memory",
        expected="workers that finish their tasks",
    ),
    "AOTC-E915": Code(
        "a worker's answer is damaged, or it did not get what was sent",
        "build again; look at the workers and the network between",
        expected="an executable with the digest that it was sent with",
    ),
    "AOTC-E916": Code(
        "another engine than XLA refused the program: it has no code for an operation, or would "
        "compute something else",
        "leave out the operation that the message names, or list another engine behind this "
        'one: `engines = [..., "xla"]`',
        expected="a program that the engine compiles for this target as XLA does",
    ),
}

REPRODUCIBILITY = {
    "AOTC-E940": Code(
        "two builds of the same differ, from the first stage that does",
        "look at the first difference: a program that depends on time, a random number, the "
        "environment or another folder",
    ),
    "AOTC-E941": Code(
        "`aotc reproduce`: no provenance of one build",
        "build with --key, which signs what was built from what; of a merged bundle, "
        "reproduce those it was merged from",
        expected="the provenance of one build",
    ),
    "AOTC-E942": Code(
        "`aotc reproduce`: the build manifest is not there, or is another",
        "check out what was built; `--manifest` names the file",
    ),
    "AOTC-E943": Code(
        "`aotc reproduce`: a source, weights or fixture file is missing or another, or the "
        "tuning file is not named",
        "take the files that the bundle was built from",
    ),
    "AOTC-E944": Code(
        "`aotc reproduce`: other versions of packages than the build had; or results differ, and "
        "aotc calls itself the same version but has other code",
        "`--install --trust POLICY`, or an environment with these versions; the aotc that built "
        "the bundle",
    ),
    "AOTC-E945": Code(
        "`aotc reproduce`: provenance that names what no build records: a file, package or "
        "target that is none",
        "aotc did not write this; pass --trust to take provenance of keys you trust only",
    ),
    "AOTC-E946": Code(
        "`aotc reproduce`: results differ, and a variable that the recorded build read is set in "
        "one of the two builds only, or perhaps to another value",
        "give it the value that it had, which provenance does not hold",
    ),
}

PARITY = {
    "AOTC-E950": Code(
        "a model gives other results than its framework recorded (`expected`)",
        "check that they were recorded with this very model, in evaluation mode; raise "
        "`expected_tolerance` if the difference is harmless; else report it: the file was read "
        "wrongly",
    ),
    "AOTC-E951": Code(
        "an executable differs from plain JAX by more than the tolerance, and from the same module "
        "in float64",
        "the message says which side is wrong: build for another engine, or state what callers "
        "pass in `ranges`; raise `tolerance` only where both are as close to float64",
        expected="what plain JAX computes, within the entry point's tolerance",
        hint="look for what is not deterministic in the program; otherwise build for another "
        "engine, and report it with the program",
    ),
    "AOTC-E952": Code(
        "an executable crashed or hung on its fixture",
        "reduce the program and report it",
        expected="every executable to run its fixture",
    ),
    "AOTC-E953": Code(
        "the runtime refused what was just built", "a bug in aotc, or a full disk: report it"
    ),
    "AOTC-E954": Code(
        "`aotc run --expect`: the result is another",
        "see the difference; pass `--rtol` and `--atol`",
        hint="compare with the file that belongs to this bundle, or raise --rtol",
    ),
    "AOTC-E955": Code(
        "a padded call gives another result than one of exactly its sizes: the padding leaks",
        "keep it out of what is added up, with a `mask`; say in `ranges` what integers hold; or "
        "leave the policy at `fail`",
    ),
    "AOTC-E956": Code(
        "a split call gives another result than one of exactly its sizes",
        "leave the policy at `fail`: entries depend on each other",
    ),
    "AOTC-E957": Code(
        "`aotc certify`: a fixture is beyond its tolerance under another version",
        "keep to the builder's, or build with that one too",
    ),
    "AOTC-E958": Code(
        "`aotc certify`: under another version the process died or did not end, or the runtime "
        "refused",
        "keep to the builder's; what happened is in the certificate",
    ),
    "AOTC-E959": Code(
        "a call of the bundle takes or returns another structure than plain JAX, changes its "
        "arguments or weights, or gives another result when it is repeated",
        "build for another engine, and report it; dicts, lists and tuples of arrays avoid what is "
        "wrong with a structure",
    ),
}

FLEETS = {
    "AOTC-E961": Code(
        "`aotc compat`: a host on which no target of the bundle runs",
        "build for a target that it has, or bring it to an accepted jaxlib",
        expected="a target that runs there",
    ),
}

BUDGETS = {
    "AOTC-E971": Code(
        "`aotc profiles check`: profiles serve a smaller part of the traffic than `--min-coverage`",
        "`aotc profiles suggest` finds profiles that serve it",
    ),
    "AOTC-E972": Code(
        "`aotc profiles check`: more padding than `--max-padding`",
        "`aotc profiles suggest MANIFEST --traffic` finds profiles that fit better",
    ),
    "AOTC-E973": Code(
        "a profile needs more memory than its target's `memory_limit`",
        "remove the profile or make it smaller, or raise the limit",
    ),
    "AOTC-E975": Code(
        "a build goes beyond one of its manifest's [gates](build-manifest.md#gates)",
        "change the program, or the gate",
    ),
    "AOTC-E976": Code(
        "`aotc diff`: a change that a rule of `--fail-on` meets; any change without rules",
        "review the differences, or change the rules",
    ),
}

ABORTED = {
    "AOTC-E981": Code(
        "Ctrl-C (SIGINT) stopped the command",
        "run the command again; nothing was left half-written",
        expected="to run to the end",
    ),
}

TERMINATED = {
    "AOTC-E982": Code(
        "SIGTERM stopped the command",
        "run the command again; nothing was left half-written",
        expected="to run to the end",
    ),
}

HUNG_UP = {
    "AOTC-E983": Code(
        "SIGHUP stopped the command: its terminal or connection went away",
        "run it again, under `nohup`, `tmux` or `screen` if it is to go on; nothing was left "
        "half-written",
        expected="to run to the end",
        hint="run the command again; nothing was left half-written",
    ),
}

FAMILIES: tuple[Family, ...] = (
    Family(UsageError, "E0xx", "usage", USAGE),
    Family(TrustError, "E3xx", "trust", TRUST),
    Family(ResourceError, "E55x", "resources", RESOURCES),
    Family(BackendError, "E75x", "backend", BACKEND),
    Family(BuildManifestError, "E80x, E81x", "build manifest and target files", BUILD_MANIFEST),
    Family(CaptureError, "E82x, E83x, E84x", "capture", CAPTURE),
    Family(CompileError, "E90x, E91x", "compile", COMPILE),
    Family(ReproducibilityError, "E94x", "reproducibility", REPRODUCIBILITY),
    Family(ParityError, "E95x", "parity", PARITY),
    Family(FleetError, "E96x", "fleets", FLEETS),
    Family(BudgetExceededError, "E97x", "budgets", BUDGETS),
    Family(AbortedError, "E981", "Ctrl-C", ABORTED),
    Family(TerminatedError, "E982", "SIGTERM", TERMINATED),
    Family(HungUpError, "E983", "SIGHUP", HUNG_UP),
)

FAMILY_OF: dict[str, Family] = {
    **aotc_runtime.base.codes.FAMILY_OF,
    **{code: family for family in FAMILIES for code in family.rows},
}
"""The runtime's codes, too: the toolchain refuses with both."""
