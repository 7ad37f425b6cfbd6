"""Optional commands, one folder each.

A folder holds everything of its command: the click command (`NAME_command.py`), its library, the
child processes that it starts, the texts that it prints. It may import the core; neither the core
nor another command imports it. Entry points in pyproject.toml register it (`aotc.commands`), what
serves an option of another command (`aotc.options`), and a kind of signer (`aotc.signers`).
"""
