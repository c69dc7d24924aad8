"""Experiments of your own: they are in the report with figures and numbers, and your policies can be told apart."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from running import Inline

import thali
from thali.lab.figures import COLORS, OTHER_COLORS, looks
from thali.lab.report import build
from thali.lab.results import Results
from thali.lab.runner import Store, run
from thali.lab.settings import PRACTICAL, Experiment, Setting
from thali.lab.sources import SOURCES, add_source, selected

MINE = Experiment("mine/first", "synthetic", 3, 2, steps=20, users=2, splits=1, settings=(PRACTICAL,))


@pytest.mark.parametrize(
    ("changes", "tabs"),
    [
        pytest.param({}, ["practical α = 8"], marks=pytest.mark.slow),
        ({"settings": (Setting(4.0), Setting(2.0, 0.5))}, ["α = 4, σ = 0.1", "α = 2, σ = 0.5"]),
        pytest.param(
            {"policies": ("Random", "MostPopular"), "settings": ()}, ["policies without α"], marks=pytest.mark.slow
        ),
        pytest.param({"settings": tuple(map(Setting, (1.0, 2.0, 4.0)))}, ["mine/first"], marks=pytest.mark.slow),
    ],
)
def test_an_experiment_of_your_own_is_in_the_report(changes, tabs, tmp_path):
    run([replace(MINE, **changes)], Store(tmp_path), Inline())
    made = build(tmp_path)
    page = made.page.read_text()
    assert '<section id="mine"><h2>mine</h2>' in page
    assert "<td>first</td>" in page, "the table of numbers"
    for tab in tabs:
        assert f">{tab}</label>" in page
    assert page.count("data:image/svg+xml;base64,") == len(made.pictures) > 0


def test_experiments_of_the_same_size_get_a_panel_each(tmp_path):
    names = ("mine/a-d3-K2", "mine/b-d3-K2", "mine/c-d5-K4")
    run([replace(MINE, name=name, policies=("Random",)) for name in names], Store(tmp_path), Inline())
    [figure] = [path for path in build(tmp_path).pictures if path.name == "mine.svg"]
    drawn = figure.read_text()
    for name in names:
        assert f"<!-- {name.partition('/')[2]} -->" in drawn  # the title of a panel


@pytest.mark.parametrize("name", ["mine", "mine/a/b", "mine/", "../a", "mine/a b"])
def test_a_name_that_the_report_would_not_find_is_rejected(name):
    with pytest.raises(ValueError, match=f"name of an experiment must be suite/experiment, .*, got '{name}'"):
        replace(MINE, name=name)


# What people with protanopia, deuteranopia and tritanopia see of a color in linear RGB (Machado et al. 2009).
SIGHTS = np.array(
    [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
)
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def difference(one, other):
    """The smallest difference between two colors for any kind of sight, in the units of CIELAB."""

    def lab(color):
        rgb = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        xyz = np.clip(SIGHTS @ linear, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
        x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
        return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)

    return np.linalg.norm(lab(one) - lab(other), axis=1).min()


def test_the_colors_of_added_policies_differ_from_all_others():
    pairs = [*product(OTHER_COLORS, COLORS.values()), *combinations(OTHER_COLORS, 2)]
    assert min(difference(*pair) for pair in pairs) > 15


def test_twenty_added_policies_can_be_told_apart_and_look_the_same_in_every_figure():
    added = [f"Policy{at:02}" for at in range(20)]
    look = looks([*added, "CascadeLSB"])
    assert len({(look[name].color, look[name].dashes) for name in added}) == 20
    assert all(look[name].dashes != "-" for name in added)
    assert looks([*reversed(added)]) == look
    assert look["CascadeLSB"].color == COLORS["CascadeLSB"]


def test_the_figure_draws_an_added_policy_in_its_color(tmp_path, monkeypatch):
    monkeypatch.setitem(thali.POLICIES, "Mine", thali.Random)
    run([replace(MINE, policies=("CascadeLSB", "Mine"))], Store(tmp_path), Inline())
    made = build(tmp_path)
    assert pl.Series([OTHER_COLORS[0] in path.read_text() for path in made.pictures]).all()


def test_your_own_data_are_a_source(tmp_path):
    rows = [(user, item, 1 + (user + item) % 5) for user in range(20) for item in range(8) if (user * item) % 3]
    topics = {item: [f"t{item % 3}"] for item in range(8)}
    data = thali.datasets.Interactions.of(rows, topics)
    experiment = replace(MINE, source="my films", users=4, splits=2, policies=("CascadeLSB", "Random"))
    with pytest.raises(ValueError, match="source of mine/first must be one of .*, got 'my films'"):
        run([experiment], Store(tmp_path), Inline())
    try:
        add_source("my films", data, at_least=3)
        names = run([experiment], Store(tmp_path), Inline())
        assert run([replace(experiment, clicks="dependent-click")], Store(tmp_path / "other"), Inline()) != names
        assert set(Store(tmp_path).rows(names)["user"]) <= set(map(str, range(20)))
        others = thali.datasets.Interactions.of([(f"other {u}", e, v) for u, e, v in rows], topics)
        add_source("my films", others)
        run([experiment], Store(tmp_path), Inline())
        with pytest.raises(ValueError, match="come from different data sets"):
            list(Results(tmp_path).curves)
        add_source("my films", data)
        assert selected("my films", None) is not data
        assert len(selected("my films", None)) == len(data), "the data that were added last"
    finally:
        del SOURCES["my films"]
    with pytest.raises(ValueError, match="name of add_source must not be .* thali's own, got 'movielens'"):
        add_source("movielens", data)
    with pytest.raises(TypeError, match="data of add_source"):
        add_source("my films", rows)
