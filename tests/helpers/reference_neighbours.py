"""Algorithms other than the paper's, for one user, in plain Python: slow, short, and easy to check by eye.

Each is written from its own paper, with the changes that the docstring of our policy lists. Items, topics and positions
are 0-based. A list is a list of item numbers, clicks are a list of booleans. An argmax takes the lowest of equal items.
"""

import math

import numpy as np
from reference import gain, index, kl, kl_ucb


def top(values, K, among=None):
    """The K largest of values, in descending order, ties to the lowest item."""
    return sorted(range(len(values)) if among is None else among, key=lambda e: (-values[e], e))[:K]


def depth(clicks, rule):
    """How many positions were examined: up to the first or the last click, or all. All if there is no click."""
    clicked = [k for k in range(len(clicks)) if clicks[k]]
    if rule == "all" or not clicked:
        return len(clicks)
    return (clicked[0] if rule == "first-click" else clicked[-1]) + 1


# --- The linear family -------------------------------------------------------------------------------------------


def features(W, items, kind="probabilistic", diverse=True):
    """(K, d): x of every position, Δ(a_k|a_1..a_{k-1}), or Δ(a_k|∅) if diverse is False."""
    return np.array([gain(W, e, items[:k] if diverse else [], kind) for k, e in enumerate(items)])


def regression(impressions, d, sigma, *, rule="first-click", discount=1.0, window=None, v=None):
    """M and B as one sum over all answered impressions.

    impressions: (number, x (K, d), clicks), where number is how many lists the user was shown before this one. The
    weight of an impression is discount^age, where age is the number of impressions since. With `window`, only the last
    `window` numbers count. v (K,) are position discounts: each row x and each click is multiplied by v_k before
    least squares (Li et al. 2016).
    """
    M, B = np.eye(d), np.zeros(d)
    newest = max((number for number, _, _ in impressions), default=0)
    for number, x, clicks in impressions:
        age = newest - number
        if window is not None and age >= window:
            continue
        for k in range(depth(clicks, rule)):
            row, answer = (x[k], float(clicks[k])) if v is None else (v[k] * x[k], v[k] * float(clicks[k]))
            M = M + discount**age * np.outer(row, row) / sigma**2
            B = B + discount**age * row * answer
    return M, B


def cascade_width(d, K, n, sigma):
    """c of CascadeLinUCB (Zong et al. 2016, Theorem 1) and of CombLinUCB (Wen et al. 2015) at δ = 1/(nK), ‖θ*‖ ≤ 1."""
    return math.sqrt(d * math.log(1 + n * K / (d * sigma**2)) + 2 * math.log(n * K)) / sigma + 1


def gaussian(M, B, sigma, z):
    """θ̄ + L⁻ᵀz with θ̄ = σ⁻²M⁻¹B and M = LLᵀ: a draw from N(θ̄, M⁻¹) if z is standard normal (Wen et al. 2015)."""
    return np.linalg.solve(M, B) / sigma**2 + np.linalg.solve(np.linalg.cholesky(M).T, z)


# --- Diversifiers ------------------------------------------------------------------------------------------------


def cosine(a, b):
    """The cosine of the weights of two items; 0 if one of them has no topics."""
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths > 0 else 0.0


def relevance(W, estimate, inverse, alpha, cap=math.inf):
    """The index of every item alone."""
    return [min(cap, index(w, estimate, inverse, alpha)) for w in W]


def mmr_values(W, worth, chosen, trade_off, among):
    """Carbonell and Goldstein 1998: λ·rel(e) - (1-λ)·max_{s∈S} cos(e, s), rel divided by its largest |value|."""
    size = max(abs(worth[e]) for e in among) or 1.0
    return {
        e: trade_off * worth[e] / size - (1 - trade_off) * max((cosine(W[e], W[s]) for s in chosen), default=0.0)
        for e in among
        if e not in chosen
    }


def divrank(W, prior, damping, link, rounds):
    """The pointwise reinforced walk of Mei et al. 2010 as an m × m matrix, starting from the prior.

    p0(u,v) = α·w(u,v)/deg(u) for v ≠ u, p0(u,u) = 1 - α (1 if u has no neighbour); p_T(u,v) = (1-λ)·p*(v) +
    λ·p0(u,v)·N(v)/D(u), D(u) = Σ_v p0(u,v)·N(v), N(v) proportional to the current distribution.
    """
    m = len(W)
    like = np.array([[cosine(W[u], W[v]) if u != v else 0.0 for v in range(m)] for u in range(m)])
    walk = np.zeros((m, m))
    for u in range(m):
        degree = like[u].sum()
        walk[u] = link * like[u] / degree if degree > 0 else 0.0
        walk[u, u] = 1 - link if degree > 0 else 1.0
    p = np.array(prior)
    for _ in range(rounds):
        step = np.empty((m, m))
        for u in range(m):
            pull = walk[u] * p
            step[u] = (1 - damping) * prior + damping * (pull / pull.sum() if pull.sum() > 0 else walk[u])
        p = p @ step
    return p


# --- The perceptron ----------------------------------------------------------------------------------------------


def rank_feature(W, items, kind):
    """φ(A) = Σ_k Δ(a_k|a_1..a_{k-1})/log2(1 + k), k from 1 (Raman et al. 2012)."""
    return sum(gain(W, e, items[:k], kind) / math.log2(2 + k) for k, e in enumerate(items))


