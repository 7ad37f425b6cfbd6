"""Child processes that do one job each: `parent` starts them, and in them `child` answers.

A worker is a command whose last argument is a folder of its own. There it finds its job; there it
leaves its answer, or findings if it refuses the job; any other end is a crash. On its stdout it
tells what it starts and finishes, a line each. What it and its libraries print besides is kept.
"""
