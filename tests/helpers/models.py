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
    """Always the same list: all it can notice is its luck."""

    grows = True

    def start(self, users):
        return self.new_state(seen=np.zeros((users, 0, self.K), dtype=bool))

    def choose(self, state, rng):
        return np.tile(np.arange(self.K), (state.users, 1))

    def learn(self, state, lists, clicks, gains):
        state.seen = np.concatenate([state.seen, clicks[:, None]], axis=1)


class Late(thali.DiverseCascade):
    """Responds in a way of its own: clicks on the last item that attracts."""

    def respond(self, lists, luck):
        return super().respond(np.asarray(lists)[:, ::-1], luck)[:, ::-1]


class Halved(thali.LinearSubmodular):
    """Counts a click as half."""

    def click_probability(self, lists):
        return super().click_probability(lists) / 2


class Tired(thali.LinearSubmodular):
    """Browses in a way of its own: gets tired, and each person at a pace of their own."""

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
