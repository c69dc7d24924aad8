"""Checks of the reasons that the page shows for each item, against the service and the catalog."""

from __future__ import annotations

import numpy as np
import pytest
from playing import Player

import thali


def says(text: str | None, value: float) -> bool:
    """Whether the text is this number, rounded to two digits. A tie may be rounded up or down."""
    return abs(float((text or "").replace("\N{MINUS SIGN}", "-")) - value) <= 0.005 + 1e-9


def coverage(catalog: thali.Catalog, names: list[str]) -> dict[str, float]:
    """Return 1 - Π(1 - w̄) of these items, by topic."""
    index = {name: e for e, name in enumerate(catalog.items)}
    weights = catalog.csr[[index[name] for name in names]].toarray()
    return dict(zip(map(str, catalog.topics), 1 - np.prod(1 - weights, axis=0), strict=True))


def check_reasons(catalog: thali.Catalog, player: Player, *, diverse: bool) -> list[str]:
    """Check the reasons for each item against the service and the weights. Return how each topic was marked."""
    truth, kinds = player.truth.items, []
    largest = max(max(0.0, one.belief) + one.exploration for one in truth)
    for at, one in enumerate(truth):
        button = player.items.nth(at)
        above, alone = coverage(catalog, player.names[:at]), coverage(catalog, [one.item])
        chips = button.locator(".chip").evaluate_all(
            "chips => chips.map((one) => [one.querySelector('b').textContent, one.textContent, one.className])"
        )
        seen = {text.removesuffix(f" {gain}"): (gain, kind.removeprefix("chip ")) for gain, text, kind in chips}
        assert set(seen) == set(one.topics) == set(one.gains)
        assert [float(gain) for gain, _, _ in chips] == sorted((float(gain) for gain, _, _ in chips), reverse=True)
        for topic, (gain, kind) in seen.items():
            had = above[topic]
            assert one.gains[topic] == pytest.approx(alone[topic] * (1 - had if diverse else 1))
            assert gain.startswith("+") == diverse
            assert says(gain.removeprefix("+"), one.gains[topic])
            assert kind == ("covered" if had > 2 / 3 else "partly" if had > 1 / 3 else "fresh")
            kinds.append(kind)
        description = button.locator(f"#{button.get_attribute('aria-describedby')}").text_content() or ""
        adds, numbers = description.split(" Belief ")
        assert all(topic in adds for topic, gain in one.gains.items() if gain >= 0.005)
        belief, exploration = numbers.removesuffix(".").split(", exploration ")
        assert says(belief, one.belief)
        assert says(exploration, one.exploration)
        bars = button.locator("svg.index rect").evaluate_all("all => all.map((one) => +one.getAttribute('width'))")
        lost = min(one.exploration, max(0.0, -one.belief))
        parts = (max(0.0, one.belief), one.exploration - lost, lost)
        assert bars == pytest.approx([100 * part / largest if largest else 0.0 for part in parts], abs=1e-6)
    whole, rows = coverage(catalog, player.names), player.rows()
    for topic, row in rows.items():
        share = float(row["has"].removesuffix("\N{THIN SPACE}%"))
        assert share == pytest.approx(100 * whole[topic], abs=0.5 + 1e-9)
    return kinds
