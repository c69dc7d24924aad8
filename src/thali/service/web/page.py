"""The page at ``/``. Its files are served from memory, and no others. It loads nothing from other hosts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parent / "static"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Allows scripts, styles and requests of this host only. Forbids markup from text (Trusted Types), and frames.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@cache
def files() -> dict[str, bytes]:
    """Return all files of the page, by name."""
    return {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in KINDS}


@router.get("/")
async def page() -> Response:
    """Return the page."""
    return file_response("index.html")


@router.get("/page/{name}")
async def asset(name: str) -> Response:
    """Return one of the files that the page loads."""
    if name not in files():
        raise HTTPException(404, f"the page has no file {name!r:.80}")
    return file_response(name)


def file_response(name: str) -> Response:
    """Return a file of the page."""
    return Response(files()[name], media_type=KINDS[Path(name).suffix], headers={"Content-Security-Policy": POLICY})
