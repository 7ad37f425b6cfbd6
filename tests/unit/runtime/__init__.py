"""Tests of aotc_runtime, laid out as the package is."""
