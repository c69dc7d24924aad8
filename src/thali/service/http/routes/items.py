"""Routes for items and topics: list items, and get, add, change or remove one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from thali.service.http.bodies import ItemBody
from thali.service.http.responses import json_response
from thali.service.http.routes.common import ItemName, authorize, documented
from thali.service.recommender.handlers.items import find_items
from thali.service.recommender.operations import FindItems, GetItem, PutItem, RemoveItem
from thali_client.types import Item, Items, Topics

router = APIRouter(tags=["items"])


@router.get("/v1/items", summary="List items", responses=documented(Items))
async def items(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**31, description="The number of items to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="The largest number of items to return.")] = 100,
    contains: Annotated[
        str, Query(max_length=256, description="Return only items whose name contains this text (not case-sensitive).")
    ] = "",
) -> Response:
    """List the items of the catalog with their weights."""
    service, operation = authorize(request, "read"), FindItems(offset, limit, contains)
    if not contains:
        return json_response(await service.batcher.one(operation))
    # An empty transaction first applies the item changes of other processes. The search over all names then runs in a
    # thread, so that it does not delay other requests, which may change items meanwhile.
    await service.batcher.perform(())
    return json_response(await asyncio.to_thread(find_items, service.recommender.catalog.snapshot(), operation))


@router.get("/v1/items/{item:path}", summary="Get an item", responses=documented(Item, 404))
async def item(request: Request, item: ItemName) -> Response:
    """Get an item with its weights."""
    return json_response(await authorize(request, "read").batcher.one(GetItem(item)))


@router.put("/v1/items/{item:path}", summary="Add or change an item", responses=documented(Item))
async def put_item(request: Request, item: ItemName, body: ItemBody) -> Response:
    """Add an item, or change its weights. The next list can already contain it, and what was learned is kept."""
    weights: dict[Any, float] = dict(body.weights)
    return json_response(await authorize(request, "admin").batcher.one(PutItem(item, weights)))


@router.delete("/v1/items/{item:path}", summary="Remove an item", responses=documented(Item, 404))
async def remove_item(request: Request, item: ItemName) -> Response:
    """Remove an item. It is no longer shown, but what was learned from it is kept."""
    return json_response(await authorize(request, "admin").batcher.one(RemoveItem(item)))


@router.get("/v1/topics", summary="List topics", responses=documented(Topics))
async def topics(request: Request) -> Response:
    """List the topics of the catalog."""
    return json_response(Topics(list(map(str, authorize(request, "read").recommender.catalog.topics))))
