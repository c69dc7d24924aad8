"""The API reference at /docs: Swagger UI from the package swagger-ui-py, so that it works without internet access."""

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
<title>thali API</title>
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
    """Return the folder in which the package keeps its files."""
    package = find_spec("swagger_ui")
    if package is None or package.origin is None:
        raise HTTPException(404, "the API reference needs the package swagger-ui-py, which is not installed")
    return Path(package.origin).parent / "static"


@router.get("/docs")
async def docs() -> Response:
    """Return the page."""
    return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """Return the script that starts Swagger UI."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Return one of the files that the page loads."""
    if name not in ASSETS:
        raise HTTPException(404, f"the API reference has no file {name!r:.80}")
    return FileResponse(folder() / name, media_type=ASSETS[name])