def perceptron_step(w, W, items, clicks, kind):
    """w + φ(Ā) - φ(A), where Ā is A with the clicked items first."""
    better = [e for e, c in zip(items, clicks, strict=True) if c] + [
        e for e, c in zip(items, clicks, strict=True) if not c
    ]
    return w + rank_feature(W, better, kind) - rank_feature(W, items, kind)


# --- Items one by one --------------------------------------------------------------------------------------------


class PlainItems:
    """Counts how often each item was examined and clicked, and computes lists from the counts."""

    def __init__(self, L, K, rule="first-click"):
        self.L, self.K, self.rule, self.updates = L, K, rule, 0
        self.seen, self.ones = [0] * L, [0] * L

    def update(self, items, clicks):
        self.updates += 1
        for k in range(depth(clicks, self.rule)):
            self.seen[items[k]] += 1
            self.ones[items[k]] += bool(clicks[k])

    def share(self, e):
        return self.ones[e] / self.seen[e] if self.seen[e] else 0.0

    def ucb1(self, cap=math.inf):
        """Kveton et al. 2015: ŵ + c_{t-1,T}, c_{t,s} = sqrt(1.5 log t/s), infinite if unseen; at most cap."""
        log_t = math.log(max(1, self.updates))  # updates = t - 1; no item has been seen if that is 0
        wide = [math.sqrt(1.5 * log_t / n) if n else math.inf for n in self.seen]
        return top([min(cap, self.share(e) + wide[e]) for e in range(self.L)], self.K)

    def kl_ucb(self):
        """Katariya et al. 2016, Kveton et al. 2015: T·kl(ŵ, q) ≤ log t + 3 log log t; 1 if unseen."""
        log_t = math.log(self.updates + 1)
        budget = log_t + 3 * math.log(max(1.0, log_t))
        return top([kl_ucb(self.share(e), self.seen[e], budget) for e in range(self.L)], self.K)

    def thompson(self, rng):
        """One draw per item from Beta(1 + clicks, 1 + misses)."""
        seen, ones = np.array(self.seen), np.array(self.ones)
        return top(rng.beta(1 + ones, 1 + seen - ones).tolist(), self.K)

    def pie(self, uniforms, place):
        """Combes et al. 2015, PIE(place + 1): U = (j_1, .., j_{place}, candidate, j_{place+1}, .., j_{K-1})."""
        leaders = top([self.share(e) for e in range(self.L)], self.K)
        last, log_t = self.share(leaders[-1]), math.log(self.updates + 1)
        budget = log_t + 4 * math.log(max(1.0, log_t))
        better = [
            e
            for e in range(self.L)
            if e not in leaders and (self.seen[e] == 0 or self.seen[e] * kl(self.share(e), last) <= budget)
        ]
        if not better or uniforms[0] >= 0.5:
            return leaders
        one = better[int(uniforms[1] * len(better))]
        return [*leaders[:place], one, *leaders[place:-1]]


# --- A bandit for every position ---------------------------------------------------------------------------------


class PlainRanked:
    """Radlinski et al. 2008 with bandits that choose among the items not above them. independent: any click rewards."""

    def __init__(self, L, K, base, *, gamma=None, independent=False):
        self.L, self.K, self.base, self.gamma, self.independent = L, K, base, gamma, independent
        self.seen = [[0] * L for _ in range(K)]
        self.ones = [[0] * L for _ in range(K)]
        self.score = [[0.0] * L for _ in range(K)]
        self.updates = 0

    def bound(self, k, e):
        """UCB1 (Auer et al. 2002a) or KL-UCB (Garivier and Cappé 2011) of an item at a position."""
        n, t = self.seen[k][e], self.updates + 1
        if n == 0:
            return math.inf if self.base == "ucb1" else 1.0
        if self.base == "ucb1":
            return self.ones[k][e] / n + math.sqrt(2 * math.log(t - 1) / n)
        return kl_ucb(self.ones[k][e] / n, n, math.log(t) + 3 * math.log(max(1.0, math.log(t))))

    def chances(self, k, above):
        """Exp3's probabilities (Auer et al. 2002b) of the items not above position k: {item: p}."""
        left = [e for e in range(self.L) if e not in above]
        power = {e: self.gamma * self.score[k][e] / len(left) for e in left}
        most = max(power.values())
        weight = {e: math.exp(power[e] - most) for e in left}
        total = sum(weight.values())
        return {e: (1 - self.gamma) * weight[e] / total + self.gamma / len(left) for e in left}

    def recommend(self, uniforms=None):
        """uniforms (K,): for Exp3, one uniform number per position. It selects an item by cumulative probability."""
        chosen = []
        for k in range(self.K):
            if self.base == "exp3":
                total, pick = 0.0, None
                for e, p in self.chances(k, chosen).items():
                    total, pick = total + p, e
                    if uniforms[k] < total:
                        break
                chosen.append(pick)
            else:
                left = [e for e in range(self.L) if e not in chosen]
                chosen.append(max(left, key=lambda e: self.bound(k, e)))
        return chosen

    def update(self, items, clicks):
        first = clicks.index(True) if True in clicks else None
        self.updates += 1
        for k, e in enumerate(items):
            reward = clicks[k] if self.independent else k == first
            self.seen[k][e] += 1
            self.ones[k][e] += reward
            if reward and self.base == "exp3":
                self.score[k][e] += 1 / self.chances(k, items[:k])[e]


def some_clicks(rng, K, most=None):
    """Random clicks (K,): none, one or several. most: the largest number of clicks."""
    clicks = rng.random(K) < rng.choice([0.0, 0.1, 0.5])
    if most is not None:
        clicks[np.flatnonzero(clicks)[most:]] = False
    return clicks
