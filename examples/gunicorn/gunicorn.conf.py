"""The bundle is hashed once, by the master, and loaded by every worker from the same pages.

`kill -HUP` of the master reads this file again, and so verifies and loads what lies there by then.
"""

import os

import aotc_runtime

bind = "127.0.0.1:8000"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "uvicorn_worker.UvicornWorker"
graceful_timeout = 30

verified = aotc_runtime.verify(os.environ["BUNDLE"], trust=os.environ["TRUST"])


def post_fork(server, worker):
    import app

    app.bundle = verified.load(threads=1)  # loading before the fork would start threads too early
