"""`aotc diff --fail-on`: which changes end a command with exit code 9.

A rule is a kind of change (`module`, `weights`), `any`, `none`, or a number with how much it may
change: `flops>+5%`, `temp_memory>+64 kB`, `fusions<-2`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from aotc.base.byte_sizes import UNITS
from aotc.base.errors import finding, refusal, shorten
from aotc.bundle.read.bundle_facts import NUMBERS
from aotc.commands.diff.bundle_diff import KINDS, Change, Diff
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean

ANY, NONE = "any", "none"

_UNITS = {"": 1, **UNITS}
_LIMIT = re.compile(
    r"\A(?P<name>[a-z_]+)(?P<sign>>\+|<-)(?P<amount>\d+(?:\.\d+)?) ?(?P<unit>%|\w*)\Z"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `--fail-on`.

    `text` is as written; `kind` is that of changes, "any" for all. `sign` is +1 or -1 for a number
    that may grow or shrink by at most `limit`, 0 for any change. With `is_part`, the limit is a
    share of the value before.
    """

    text: str
    kind: str
    sign: int = 0
    limit: Fraction = Fraction(0)
    is_part: bool = False

    def meets(self, change: Change) -> bool:
        """Return whether a change is one that the rule is about."""
        if self.kind not in (ANY, change.kind):
            return False
        if not self.sign:
            return True
        if change.numbers is None:
            return True  # only one of them tells it
        before, after = change.numbers
        grown = self.sign * (after - before)
        return grown > self.limit * (before if self.is_part else 1)


def parse_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of a command line, by default `any`; commas separate several.

    Raises UsageError (AOTC-E056).
    """
    stated = [part.strip() for text in texts for part in text.split(",")]
    return tuple(_rule(part) for part in stated) or (Rule(ANY, ANY),)


def _rule(text: str) -> Rule:
    if text in (ANY, NONE) or text in KINDS or text in NUMBERS:
        return Rule(text, text)
    found = _LIMIT.match(text)
    unit = found["unit"] if found else ""
    units = NUMBERS.get(found["name"], ()) if found else ()
    if found and units and unit in ("%", *(_UNITS if units[0] == "bytes" else ("",))):
        amount = Fraction(found["amount"])
        limit = amount / 100 if unit == "%" else amount * _UNITS[unit]
        return Rule(text, found["name"], 1 if found["sign"] == ">+" else -1, limit, unit == "%")
    expected = f"any, none, {', '.join(KINDS)}, or one of {', '.join(NUMBERS)} with a limit"
    known, name = (ANY, NONE, *KINDS, *NUMBERS), re.split("[<>]", text)[0]
    hint = None if name in known else did_you_mean(name, known, "") or None
    raise refusal("AOTC-E056", f"--fail-on {text}", repr(text), expected=expected, hint=hint)


def violations(rules: Sequence[Rule], diff: Diff) -> Iterator[Finding]:
    """Yield AOTC-E976 for every rule that a change meets."""
    where = f"{diff.before.bundle} and {diff.after.bundle}"
    for rule in rules:
        met = [change for change in diff.changes if rule.meets(change)]
        if met:
            found = _kinds(met) if rule.kind == ANY else _places(met)
            expected = "" if rule.kind == ANY else f"no change as in {rule.text}"
            yield finding("AOTC-E976", where, found, expected=expected)
        elif rule.kind == ANY and not diff.is_same:
            found, expected = diff.after.root_digest, diff.before.root_digest
            yield finding("AOTC-E976", where, found, expected=expected, cause="root-digests-differ")


def _kinds(changes: Sequence[Change]) -> str:
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{number} of {kind}" for kind, number in counts.items())


def _places(changes: Sequence[Change]) -> str:
    return shorten([f"{c.where} {c.before} -> {c.after}" for c in changes], 3, "; ")
