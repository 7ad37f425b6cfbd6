"""Whether python-tuf is there, which the other modules here import."""

from aotc_runtime.errors import refusal


def require_tuf() -> None:
    """Raises TrustError (AOTC-E333) where python-tuf is missing."""
    try:
        import tuf.api  # noqa: F401
    except ImportError as error:
        raise refusal("AOTC-E333", "channel", str(error)) from error
