"""Optional features, each in one folder that can be removed.

A workshop may use the main line, but neither the main line nor another workshop imports it: the
registry of commands (`aotc.cli.registry`) names it, by text.
"""
