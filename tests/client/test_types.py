"""The shared types against the JSON of a real service."""

import dataclasses

import msgspec
import pytest
from serving_here import serving

import thali_client
from thali_client import Client, types


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with two answered lists."""
    with serving(tmp_path_factory.mktemp("service")) as service, Client(service.url) as client:
        for clicked in ([1], []):
            client.feedback(client.recommend("ana").id, clicked)
        yield service


def routes(service):
    with Client(service.url) as client:
        impression = next(client.history("ana"))
    simulation = {"policies": ["CascadeLSB", "CascadeUCB1"], "steps": 20, "trace": True, "points": [10, 20]}
    change = {"step": 5, "theta": dict.fromkeys(client_topics(service), 0.1)}
    yield "POST", "/v1/recommend", {"user": "ben"}, types.Shown
    yield "POST", "/v1/recommend", {"user": "ben", "explain": True}, types.Shown
    yield "POST", "/v1/feedback", {"impression": impression.id, "clicked": impression.clicked}, types.Answer
    batch = [{"impression": impression.id, "clicked": clicked} for clicked in (impression.clicked, [0, 1])]
    yield "POST", "/v1/feedback", batch, types.Results
    yield "GET", f"/v1/impressions/{impression.id}", None, types.Impression
    yield "GET", "/v1/users/ana", None, types.User
    yield "GET", "/v1/users/ana/impressions?limit=1", None, types.HistoryPage
    yield "GET", "/v1/users/ana/export", None, types.Export
    yield "GET", "/v1/users/nobody", None, types.Error
    yield "GET", "/v1/items?limit=2", None, types.Items
    yield "GET", "/v1/items/i1", None, types.Item
    yield "PUT", "/v1/items", {"items": [{"item": "i99", "topics": ["drama"]}]}, types.ItemsChanged
    yield "GET", "/v1/prior", None, types.Priors
    yield "GET", "/v1/topics", None, types.Topics
    yield "GET", "/v1/stats", None, types.Stats
    yield "POST", "/v1/simulations", {**simulation, "changes": [change]}, types.Simulated
    yield "GET", "/v1/about", None, types.About
    yield "GET", "/v1/health", None, types.Health
    yield "GET", "/healthz", None, types.Status
    yield "DELETE", "/v1/users/ana", None, types.Forgotten


def client_topics(service):
    with Client(service.url) as client:
        return client.topics()


def test_every_response_is_the_same_after_decoding_and_encoding(running):
    """So the types have all fields of the JSON, in its order, and nothing else."""
    for method, path, body, kind in routes(running):
        response = running.ask(method, path, body)
        assert msgspec.json.encode(msgspec.json.decode(response.body, type=kind)) == response.body, path


def test_unknown_fields_are_ignored_and_missing_ones_are_an_error():
    assert msgspec.json.decode(b'{"status": "ok", "new": 1}', type=types.Status) == types.Status("ok")
    with pytest.raises(msgspec.ValidationError, match="missing required field `status`"):
        msgspec.json.decode(b"{}", type=types.Status)


@pytest.mark.parametrize("name", types.__all__)
def test_types_are_slotted_dataclasses_and_frozen(name):
    kind = getattr(types, name)
    assert dataclasses.is_dataclass(kind)
    assert "__slots__" in vars(kind)
    assert kind.__dataclass_params__.frozen == (name != "ShownItem")  # not frozen: it is created in large numbers
    assert getattr(thali_client, name) is kind


def test_all_names_are_exported():
    assert set(types.__all__) < set(thali_client.__all__)
    assert all(hasattr(thali_client, name) for name in thali_client.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        thali_client.Server  # noqa: B018
