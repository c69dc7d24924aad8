"""Routes for items and topics: list items, and get, add, change or remove one."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from thali.service.http.background import use_catalog
from thali.service.http.bodies import CatalogBody, ItemBody, ItemsBody
from thali.service.http.responses import json_response
from thali.service.http.routes.common import ItemName, authorize, documented
from thali.service.recommender.handlers.items import find_items, usual_weights
from thali.service.recommender.operations import FindItems, GetItem, PutItem, PutItems, RemoveItem
from thali_client.types import CatalogLoaded, Item, Items, ItemsChanged, Topics

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
    live = service.recommender.live
    return json_response(await asyncio.to_thread(find_items, live.catalog.snapshot(), live.quality, operation))


@router.put("/v1/items", summary="Add, change or remove many items", responses=documented(ItemsChanged))
async def put_items(request: Request, body: ItemsBody) -> Response:
    """Add, change or remove up to 10,000 items: all of them or, if one is not valid, none."""
    service = authorize(request, "admin")
    changes = [RemoveItem(one.item) if one.remove else PutItem(one.item, one.weights, one.topics) for one in body.items]
    # As in a search for items: first apply the changes of other processes, then compute in a thread.
    await service.batcher.perform(())
    live = service.recommender.live
    typical = await asyncio.to_thread(usual_weights, live.catalog.snapshot(), changes)
    return json_response(ItemsChanged(await service.batcher.one(PutItems(changes, typical, live.epoch))))


@router.post("/v1/catalog", summary="Load the catalog file again", responses=documented(CatalogLoaded))
async def load_catalog(request: Request, body: CatalogBody | None = None) -> Response:
    """Load the catalog file again, and put it into use without a restart, in all processes of the service.

    What was learned about users is kept for topics that have the same name. The status is 422 if the file cannot be
    used, or if changes made to items through the API would be lost. The old catalog then stays in use.
    """
    service = authorize(request, "admin")
    items = await use_catalog(service, discard_changes=body is not None and body.discard_changes)
    return json_response(CatalogLoaded(items, list(map(str, service.recommender.catalog.topics))))


@router.get("/v1/items/{item:path}", summary="Get an item", responses=documented(Item, 404))
async def item(request: Request, item: ItemName) -> Response:
    """Get an item with its weights."""
    return json_response(await authorize(request, "read").batcher.one(GetItem(item)))


@router.put("/v1/items/{item:path}", summary="Add or change an item", responses=documented(Item))
async def put_item(request: Request, item: ItemName, body: ItemBody) -> Response:
    """Add an item, or change its weights. The next list can already contain it, and what was learned is kept.

    With topics instead of weights, the item gets the weights that items with these topics usually have.
    """
    return json_response(await authorize(request, "admin").batcher.one(PutItem(item, body.weights, body.topics)))


@router.delete("/v1/items/{item:path}", summary="Remove an item", responses=documented(Item, 404))
async def remove_item(request: Request, item: ItemName) -> Response:
    """Remove an item. It is no longer shown, but what was learned from it is kept."""
    return json_response(await authorize(request, "admin").batcher.one(RemoveItem(item)))


@router.get("/v1/topics", summary="List topics", responses=documented(Topics))
async def topics(request: Request) -> Response:
    """List the topics of the catalog."""
    return json_response(Topics(list(map(str, authorize(request, "read").recommender.catalog.topics))))
