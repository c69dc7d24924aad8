"""Routes for priors: what learners believe about people before their first click."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thali.service.http.background import learn_prior
from thali.service.http.bodies import PriorBody
from thali.service.http.responses import json_response
from thali.service.http.routes.common import authorize, documented
from thali.service.recommender.operations import GetPrior
from thali_client.types import LearnerPrior, Priors

router = APIRouter(tags=["priors"])


@router.get("/v1/prior", summary="Get the priors", responses=documented(Priors))
async def priors(request: Request) -> Response:
    """Get the prior of each learner: what it believes about people before their first click, and where it comes from.

    If a learned prior is in use, the response says how well it predicts clicks, compared with the prior of the start, a
    static list and popular items.
    """
    return json_response(Priors(await authorize(request, "read").batcher.one(GetPrior())))


@router.post("/v1/prior", summary="Learn a prior", responses=documented(LearnerPrior, 409))
async def learn(request: Request, body: PriorBody | None = None) -> Response:
    """Learn the prior of a learner from the statistics of its users now, and put it into use.

    This also happens by itself at regular intervals. The learner must have been started with prior=learn. If users were
    forgotten while the prior was learned, it is learned again without them. The status is 409 if this happens again and
    again.
    """
    service = authorize(request, "admin")
    learner = service.recommender.prior_learner(None if body is None else body.learner)
    return json_response(await learn_prior(service, learner))
