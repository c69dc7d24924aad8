"""A small catalog, five people, and one click model of every kind, for tests of simulations."""

import numpy as np
from instances import weights

import thali

rng = np.random.default_rng(1)
W = weights("sparse", 15, 4, rng)
catalog = thali.Catalog(W)
theta = rng.dirichlet(np.ones(4), size=5)
model = thali.DiverseCascade(catalog, theta)
policy = thali.CascadeLSB(catalog, 3)


class Fixed(thali.Policy):
    """Always shows the same list, and records the clicks: they depend on nothing but the model's random numbers."""

    grows = True

    def start(self, users):
        return self.new_state(seen=np.zeros((users, 0, self.K), dtype=bool))

    def choose(self, state, rng):
        return np.tile(np.arange(self.K), (state.users, 1))

    def learn(self, state, lists, clicks, gains):
        state.seen = np.concatenate([state.seen, clicks[:, None]], axis=1)


class Late(thali.DiverseCascade):
    """Overrides respond: clicks on the last attractive item instead of the first."""

    def respond(self, lists, uniforms):
        return super().respond(np.asarray(lists)[:, ::-1], uniforms)[:, ::-1]


class Halved(thali.LinearSubmodular):
    """Overrides click_probability: returns half of it."""

    def click_probability(self, lists):
        return super().click_probability(lists) / 2


class Tired(thali.LinearSubmodular):
    """Overrides habits: after a click, people leave sooner at lower positions; without one, each at their own rate."""

    def habits(self, attraction):
        pace = np.linspace(0.5, 1.0, len(attraction))[:, None]
        return thali.Habits(attraction, 0.8 ** np.arange(attraction.shape[1]), pace)


MODELS = {
    "Cascade": thali.Cascade(rng.random((5, 15)) * 0.6),
    "Cascade.of_topics": thali.Cascade.of_topics(catalog, theta),
    "DiverseCascade": model,
    "LinearSubmodular": thali.LinearSubmodular(thali.Catalog(W, coverage="max"), theta),
    "DependentClick": thali.DependentClick(catalog, theta, going_on=0.9),
    "DynamicBayesian": thali.DynamicBayesian(catalog, theta, satisfaction=0.2, perseverance=0.9),
    "PositionBased": thali.PositionBased(catalog, theta, examined=0.9 ** np.arange(15)),
    "NoisyCascade": thali.NoisyCascade(catalog, theta, extra=0.2, skip=0.1),
    "own respond": Late(catalog, theta),
    "own click_probability": Halved(catalog, theta),
    "own habits": Tired(catalog, theta),
}
