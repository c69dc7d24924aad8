"""Items: list them, look at one, add, change or remove one; and the topics."""

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


@router.get("/v1/items", responses=documented(Items))
async def items(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    contains: Annotated[str, Query(max_length=256, description="Only items with this in their name.")] = "",
) -> Response:
    """The items of the catalog and their weights."""
    service, operation = authorize(request, "read"), FindItems(offset, limit, contains)
    if not contains:
        return json_response(await service.batcher.one(operation))
    # An empty transaction first reads the items that other processes have changed. The search over all names then runs
    # in a thread, so that it does not delay other requests.
    await service.batcher.perform(())
    return json_response(await asyncio.to_thread(find_items, service.recommender, operation))


@router.get("/v1/items/{item:path}", responses=documented(Item, 404))
async def item(request: Request, item: ItemName) -> Response:
    """An item and its weights."""
    return json_response(await authorize(request, "read").batcher.one(GetItem(item)))


@router.put("/v1/items/{item:path}", responses=documented(Item))
async def put_item(request: Request, item: ItemName, body: ItemBody) -> Response:
    """Add an item, or change its weights. It can be in the next list of every process; what was learned stays."""
    weights: dict[Any, float] = dict(body.weights)
    return json_response(await authorize(request, "admin").batcher.one(PutItem(item, weights)))


@router.delete("/v1/items/{item:path}", responses=documented(Item, 404))
async def remove_item(request: Request, item: ItemName) -> Response:
    """Remove an item: it is no longer shown. What was learned from it stays."""
    return json_response(await authorize(request, "admin").batcher.one(RemoveItem(item)))


@router.get("/v1/topics", responses=documented(Topics))
async def topics(request: Request) -> Response:
    """The topics of the catalog."""
    return json_response(Topics(list(map(str, authorize(request, "read").recommender.catalog.topics))))
