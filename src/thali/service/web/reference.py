"""The page at /docs: Swagger UI, from the package swagger-ui-py, so that it works where there is no internet."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>thali: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null});\n'


@cache
def folder() -> Path:
    """Where the package keeps its assets."""
    found = find_spec("swagger_ui")
    if found is None or found.origin is None:
        raise HTTPException(404, "the page needs the package swagger-ui-py, which is not installed")
    return Path(found.origin).parent / "static"


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """What starts it."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """One of its parts, by name: no other file can be had."""
    if name not in ASSETS:
        raise HTTPException(404, "there is no such page")
    return FileResponse(folder() / name, media_type=ASSETS[name])
