"""aotc beside what a user would pick instead: one machine, one run, outputs checked."""
