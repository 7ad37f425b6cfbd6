"""Tests of aotc_runtime.servers."""
