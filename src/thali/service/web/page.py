"""The page at ``/``: files of ours as they are, from memory. No other file can be had, and nothing of another host."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parent / "static"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Scripts, styles and requests of this host only; no markup from text (Trusted Types); in no frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


@cache
def files() -> dict[str, bytes]:
    """All of the page, by name."""
    return {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in KINDS}


@router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """The page."""
    return part("index.html")


@router.get("/page/{name}")
async def asset(name: str) -> Response:
    """One of its parts."""
    if name not in files():
        raise HTTPException(404, "there is no such page")
    return part(name)


def part(name: str) -> Response:
    """A file of the page."""
    return Response(files()[name], media_type=KINDS[Path(name).suffix], headers={"Content-Security-Policy": POLICY})
