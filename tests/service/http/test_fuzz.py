"""Requests generated from the OpenAPI document: none is a 5xx, and every response is as the document says."""

import re
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.openapi import from_dict
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving_here import TOPICS, serving

import thali
from thali.service.http.app import create_app
from thali.service.http.settings import LearnerSetting, Settings
from thali.service.recommender.operations import AddHistory

pytestmark = pytest.mark.slow
SCHEMA = from_dict(create_app(Settings(catalog="none")).app.openapi())
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What no error response may contain: tracebacks, files, SQL statements, names of our classes.
INTERNALS = re.compile(rb"Traceback|\.py\b|thali\.db|/tmp/|SELECT |INSERT |sqlite3|psycopg|pydantic|FeedbackBody", re.I)


POLICIES = ("CascadeLSB", "CascadeKLUCB", "CascadeLSB-TS", "RankedExp3", "Random", "MMR")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def service(request, tmp_path_factory):
    store = {} if request.param == "sqlite" else {"store": request.getfixturevalue("postgres").fresh()}
    learner = LearnerSetting("default", K=4, prior="learn")
    with serving(tmp_path_factory.mktemp("fuzz"), learners=(learner,), **store) as running:
        yield running


@pytest.fixture(scope="module")
def reached(service):
    """The statuses of each operation. At the end, each must have succeeded: rejected requests alone prove little."""
    seen: dict[str, set[int]] = {}
    yield seen
    assert not {name: statuses for name, statuses in seen.items() if 200 not in statuses}


@SCHEMA.parametrize()
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_generated_requests(case, service, reached):
    """Each request is sent twice: as generated, and with existing names instead of the generated ones."""
    seen = reached.setdefault(case.operation.label, set())
    for _ in range(2):
        reply = case.call(base_url=service.url)
        case.validate_response(reply, checks=CHECKS)
        assert reply.status_code < 400 or not internals(reply, sent=case), reply.content
        seen.add(reply.status_code)
        with_names_that_exist(case, service)


def internals(reply, sent):
    """What of our inside the response reveals. Messages may repeat what the request itself contained."""
    request = repr((sent.body, sent.path_parameters, sent.query, sent.headers, sent.cookies)).lower().encode()
    return [found for found in INTERNALS.findall(reply.content) if found.lower() not in request]


def with_names_that_exist(case, service):
    with service.client() as client:
        client.put_item("i0", {"comedy": 0.5})
        shown = client.recommend("ana").id
        client.feedback(shown, [1])
        client.feedback(client.recommend("bob").id, [0])  # a prior is learned from at least two users
    names = {"user": "ana", "item": "i0", "impression": shown, "history": "ratings"}
    if "history" in (case.path_parameters or ()):
        add_history(service, "ana", "ratings")
    for place in names.keys() & set(case.path_parameters or ()):
        case.path_parameters[place] = names[place]
    for body in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(body, dict):
            fill(body, {**names, "learner": "default"})


def add_history(service, user, name):
    """Learn a history as ``thali learn-from`` does, beside the service."""
    catalog = thali.load_catalog(service.settings.catalog)
    with thali.Recommender(thali.CascadeLSB(catalog, 4), service.settings.store) as rec:
        d = catalog.d
        rec.perform([AddHistory(user, name, np.eye(d), np.ones(d), [], "digest")], whole=True)


def fill(body, names):
    """Replace the names in a body by existing ones, if they have the right type."""
    for field, name in names.items():
        if type(body.get(field)) is type(name):
            body[field] = name
    for field in ("candidates", "exclude"):
        if isinstance(body.get(field), list):
            body[field] = [f"i{at % 24}" for at in range(len(body[field]))]
    for field in ("weights", "theta"):
        if isinstance(body.get(field), dict):
            body[field] = dict(zip(TOPICS, body[field].values(), strict=False))
    if isinstance(body.get("policies"), list):
        body["policies"] = [POLICIES[crc32(repr(one).encode()) % len(POLICIES)] for one in body["policies"]]
    if isinstance(body.get("steps"), int):
        body["steps"] = min(body["steps"], 20)
    if type(body.get("since")) is int:
        body["since"] = min(body["since"], 10)
    if isinstance(body.get("points"), list):
        body["points"] = [at + 1 if type(point) is int else point for at, point in enumerate(body["points"])][:20]
    for at, change in enumerate(body["changes"] if isinstance(body.get("changes"), list) else ()):
        if isinstance(change, dict):
            fill(change, {"step": at + 1})
