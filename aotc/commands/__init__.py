"""Optional features, each in one folder that can be removed.

A workshop holds everything of its feature: the command (`command.py`), the library, the child
process that it starts, the texts that it prints. It may use the main line; neither the main line
nor another workshop imports it. The registry of commands (`aotc.cli.command_registry`) names its
command,
and what serves an option of another command, by text. What two workshops need is a room of the main
line, such as `aotc.bundle.read`.
"""
