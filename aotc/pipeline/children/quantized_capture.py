"""Quantizes the weights of captured entry points, as their precision in the manifest says."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import jax.numpy as jnp
import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from aotc.base.errors import by_reason, finding, raise_if, refusal, shorten
from aotc.base.evidence import KEPT, AppliedPrecision, Calibration, QuantizedWeight
from aotc.base.stages import CapturedEntryPoint, CapturedSymbolic, Module, Stored, Tensor
from aotc.capture.portable_stablehlo import portable
from aotc.capture.weight_sets import CLOSURE, Weights
from aotc.check.quantized_weights import is_nearest
from aotc.compile.mlir import mlir_context
from aotc.compile.precision.bfloat16_products import bfloat16_uses, multiply_bfloat16
from aotc.compile.precision.quantized_module import take_quantized
from aotc.compile.precision.quantized_numbers import (
    Array,
    Scheme,
    dequantize,
    error_of,
    from_stored,
    quantize,
    to_stored,
)
from aotc.compile.precision.weight_products import OtherUse, Product, Use, uses_of
from aotc.config.build_manifest import BuildManifest
from aotc.config.precision_specs import FLOAT32, PrecisionSpec
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.bundle_manifest import Argument, WeightArgument

NUMBERS_MIN = 1024
"""Weights with fewer numbers are kept: they take no time, and their scales would weigh more."""

QUANTIZED = ("float32", "bfloat16", "float16")
"""Element types that are quantized; the first one only to bfloat16."""

type Name = tuple[str, str]
"""A weight: its set, and its name there."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A quantized weight: its scheme, its record, and the tensors that are stored, by name."""

    scheme: Scheme
    record: QuantizedWeight
    tensors: Mapping[str, Array]


