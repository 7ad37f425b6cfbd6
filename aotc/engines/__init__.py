"""Optional compilers and kinds of targets, found by the entry-point group `aotc.engines`."""
