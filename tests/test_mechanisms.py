"""The edits that switch off a mechanism of the search engine (`make mechanisms`) fit the current source."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_mechanism_can_be_switched_off(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "switched_off", raising=False)
    from switched_off import MECHANISMS

    for mechanism in MECHANISMS:
        edited = mechanism.edited(ROOT / "src" / "thali")
        assert edited, mechanism.name
        for text in edited.values():
            ast.parse(text)