@dataclass(slots=True)
class Quantizer:
    """Quantizes weights of a manifest's entry points. Entry points share what is equal."""

    _manifest: BuildManifest
    _weights: Mapping[str, Weights]
    _calibrate: Callable[[CapturedEntryPoint, Collection[Name]], Calibration]
    _made: dict[tuple[Name, str], _Made] = field(default_factory=dict)
    _matched: set[tuple[str, str]] = field(default_factory=set)
    _names: dict[str, set[str]] = field(default_factory=dict)

    def quantize(self, captured: CapturedEntryPoint) -> CapturedEntryPoint:
        """Return an entry point whose modules take quantized weights, if its precision says so.

        Raises BuildManifestError: AOTC-E805 for groups that do not divide an axis, E809 if no
        weight can be quantized.
        """
        stated = self._manifest.precision_of(captured.name)
        if stated is None:
            return captured
        name, spec = stated
        chosen = self._manifest.chosen.get(captured.name)
        known: dict[Name, set[Use]] = {}
        for module, arguments in _modules(captured):
            read = mlir_context.read_artifact(module.artifact)
            names = weight_names(arguments)
            matched = [place for place, each in names.items() if _patterns(each, spec)]
            uses = uses_of(read) if spec.compute == FLOAT32 else bfloat16_uses(read, matched)
            for place, each in names.items():
                known.setdefault(each, set()).update(uses[place])
        made: dict[Name, _Made] = {}
        kept: dict[str, str] = {}
        findings: list[Finding] = []
        self._names.setdefault(name, set()).update(w[1] for w in known if w[0] != CLOSURE)
        for weight, every in sorted(known.items()):
            self._matched |= {(name, each) for each in _patterns(weight, spec)}
            scheme = self._scheme(weight, every, spec)
            if isinstance(scheme, str):
                is_controlled = chosen is not None and weight[1] in chosen.keep
                kept[" ".join(weight)] = KEPT[1] if is_controlled else scheme
                continue
            findings += self._check_groups(weight, scheme, name)
            if findings:
                continue
            quantized = self._quantize(weight, scheme)
            if isinstance(quantized, str):
                kept[" ".join(weight)] = quantized
            else:
                made[weight] = quantized
        raise_if(findings)
        if not made and spec.compute == FLOAT32:
            where = ("entry_points", captured.name, "precision")
            raise self._without_effect(by_reason(kept) or "no weights", *where)
        calibration: Calibration | UnsetType = UNSET
        if spec.activations == "static":
            calibration = self._calibrate(captured, made)
        applied = AppliedPrecision(
            name=name,
            quantized=tuple(each.record for _, each in sorted(made.items())),
            kept=kept,
            activations=spec.compute if spec.compute == "bfloat16" else spec.activations,
            calibration=calibration,
        )
        rewriter = _Rewriter(made, applied.rounded, applied.wide)
        rewritten = rewriter.rewritten(captured)
        if spec.rounds and not rewriter.products:
            key, reason = "activations", "no matrix product of a quantized weight outside of loops"
            if spec.compute != FLOAT32:
                key, reason = "compute", "no product of float32"
            raise self._without_effect(reason, "precision", name, key)
        applied = msgspec.structs.replace(applied, products=rewriter.products)
        return replace(rewritten, precision=applied)

    def _without_effect(self, reason: str, *path: str) -> AotcError:
        where, cause = self._manifest.where(*path), "precision-has-no-effect"
        return refusal("AOTC-E809", where, reason, cause=cause)

    def unmatched_patterns(self) -> Iterator[Finding]:
        """Yield AOTC-E806 for patterns of weights to keep that match none."""
        for name, names in self._names.items():
            for index, pattern in enumerate(self._manifest.precision[name].keep):
                if (name, pattern) not in self._matched:
                    yield finding(
                        "AOTC-E806",
                        self._manifest.where("precision", name, "keep", index),
                        pattern,
                        cause="keep-pattern-matches-nothing",
                        expected=f"one of: {shorten(sorted(names))}",
                    )

    def stored_tensors(
        self, name: str, tensors: Mapping[str, Tensor], captured: Mapping[str, CapturedEntryPoint]
    ) -> dict[str, Tensor]:
        """Return the tensors of a weights set that the bundle holds.

        Weights that every entry point takes quantized are left out.
        """
        used = {
            tensor
            for each in captured.values()
            for _, arguments in _modules(each)
            for owner, tensor in weight_names(arguments).values()
            if owner == name
        }
        made = [(tensor, new) for ((owner, tensor), _), new in self._made.items() if owner == name]
        replaced = {tensor for tensor, _ in made} - used
        new = {key: value for _, each in made for key, value in each.tensors.items() if key in used}
        if taken := sorted(new.keys() & tensors.keys()):
            where = self._manifest.where("weights", name)
            raise refusal("AOTC-E830", where, taken[0], cause="tensor-names-conflict")
        return {key: value for key, value in tensors.items() if key not in replaced} | new

    def _scheme(self, weight: Name, uses: set[Use], spec: PrecisionSpec) -> Scheme | str:
        """Return the scheme of a weight, or why it is kept."""
        if weight[0] == CLOSURE:
            return "the function closes over it"
        if _patterns(weight, spec):
            return KEPT[0]
        tensor, is_narrow = self._weights[weight[0]].tensors[weight[1]], spec.compute != FLOAT32
        if tensor.dtype.name not in (QUANTIZED[:1] if is_narrow else QUANTIZED):
            return str(tensor.dtype)
        is_small = len(tensor.shape) < 2 or np.prod(tensor.shape) < NUMBERS_MIN
        if is_small and not is_narrow:
            return f"fewer than {NUMBERS_MIN} numbers" if len(tensor.shape) > 1 else "one axis"
        if others := sorted(each.operation for each in uses if isinstance(each, OtherUse)):
            return f"used by {', '.join(others)}"
        products = [each for each in uses if isinstance(each, Product)]
        if spec.weights == FLOAT32:
            return Scheme("bfloat16", ()) if products else "no product sums over it"
        contracted = {each.contracted for each in products}
        if len(contracted) != 1 or () in contracted:
            return "no product sums over it" if not contracted - {()} else "sums over various axes"
        is_kernel = any(each.is_convolution for each in products)
        if is_kernel and spec.weights == "int4":
            return "a convolution"
        return Scheme(spec.weights, contracted.pop(), 0 if is_kernel else spec.block)

    def _check_groups(self, weight: Name, scheme: Scheme, name: str) -> Iterator[Finding]:
        shape = self._weights[weight[0]].tensors[weight[1]].shape
        if scheme.group and (size := shape[scheme.contracted[-1]]) % scheme.group:
            is_stated = self._manifest.precision[name].group is not None
            stated = f"group = {scheme.group}{'' if is_stated else ', the default of int4'}"
            yield finding(
                "AOTC-E805",
                self._manifest.where("precision", name, "group"),
                f"{stated}, and {weight[1]} with {size} numbers to sum",
                cause="group-does-not-divide-the-axis",
                expected=f"a divisor of {size}",
            )

    def _quantize(self, weight: Name, scheme: Scheme) -> _Made | str:
        if found := self._made.get((weight, scheme.label)):
            return found
        array = array_of(self._weights[weight[0]].tensors[weight[1]])
        with np.errstate(all="ignore"):  # the lowest number is rounded to minus infinity
            numbers = quantize(array, scheme)
            rounded = dequantize(numbers, scheme, array.dtype)
        if not np.isfinite(rounded.astype(np.float32)).all():
            return "NaN or infinities"
        largest, snr_db = error_of(array, rounded)
        values = f"{weight[1]}:{scheme.label}"
        record = QuantizedWeight(
            set=weight[0],
            tensor=weight[1],
            original=sha256(array.tobytes()),
            was=array.dtype.name,
            dtype=scheme.dtype,
            values=values,
            scale=f"{values}:scale" if scheme.is_scaled else "",
            contracted=scheme.contracted,
            group=scheme.group,
            max_error=repr(largest),
            # Sums in another order may differ in the last places.
            snr_db=f"{snr_db:.1f}",
        )
        tensors = {record.values: to_stored(numbers, scheme)}
        tensors |= {record.scale: numbers.scale} if scheme.is_scaled else {}
        self._made[weight, scheme.label] = made = _Made(scheme, record, tensors)
        return made


