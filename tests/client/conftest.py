import pytest
from faulty_server import FaultyServer

from thali_client import Client


@pytest.fixture
def service():
    with FaultyServer() as running:
        yield running


@pytest.fixture
def client(service):
    with Client(service.url, timeout=0.3) as client:
        yield client
