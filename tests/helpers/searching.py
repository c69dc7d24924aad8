"""Items and beliefs that are hard for the search engine."""

import numpy as np

ALPHAS = (0.0, 1e-9, 0.1, 1.0, 8.0, 80.0, 1e6)
SHAPES = (
    "uniform",
    "cloud",
    "wide cloud",
    "ray",
    "nearly a ray",
    "equal",
    "copies",
    "ones",
    "simplex",
    "sparse simplex",
)


def related_weights(shape, n, size, rng):
    """Weights (n, size) of n items with the same topics. The shape says how the items relate to one another."""
    centre, scales = rng.uniform(0.2, 0.9, size=size), rng.uniform(0.1, 1.0, size=(n, 1))
    match shape:
        case "cloud":
            return centre * (1 - 10.0 ** rng.uniform(-16, -2) * rng.random((n, size)))
        case "wide cloud":
            return centre * (1 - 0.2 * rng.random((n, size)))
        case "ray":
            return centre * scales
        case "nearly a ray":
            return np.minimum(1.0, centre * scales * (1 + rng.integers(-3, 4, size=(n, size)) * 2.0**-52))
        case "equal":
            return np.full((n, size), rng.choice([0.25, 1 / 3, 1.0]))
        case "copies":
            return rng.random((3, size))[rng.integers(3, size=n)]
        case "ones":  # coverage becomes complete, so that indices are exactly 0
            return rng.choice([0.5, 1.0, 1e-310], size=(n, size), p=[0.6, 0.3, 0.1])
        case "simplex":
            return np.minimum(1.0, rng.dirichlet(np.ones(size), size=n))
        case "sparse simplex":
            return np.minimum(1.0, rng.dirichlet(np.full(size, 0.1), size=n))
    return rng.random((n, size))


def mixture(rng, largest=600):
    """Items with several sets of topics, shuffled: single items, rays, trees of all depths, and some without topics."""
    d = int(rng.choice([1, 2, 4, 6, 12, 24]))
    sizes = [size for size in (1, 2, 3, 4, 5, 8, 20) if size <= d]
    parts = [np.zeros((int(rng.integers(0, 6)), d))]
    # Groups of the same shape and size compete with one another. Groups with different norms do not.
    shape = str(rng.choice(SHAPES))
    for _ in range(int(rng.integers(1, 9))):
        if rng.random() < 0.3:
            shape = str(rng.choice(SHAPES))
        n, size = int(rng.choice([1, 3, 8, 30, 100, largest], p=[0.2, 0.1, 0.2, 0.2, 0.2, 0.1])), int(rng.choice(sizes))
        part = np.zeros((n, d))
        part[:, rng.choice(d, size=size, replace=False)] = related_weights(shape, n, size, rng)
        parts.append(part)
    return rng.permutation(np.concatenate(parts))


def beliefs(users, d, rng):
    """θ̄ (users, d), M⁻¹ (users, d, d) and α (users,) of all kinds. M is nearly singular for some users."""
    estimate, inverse = np.zeros((users, d)), np.empty((users, d, d))
    for user in range(users):
        spread = np.abs(rng.normal(size=(d, int(rng.integers(1, 2 * d + 2))))) * rng.choice([-1, 1], size=(d, 1))
        M = np.eye(d) + spread @ spread.T * 10.0 ** rng.integers(-3, 10) * rng.integers(0, 2)
        inverse[user] = np.linalg.inv(M)
        match rng.integers(5):
            case 0:
                estimate[user] = -np.abs(rng.normal(size=d)) - 0.5
            case 1:
                estimate[user] = np.round(rng.normal(size=d), 1)
            case 2:
                estimate[user] = rng.normal(size=d) * 10.0 ** rng.integers(-3, 9)
            case 3:
                estimate[user] = rng.random(d)
    return estimate, (inverse + inverse.transpose(0, 2, 1)) / 2, rng.choice(ALPHAS, size=users)


def learned(rng, L, d, s):
    """Weights (L, d + 1) like those of topics learned from clicks, and which topics fade.

    Each item has up to s of d topics, with weights up to 0.2, and a quality up to 0.6 in the last column, which is
    steady. Nearly every item has its own set of topics.
    """
    W = np.zeros((L, d + 1))
    for row in W:
        row[rng.choice(d, size=int(rng.integers(1, s + 1)), replace=False)] = 1.0
    W[:, :d] *= np.minimum(0.2, rng.gamma(0.8, 0.06, size=(L, d)))
    W[:, d] = 0.6 * rng.beta(2, 6, size=L)
    return W, np.arange(d + 1) < d
