"""Files that a trust policy names in place of texts, imported for the first that names one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.policy_refusals import unreadable_file

FILES = (
    ("keys", "public_key"),
    ("certifiers", "public_key"),
    ("timestamp_authorities", "certificates"),
    ("identities", "trusted_root"),
)
"""Tables whose entries may name a file, and the field for its text: the file's path is in the field
of that name with `_file`.
"""


def with_texts(
    policy: TrustPolicy,
    folder: str | os.PathLike[str],
    place: Callable[[str, int, Any], str],
    read: Callable[[Path], str],
    findings: list[Finding],
) -> TrustPolicy:
    """Return the policy with the texts of the files that it names.

    An entry that states both, or neither, stays as it is. `place` says where an entry stands, by
    its table and index. Files that `read` cannot read (AOTC-E308, E309) are added to findings.
    """
    tables: dict[str, tuple[Any, ...]] = {}
    for table, field in FILES:
        entries = []
        for index, entry in enumerate(getattr(policy, table)):
            name = getattr(entry, f"{field}_file")
            if name and not getattr(entry, field):
                path = Path(folder) / name
                try:
                    entry = replace(entry, **{field: read(path), f"{field}_file": ""})
                except (OSError, ValueError) as error:
                    # UnicodeDecodeError, or a path with a zero byte.
                    findings.append(unreadable_file(f"{place(table, index, entry)} {path}", error))
            entries.append(entry)
        tables[table] = tuple(entries)
    return replace(policy, **tables)
