"""What a channel says is deployed: TUF metadata, asked by `aotc verify --channel`, by no load."""

from aotc_runtime.errors import refusal


def require_tuf() -> None:
    """Raises TrustError (AOTC-E333) where python-tuf, which the modules here import, is missing."""
    try:
        import tuf.api  # noqa: F401
    except ImportError as error:
        raise refusal("AOTC-E333", "channel", str(error)) from error