def _patterns(weight: Name, spec: PrecisionSpec) -> list[str]:
    """Return the patterns of weights to keep that match a weight."""
    return [each for each in spec.keep if weight[0] != CLOSURE and fnmatchcase(weight[1], each)]


def weight_names(arguments: Sequence[Argument]) -> dict[int, Name]:
    """Return the weights among arguments, by number."""
    places = enumerate(arguments)
    return {n: (a.set, a.tensor) for n, a in places if isinstance(a, WeightArgument)}


def _modules(captured: CapturedEntryPoint) -> Iterator[tuple[Module, Sequence[Argument]]]:
    """Yield every module of an entry point with its arguments."""
    for profile in captured.profiles:
        for module in (profile.module, *profile.others.values()):
            yield module, profile.arguments
    if captured.symbolic is not None:
        yield captured.symbolic.module, captured.symbolic.arguments


@dataclass(slots=True)
class _Rewriter:
    """Rewrites modules to take quantized weights.

    `units` has the weights whose products become those of integers, with the static scale of the
    other factor or None. `wide` has those whose products stay float32 where others become those of
    bfloat16, or is None. `products` counts changed ones in the module that has most of them.
    """

    made: Mapping[Name, _Made]
    units: Mapping[Name, float | None]
    wide: Collection[Name] | None = None
    products: int = 0

    def rewritten(self, captured: CapturedEntryPoint) -> CapturedEntryPoint:
        """Return an entry point with rewritten modules."""
        profiles = []
        for profile in captured.profiles:
            module, arguments = self._rewritten(profile.module, profile.arguments)
            others = {
                platform: self._rewritten(each, profile.arguments)[0]
                for platform, each in profile.others.items()
            }
            profiles.append(replace(profile, module=module, arguments=arguments, others=others))
        symbolic = captured.symbolic
        if symbolic is not None:
            symbolic = CapturedSymbolic(*self._rewritten(symbolic.module, symbolic.arguments))
        return replace(captured, profiles=tuple(profiles), symbolic=symbolic)

    def _rewritten(
        self, module: Module, arguments: Sequence[Argument]
    ) -> tuple[Module, tuple[Argument, ...]]:
        """Return a module that takes quantized weights, and its arguments."""
        taken, names = [*arguments], weight_names(arguments)
        made = {place: self.made[name] for place, name in names.items() if name in self.made}
        for place, each in made.items():
            taken[place] = WeightArgument(set=each.record.set, tensor=each.record.values)
            if each.scheme.is_scaled:
                taken.append(WeightArgument(set=each.record.set, tensor=each.record.scale))
        read = mlir_context.read_artifact(module.artifact)
        if self.wide is not None:
            wide = [place for place, name in names.items() if name in self.wide]
            products = multiply_bfloat16(read, made, wide)
        else:
            units = {at: self.units[names[at]] for at in made if names[at] in self.units}
            schemes = {place: each.scheme for place, each in made.items()}
            products = take_quantized(read, schemes, units)
        self.products = max(self.products, products)
        return portable(read), tuple(taken)


