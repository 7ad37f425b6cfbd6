"""Words for errors: near misses among names. Imported where an error is made, never before."""

from collections.abc import Collection
from difflib import get_close_matches


def closest(name: object, known: Collection[str]) -> str | None:
    """Return the known name that is most like a misspelt one, or the only one that it begins."""
    if not isinstance(name, str):
        return None
    spelled = {each.casefold(): each for each in sorted(known)}
    # Comparing texts that are longer than any name takes time and finds nothing.
    close = get_close_matches(name[:256].casefold(), spelled, 1)
    begun = [each for each in spelled if len(name) > 2 and each.startswith(name.casefold())]
    return spelled[close[0]] if close else spelled[begun[0]] if len(begun) == 1 else None


def did_you_mean(name: object, known: Collection[str], otherwise: str) -> str:
    """Return a hint: the closest known name, or `otherwise` if none comes close."""
    close = closest(name, known)
    return f"did you mean `{close}`?" if close else otherwise


def with_article(noun: str) -> str:
    """Return the noun with its article: "an int", "a str"."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"
