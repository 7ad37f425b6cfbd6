"""Tests of aotc_runtime.formats."""
