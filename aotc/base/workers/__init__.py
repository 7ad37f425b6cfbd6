"""Child processes that do one job each: `worker_parent` starts them, `worker_child` runs in them.

A worker is a command whose last argument is a folder of its own. It reads its job there, and leaves
its result there, or findings if it rejects the job; any other end is a crash. On stdout it reports
what it starts and finishes, a line each. Everything else that it prints is kept.
"""
