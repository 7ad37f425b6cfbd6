"""Tests of served bundles by clients that know nothing of aotc."""