def array_of(tensor: Tensor) -> Array:
    """Return the numbers of a tensor."""
    if not isinstance(tensor, Stored):
        return np.asarray(tensor)
    data: Any = b"".join(tensor.chunks())
    return np.frombuffer(data, tensor.dtype).reshape(tensor.shape)


def quantized_names(name: str, entry_points: Iterable[CapturedEntryPoint]) -> set[str]:
    """Return the names of the quantized tensors of a weights set, and of their scales."""
    records = [each for entry_point in entry_points for each in _records(name, entry_point)]
    return {named for each in records for named in (each.values, each.scale) if named}


def restored_weights(
    name: str, captured: CapturedEntryPoint, written: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the quantized weights of an entry point as floating-point numbers.

    They are by their name in the program, in the layout that it has; `written` has the tensors of
    the weights set.
    """
    orders = {} if captured.model is None else captured.model.orders
    found: dict[str, Array] = {}
    for each in _records(name, captured):
        scheme = Scheme(each.dtype, each.contracted, each.group)
        scale = written[each.scale] if each.scale else np.ones((), np.float32)
        numbers = from_stored(written[each.values], scale, scheme)
        array = dequantize(numbers, scheme, jnp.dtype(each.was))
        order = orders.get(each.tensor)
        found[each.tensor] = array if order is None else array.transpose(np.argsort(order))
    return found


def check_written(
    name: str,
    tensors: Mapping[str, Tensor],
    written: Mapping[str, Array],
    entry_points: Mapping[str, CapturedEntryPoint],
    where: str,
) -> Iterator[Finding]:
    """Yield AOTC-E959 for each quantized weight of a set that does not have the program's numbers.

    `tensors` are those of the program, and `written` those of the bundle.
    """
    records = {r.values: r for each in entry_points.values() for r in _records(name, each)}
    for each in records.values():
        exact = array_of(tensors[each.tensor])
        values, scale = written[each.values], written[each.scale] if each.scale else exact
        if not is_nearest(exact, values, scale, each.contracted, each.group):
            cause = "quantized-weights-differ"
            yield finding("AOTC-E959", f"{where} {each.tensor}", each.values, cause=cause)


def _records(name: str, captured: CapturedEntryPoint) -> Iterator[QuantizedWeight]:
    known = () if captured.precision is None else captured.precision.quantized
    return (each for each in known if each.set == name)
