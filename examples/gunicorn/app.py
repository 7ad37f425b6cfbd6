"""A web application of your own with a bundle in it: POST /classify {"image": [[64 numbers], …]}.

BUNDLE=digits.aotb TRUST=trust.toml uvicorn app:app
BUNDLE=digits.aotb TRUST=trust.toml gunicorn -c gunicorn.conf.py app:app

For bundles without code around them there is `aotc-runtime serve`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import aotc_runtime

bundle: aotc_runtime.LoadedBundle | None = None
"""gunicorn.conf.py puts it here in every worker; under uvicorn alone it is loaded at the start."""


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    global bundle
    if bundle is None:
        where = {"path": os.environ["BUNDLE"], "trust": os.environ["TRUST"]}
        bundle = await asyncio.to_thread(aotc_runtime.load, **where)
    with bundle:
        yield


async def classify(request: Request) -> JSONResponse:
    assert bundle is not None, "the application has started"
    try:
        image = np.asarray((await request.json())["image"], np.float32)
    except (KeyError, TypeError, ValueError) as error:
        return JSONResponse({"error": f"no image: {error}"}, 400)
    try:
        result = await bundle["predict"].call_async(image)
    except aotc_runtime.ShapeError as error:
        return JSONResponse({"findings": [each.to_json() for each in error.findings]}, 422)
    return JSONResponse({"label": result["label"].tolist()})


async def ready(request: Request) -> JSONResponse:
    return JSONResponse({"version": bundle.version if bundle else None})


routes = [Route("/classify", classify, methods=["POST"]), Route("/ready", ready)]
app = Starlette(routes=routes, lifespan=lifespan)
