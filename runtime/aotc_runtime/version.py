"""The version of this package, stated where reading it costs nothing (a test holds it equal to
the distribution's)."""

VERSION = "0.1.0"
