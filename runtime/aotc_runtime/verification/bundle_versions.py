"""Comparing bundle versions, so that a policy can refuse a rollback.

One to four numbers, compared by value. What follows them decides second: a suffix (`-rc1`, `.dev3`,
`b2`) makes a pre-release, which comes before the release, except `post`, which comes after it; text
behind `+` names a build of the same version and decides nothing.
"""

import re

_VERSION = re.compile(
    r"\A(\d{1,18}(?:\.\d{1,18}){0,3})(?:[-.]?([A-Za-z][A-Za-z0-9.-]{0,99}))?(?:\+[A-Za-z0-9.+-]*)?\Z",
    re.ASCII,
)
_PART = re.compile(r"(\d{1,18})|([A-Za-z]+)")

PRE_RELEASE, RELEASE, POST_RELEASE = 0, 1, 2

Key = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...]]


def version_key(text: str) -> Key | None:
    """Return a sort key, or None if the text is no version.

    "1.0" equals "1.0.0" and "1.0.0+cuda"; "1.0.0-rc9" < "1.0.0-rc10" < "1.0.0" < "1.0.0.post1".
    """
    match = _VERSION.match(text)
    if not match:
        return None
    numbers = tuple(int(part) for part in match[1].split("."))
    padded = numbers + (0,) * (4 - len(numbers))
    suffix = (match[2] or "").lower()
    stage = PRE_RELEASE if suffix else RELEASE
    if suffix.startswith("post"):
        stage = POST_RELEASE
    parts = tuple(
        (0, int(number), "") if number else (1, 0, word) for number, word in _PART.findall(suffix)
    )
    return padded, stage, parts
