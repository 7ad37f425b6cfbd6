"""Bad bundles by name, made from one good one: each with the code it has to be refused with."""

from .archives import ARCHIVES
from .blobs import BLOBS
from .case import Case, Kit
from .folders import PLACES
from .layout import LAYOUT
from .manifests import MANIFESTS
from .signatures import SIGNATURES
from .sparse import SPARSE
from .spellings import SPELLINGS

CASES: tuple[Case, ...] = (
    *ARCHIVES,
    *PLACES,
    *LAYOUT,
    *SPELLINGS,
    *MANIFESTS,
    *BLOBS,
    *SIGNATURES,
    *SPARSE,
)

__all__ = ["CASES", "Case", "Kit"]
