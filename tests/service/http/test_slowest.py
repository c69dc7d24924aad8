"""The slowest requests: limited in number, ordered, and forgotten after an hour."""

from dataclasses import asdict

from recommending import Clock

from thali.service.http.slowest import GENERATION_S, MAX_REQUESTS, Slowest


def test_the_slowest_requests_are_limited_ordered_and_forgotten():
    clock = Clock()
    slowest = Slowest(clock)

    def add(*seconds):
        for each in seconds:
            slowest.add(each, f"id{each}", "GET", "/v1/users/{user}", 200)

    def listed():
        return [round(one.ms / 1000) for one in slowest.all()]

    begin = clock()
    add(*range(50), *range(60, 30, -1), 60)
    assert listed() == sorted([*range(50), *range(60, 30, -1), 60], reverse=True)[:MAX_REQUESTS]
    assert len(listed()) == MAX_REQUESTS
    assert asdict(slowest.all()[0]) == {
        "at": begin, "request_id": "id60", "method": "GET", "route": "/v1/users/{user}", "status": 200, "ms": 60_000.0,
    }  # fmt: skip
    clock.tick(GENERATION_S)
    add(1, 100)  # in a new generation; those of the previous one are kept
    assert listed() == [100, *sorted([*range(50), *range(60, 30, -1), 60], reverse=True)[: MAX_REQUESTS - 1]]
    clock.tick(GENERATION_S)
    add(2)  # the first generation is forgotten, so that quick requests are listed again
    assert listed() == [100, 2, 1]
    clock.tick(GENERATION_S)
    assert listed() == [2]
    clock.tick(2 * GENERATION_S)  # no request came for an hour
    assert listed() == []
    add(3)
    clock.tick(2 * GENERATION_S)
    add(4)
    assert listed() == [4]
